"""Measurements in a separate process, for peaks of memory, which would otherwise add up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def in_child(script: str, *arguments: object) -> dict[str, Any]:
    """Run a bench as ``python file --child arguments``, and read the JSON line that it prints last."""
    command = [sys.executable, script, "--child", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


class PeakMemory:
    """The peak of resident memory in the block, above its start, in MB."""

    def __enter__(self) -> PeakMemory:
        Path("/proc/self/clear_refs").write_text("5")
        self._before = _status("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        self.mb = (_status("VmHWM") - self._before) / 1024


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1])
    raise KeyError(key)
