"""The guarantees and the tests that cite them name the same numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.citations import cited_by_tests

ROOT = Path(__file__).parents[1]
GUARANTEED = set(re.findall(r"^\| ([STPLFRC]\d+) \|", (ROOT / "docs/guarantees.md").read_text(), re.MULTILINE))
CITED = {
    number
    for path in (ROOT / "tests").rglob("test_*.py")
    if path != Path(__file__)
    for number in cited_by_tests(path.read_text())
}


def test_every_guarantee_is_cited_by_a_test() -> None:
    assert sorted(GUARANTEED - CITED) == []


def test_every_citation_is_a_guarantee() -> None:
    assert sorted(CITED - GUARANTEED) == []


@pytest.mark.parametrize(
    ("source", "cited"),
    [
        ('def test_it():\n    """S3, P12: two of them."""', {"S3", "P12"}),
        ('async def test_it():\n    """L31"""', {"L31"}),
        ('"""T1: the module."""\ndef test_it(): ...', {"T1"}),
        (
            'class TestIt:\n    """T2: the class."""\n    def test_it(self):\n        """T3: the method."""',
            {"T2", "T3"},
        ),
        ('def test_it():\n    """A table on S3: it is read."""', set()),
        ('def test_it():\n    """S3 answers 500."""', set()),
        ('def test_it():\n    """S1: as it was (T4); S2: too."""', {"S1"}),
        ('def test_it():\n    text = """S3: no docstring."""', set()),
        ('def test_it():\n    def test_inner():\n        """S3: not collected."""', set()),
        ('def help_it():\n    """S3: not a test."""', set()),
        ('"""S3: a module without tests."""', set()),
    ],
)
def test_a_citation_is_the_start_of_the_docstring_of_a_test(source: str, cited: set[str]) -> None:
    assert cited_by_tests(source) == cited
