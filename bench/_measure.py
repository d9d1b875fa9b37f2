"""Helpers of the benchmarks: interleaved timing, peak memory of a child process, a text table."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def interleaved(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median seconds of each contender. They run in turns, so that noise affects all of them alike."""
    for run in contenders.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            started = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(times) for name, times in seconds.items()}


def in_child(script: str, *arguments: object) -> dict[str, Any]:
    """Run a bench file as ``python file --child args`` and read the JSON line it prints last."""
    command = [sys.executable, script, "--child", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
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


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a text table with aligned columns."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in [header, *rows]]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1])
    raise KeyError(key)
