"""The table of faults in docs/guarantees.md: how it is made, and that the published one is whole."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support.crash_matrix import BEGIN, END, cells_of, put_into, render
from support.tally import Count, record, require_same, taken

ROOT = Path(__file__).parents[1]
ROW = re.compile(
    r"^\| (F[^|]+) \| ([^|]+) \| ([^|]+) \| ([\d,]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$",
    re.MULTILINE,
)


def told(test: str, faults: list[str], outcome: str = "passed", **counts: tuple[int, int, int, int]) -> str:
    names = ("times", "rows", "lost", "doubled")
    listed = [{"mode": mode} | dict(zip(names, numbers, strict=True)) for mode, numbers in counts.items()]
    return json.dumps({"test": f"tests/x/{test}.py::test_it", "faults": faults, "outcome": outcome, "counts": listed})


def test_counts_of_a_fault_are_added_up_by_mode() -> None:
    lines = [
        told("test_a", ["F1", "F13"], append=(2, 10, 0, 0)),
        told("test_b", ["F1"], append=(3, 30, 0, 1), upsert=(1, 1_000, 0, 0)),
        told("test_c", ["F2"], outcome="failed"),
        told("test_d", ["F1", "F7", "F5", "F6"], **{"append, simulated": (9, 9, 0, 0)}),
    ]
    page = render(cells_of(lines), "a date", "a machine")
    rows = [tuple(part.strip() for part in row) for row in ROW.findall(page)]
    assert rows == [
        ("F1", "append", "as promised", "5", "40", "0", "1", "`test_a`, `test_b`"),
        ("F1", "upsert", "as promised", "1", "1,000", "0", "0", "`test_b`"),
        ("F1, F5 to F7", "append, simulated", "as promised", "9", "9", "0", "0", "`test_d`"),
        ("F2", "-", "1 FAILED", "1", "-", "-", "-", "`test_c`"),
        ("F13", "append", "as promised", "2", "10", "0", "0", "`test_a`"),
    ]
    assert page.index("Landing") < page.index("| F2 |") < page.index("In the session") < page.index("| F13 |")


def test_rows_that_came_where_none_were_sent_show() -> None:
    page = render(cells_of([told("test_a", ["F1"], outcome="failed", append=(1, 0, 0, 3))]), "a date", "a machine")
    assert "| F1 | append | 1 FAILED | 1 | 0 | 0 | 3 | `test_a` |" in page


def test_a_fault_under_which_no_rows_were_compared_is_not_counted_with_the_others() -> None:
    count = {"mode": "append, simulated", "times": 2, "rows": 9, "lost": 0, "doubled": 0, "uncompared": ["F6"]}
    line = {"test": "tests/x/test_a.py::test_it", "faults": ["F5", "F6", "F7"], "outcome": "passed", "counts": [count]}
    assert list(cells_of([json.dumps(line)])) == [("F5, F7", "append, simulated")]


def test_an_experiment_without_counts_cannot_be_noted() -> None:
    with pytest.raises(TypeError, match="lost"):
        record("append", times=1, rows=10)  # type: ignore[call-arg]
    assert taken() == []


def test_what_is_lost_and_what_is_doubled_is_noted_before_the_test_fails() -> None:
    with pytest.raises(AssertionError, match="1 rows are lost"):
        require_same("append", [1, 2, 3], [1, 3, 3, 3], times=7)
    assert taken() == [Count("append", times=7, rows=3, lost=1, doubled=2)]


def test_the_table_takes_the_place_of_the_last_one() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert put_into(page, "new") == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    with pytest.raises(SystemExit, match="no place"):
        put_into("nothing", "new")


def test_the_published_table_has_every_fault_and_nothing_lost_or_doubled() -> None:
    """And each test that it names is there."""
    page = (ROOT / "docs/guarantees.md").read_text()
    rows = [tuple(part.strip() for part in row) for row in ROW.findall(page[page.index(BEGIN) : page.index(END)])]
    assert {row[0] for row in rows} >= {f"F{number}" for number in range(1, 22)}
    tests = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    for _fault, _mode, outcome, _times, _rows, lost, doubled, named in rows:
        assert outcome == "as promised"
        assert {lost, doubled} <= {"0", "-"}
        assert set(re.findall(r"`([^`]+)`", named)) <= tests | {"make crash"}
