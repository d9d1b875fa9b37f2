"""The guarantees and the tests that cite them name the same numbers."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
GUARANTEED = set(re.findall(r"^\| ([STPLFRC]\d+) \|", (ROOT / "docs/guarantees.md").read_text(), re.MULTILINE))
CITED = {
    number
    for path in (ROOT / "tests").rglob("*.py")
    for docstring in re.findall(r'"""(.*?)"""', path.read_text(), re.DOTALL)
    for number in re.findall(r"\b([STPLFRC]\d+)\b", docstring)
}


def test_every_guarantee_is_cited_by_a_test() -> None:
    assert sorted(GUARANTEED - CITED) == []


def test_every_citation_is_a_guarantee() -> None:
    assert sorted(CITED - GUARANTEED) == []
