"""``pytest --tally FILE`` adds a line of JSON to the file for each test that cites a fault.

`crash_matrix` makes the table in docs/guarantees.md of it.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from support.citations import cited_in
from support.tally import taken


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tally", metavar="FILE", help="add what tests of faults measured to this file")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    if call.when == "setup":
        taken()
    path = item.config.getoption("--tally")
    if call.when != "call" or path is None or not isinstance(item, pytest.Function):
        return report
    faults = [number for number in cited_in(item.function.__doc__) if number.startswith("F")]
    if faults and not report.skipped:
        line = {
            "test": item.nodeid.partition("[")[0].partition("@")[0],
            "faults": faults,
            "outcome": report.outcome,
            "counts": [asdict(count) for count in taken()],
        }
        # One write of one line: workers of xdist share the file.
        with Path(path).open("a") as file:
            file.write(json.dumps(line) + "\n")
    return report
