"""Python interpreters that Spark might be given for its tasks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def bare_python(folder: Path) -> Path:
    """A Python without packages, neither installed nor from PYTHONPATH, except those that Spark gives its workers."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "bare")], check=True)
    return script(
        folder / "bare-python",
        'PYTHONPATH=$(echo "$PYTHONPATH" | tr : "\\n" | grep pyspark | paste -sd :)\n'
        f'export PYTHONPATH\nexec {folder}/bare/bin/python "$@"',
    )


def script(path: Path, text: str) -> Path:
    """A program that a shell runs."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path
