"""Benches run end to end, with little data, and save results that the report can show."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.report import ROOT
from harness.results import load
from support.deadlines import PROGRAM_SECONDS


def run(bench: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "bench" / f"{bench}.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False)


@pytest.mark.parametrize(
    "bench", ["push", *(pytest.param(bench, marks=pytest.mark.slow) for bench in ("live", "stream", "awaited"))]
)
def test_a_bench_runs_and_saves_every_case(bench: str, tmp_path: Path) -> None:
    done = run(bench, "--quick", "--output", str(tmp_path))
    assert done.returncode == 0, done.stderr
    result = load(tmp_path, bench)
    assert result is not None
    assert result.quick
    assert result.about
    assert (
        [case.name for case in result.cases] == [case.name for case in result.cases if case.name in done.stdout] != []
    )
    for case in result.cases:
        first = next(iter(case.units))
        assert all(line.figures[first].samples for line in case.lines if line.ours), case.name


def test_a_quick_run_does_not_replace_saved_results() -> None:
    done = run("push", "--quick", "--save")
    assert done.returncode == 2
    assert "a quick run measures nothing" in done.stderr
