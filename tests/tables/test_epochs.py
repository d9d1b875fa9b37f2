"""Sets of epochs behave as sets of numbers do, and stay short as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from headrace.tables.commit.epochs import Epochs

NUMBERS = some.sets(some.integers(0, 30))


@given(NUMBERS, NUMBERS)
def test_they_behave_as_sets_do(one: set[int], other: set[int]) -> None:
    """L7: union, difference, membership, size, and text and back."""
    first, second = Epochs.of(*one), Epochs.of(*other)
    assert sorted(one) == list(first)
    assert len(first) == len(one)
    assert bool(first) == bool(one)
    assert list(first | second) == sorted(one | other)
    assert list(first - second) == sorted(one - other)
    assert [number for number in range(31) if number in first] == sorted(one)
    assert Epochs.parse(str(first)) == first


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("5", "5"),
        ("1,2,3", "1-3"),
        ("7-9,1", "1,7-9"),
        ("1-3,2-8", "1-8"),
        ("9-1", ""),
        ("x,-3,4-,2", "2"),
        ("0-999999999999", "0-999999999999"),
        ("0-99999999999999999999", ""),
    ],
)
def test_text_of_any_kind_is_read(text: str, expected: str) -> None:
    """L34: the text in a table may be another writer's; parsing it takes no memory either."""
    assert str(Epochs.parse(text)) == expected


def test_a_stretch_is_its_ends() -> None:
    """L7: and nothing where they are the wrong way round."""
    assert str(Epochs.between(2, 10**9)) == "2-1000000000"
    assert not Epochs.between(3, 2)
