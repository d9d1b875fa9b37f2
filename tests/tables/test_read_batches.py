"""Batches on their way to Spark: small ones are combined."""

from __future__ import annotations

import random
from itertools import pairwise

import pyarrow as pa
import pytest

from headrace.tables.read.batches import combined


def batch_of(first: int, rows: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(range(first, first + rows), pa.int64())})


def ids_of(batches: list[pa.RecordBatch]) -> list[int]:
    return [value for batch in batches for value in batch["id"].to_pylist()]


@pytest.mark.parametrize("seed", range(20))
def test_combined_batches_have_the_same_rows_and_are_neither_too_large_nor_too_many(seed: int) -> None:
    """R7."""
    chance = random.Random(seed)
    small = [batch_of(100 * number, chance.randrange(40)) for number in range(50)]
    found = list(combined(small, rows=100, size=10_000))
    assert ids_of(found) == ids_of(small)
    assert max(batch.num_rows for batch in found) <= 100
    assert all(a.num_rows + b.num_rows > 60 for a, b in pairwise(found))


def test_combined_batches_are_limited_in_bytes() -> None:
    """R7."""
    found = list(combined([batch_of(number, 2) for number in range(10)], rows=1000, size=64))
    assert [batch.num_rows for batch in found] == [8, 8, 4]


def test_a_large_batch_is_not_copied() -> None:
    """R7: and small ones around it keep their place."""
    large = batch_of(10, 60)
    found = list(combined([batch_of(0, 10), large, batch_of(70, 5)], rows=100, size=10_000))
    assert ids_of(found) == list(range(75))
    assert any(batch.column(0).buffers()[1].address == large.column(0).buffers()[1].address for batch in found)
