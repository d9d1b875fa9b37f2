"""Slices are dealt out to tasks whole, in order, and in shares of about one size."""

from __future__ import annotations

import random

import pytest

from headrace.tables.read.splits import Split, plan_tasks

MEGABYTE = 1024 * 1024


def rows_in(slices: list[Split]) -> list[tuple[int, int]]:
    return [(part.fragment, row) for part in slices for row in range(part.start, part.start + (part.rows or 0))]


@pytest.mark.parametrize("seed", range(20))
def test_every_row_is_in_one_group_and_in_order(seed: int) -> None:
    """R7."""
    chance = random.Random(seed)
    slices = [
        Split(1, number, chance.randrange(5), chance.randrange(1, 50), chance.randrange(300 * MEGABYTE), 1)
        for number in range(chance.randrange(1, 8))
    ]
    groups = plan_tasks(slices)
    assert rows_in([part for group in groups for part in group]) == rows_in(slices)
    assert all(groups)


def test_small_ones_go_together_and_large_ones_are_cut() -> None:
    """R7: a task has something to do, and none has far more than the others."""
    assert len(plan_tasks([Split(1, number, 0, 10, 1000, 1) for number in range(1000)])) == 1
    groups = plan_tasks([Split(1, 0, 0, 1_000_000, 1024 * MEGABYTE, 1, is_whole=True)])
    assert len(groups) == 32
    assert {len(group) for group in groups} == {1}
    assert {(group[0].rows, group[0].is_whole) for group in groups} == {(31_250, False)}


def test_whole_fragments_are_not_cut() -> None:
    """R7: where rows are filtered, their numbers do not tell them apart."""
    whole = Split(1, 0, 0, None, 1024 * MEGABYTE, 1)
    assert plan_tasks([whole, whole]) == [[whole], [whole]]


def test_nothing_is_no_group() -> None:
    """R7."""
    assert plan_tasks([]) == []
