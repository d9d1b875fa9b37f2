"""``make matrix``: the table of faults in docs/guarantees.md, made of what a run of the tests has counted.

Each test that cites a fault has left a line in a file (see `tally_plugin`), and ``make crash`` leaves one too.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- matrix: made by `make matrix`, not by hand -->", "<!-- end of matrix -->"
_LANDING = range(1, 13)
_NONE = "-"


@dataclass
class Cell:
    """What was counted of one fault in one mode."""

    times: int = 0
    rows: int = 0
    lost: int = 0
    doubled: int = 0
    failed: int = 0
    is_compared: bool = False
    tests: set[str] = field(default_factory=set)

    def add(self, count: dict[str, Any] | None, test: str, outcome: str) -> None:
        """A count, or None for a test that compared no rows: it is one experiment."""
        self.times += 1 if count is None else count["times"]
        if count is not None:
            self.is_compared = True
            self.rows += count["rows"]
            self.lost += count["lost"]
            self.doubled += count["doubled"]
        self.failed += outcome != "passed"
        self.tests.add(test)

    def line(self, fault: str, mode: str) -> str:
        outcome = "as promised" if not self.failed else f"{self.failed} FAILED"
        counts = (f"{self.rows:,}", f"{self.lost:,}", f"{self.doubled:,}") if self.is_compared else (_NONE,) * 3
        tests = ", ".join(f"`{test}`" for test in sorted(self.tests))
        return f"| {fault} | {mode} | {outcome} | {self.times:,} | {' | '.join(counts)} | {tests} |"


def number_of(fault: str) -> int:
    """The first of those named."""
    return int(re.findall(r"\d+", fault)[0])


def cells_of(lines: Iterable[str]) -> dict[tuple[str, str], Cell]:
    """What was counted, by fault and mode."""
    cells: dict[tuple[str, str], Cell] = defaultdict(Cell)
    for line in lines:
        told = json.loads(line)
        test = told["test"].partition("::")[0].rpartition("/")[2].removesuffix(".py")
        for count in told["counts"] or [None]:
            mode = count["mode"] if count else _NONE
            uncompared = count.get("uncompared", ()) if count else ()
            for fault in _faults_of([fault for fault in told["faults"] if fault not in uncompared], mode):
                cells[fault, mode].add(count, test, told["outcome"])
    return cells


def _faults_of(faults: list[str], mode: str) -> set[str]:
    """Each of them; what was counted of a mixture is of all of them together."""
    if not mode.endswith(("mixed", "simulated")):
        return set(faults)
    numbers = sorted({number_of(fault) for fault in faults})
    starts = [number for number in numbers if number - 1 not in numbers]
    ends = [number for number in numbers if number + 1 not in numbers]
    spans = zip(starts, ends, strict=True)
    return {", ".join(f"F{start}" if start == end else f"F{start} to F{end}" for start, end in spans)}


def render(cells: dict[tuple[str, str], Cell], date: str, machine: str) -> str:
    parts = [f"Counted on {date}, {machine}; `make matrix` counts again."]
    for title, is_wanted in (
        ("Landing", lambda number: number in _LANDING),
        ("In the session", lambda number: number not in _LANDING),
    ):
        head = (
            "| fault | mode | outcome | times | rows in | lost | doubled | tests |\n|---|---|---|---|---|---|---|---|"
        )
        keys = sorted((key for key in cells if is_wanted(number_of(key[0]))), key=lambda key: (number_of(key[0]), key))
        parts.append("\n".join([f"{title}:\n", head, *(cells[key].line(*key) for key in keys)]))
    return "\n\n".join(parts)


def put_into(page: str, matrix: str) -> str:
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    if not pattern.search(page):
        raise SystemExit(f"The page has no place for the table, between {BEGIN} and {END}.")
    return pattern.sub(lambda _: f"{BEGIN}\n{matrix}\n{END}", page)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tally", type=Path)
    parser.add_argument("page", type=Path)
    parser.add_argument("--machine", default="2 cores")
    told = parser.parse_args()
    cells = cells_of(told.tally.read_text().splitlines())
    matrix = render(cells, datetime.now(UTC).strftime("%Y-%m-%d"), told.machine)
    told.page.write_text(put_into(told.page.read_text(), matrix))
    missing = sorted({f"F{number}" for number in range(1, 22)} - {fault for fault, _ in cells}, key=number_of)
    if missing:
        print(f"No test counted {', '.join(missing)}.", file=sys.stderr)
    wrong = [key for key, cell in cells.items() if cell.failed or cell.lost or cell.doubled]
    for fault, mode in wrong:
        print(f"{fault}, {mode}: something is wrong.", file=sys.stderr)
    return 1 if missing or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
