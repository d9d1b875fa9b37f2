"""Prometheus's own checks of rules and queries."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from support.deadlines import PROGRAM_SECONDS


class Promtool:
    """The program `promtool`."""

    def __init__(self, program: str) -> None:
        self._program = program

    def run(self, *arguments: str | Path) -> str:
        """Return what it prints; the test fails where it finds something wrong."""
        done = subprocess.run(
            [self._program, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=PROGRAM_SECONDS
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def parse(self, queries: Iterable[str], folder: Path) -> None:
        """Fail the test if one of the queries is no PromQL."""
        rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
        file = folder / "queries.yml"  # JSON is YAML
        file.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
        assert f"{len(rules)} rules found" in self.run("check", "rules", file)


def find_promtool() -> Promtool:
    """The machine's own; the test is skipped where there is none."""
    if program := shutil.which("promtool"):
        return Promtool(program)
    pytest.skip("there is no promtool on this machine (apt-get install --no-install-recommends prometheus)")
