"""Every block of Python in the README runs, as it stands, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
# What Spark says whatever one sets, its Python workers when it stops, and pyspark of pandas 3.
SPARKS_OWN = re.compile(r"incubator|log4j|log ?level|NativeCodeLoader|pandas|adaptive|\[Stage|^\s*$", re.IGNORECASE)
SPARKS_END = re.compile(r'Traceback .*\n(?:  File "[^"]*pyspark/daemon.py".*\n(?:    .*\n)*)+BrokenPipeError: .*\n')

BLOCKS = re.findall(r"^## ([^\n]+)\n.*?^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("code", [pytest.param(code, id=title) for title, code in BLOCKS])
def test_the_readme_block_runs(code: str, tmp_path: Path) -> None:
    run([sys.executable, "-W", "error::ResourceWarning", "-c", code], tmp_path)


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.name)
def test_the_example_runs(script: Path, tmp_path: Path) -> None:
    assert "rows" in run([sys.executable, str(script)], tmp_path)


def test_no_block_is_left_out() -> None:
    assert len(BLOCKS) == README.read_text().count("```python") == 6


def run(command: list[str], folder: Path) -> str:
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=110, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    said = [line for line in SPARKS_END.sub("", done.stderr).splitlines() if not SPARKS_OWN.search(line)]
    assert said == []
    return done.stdout
