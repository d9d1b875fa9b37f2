"""Batches on their way to Spark: small ones are combined, and a thread reads a few ahead."""

from __future__ import annotations

import random
import threading
from collections.abc import Generator
from itertools import pairwise

import pyarrow as pa
import pytest

from headrace.tables.read.batches import combined, read_ahead


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


class Source:
    """Batches that note how many were read, on which thread, and whether they were closed."""

    def __init__(self, count: int, failure: Exception | None = None) -> None:
        self.read = 0
        self.threads: set[threading.Thread] = set()
        self.is_closed = False
        self._count = count
        self._failure = failure

    def batches(self) -> Generator[pa.RecordBatch]:
        try:
            for number in range(self._count):
                self.read += 1
                self.threads.add(threading.current_thread())
                yield batch_of(number, 1)
            if self._failure:
                raise self._failure
        finally:
            self.is_closed = True


def test_batches_are_read_in_order_on_one_thread_a_few_ahead() -> None:
    """R7: so memory is bounded."""
    source, taken = Source(200), 0
    for batch in read_ahead(source.batches(), 3):
        assert ids_of([batch]) == [taken]
        taken += 1
        assert source.read <= taken + 3
    assert taken == 200
    assert source.is_closed
    (thread,) = source.threads
    assert thread is not threading.current_thread()
    assert not thread.is_alive()


def test_a_failure_comes_after_the_batches_before_it() -> None:
    """R7: a truncated scan never looks complete."""
    source = Source(5, OSError("the disk is gone"))
    reading = read_ahead(source.batches(), 2)
    assert ids_of([next(reading) for _ in range(5)]) == [0, 1, 2, 3, 4]
    with pytest.raises(OSError, match="the disk is gone"):
        next(reading)


@pytest.mark.parametrize("taken", [1, 4])
def test_closing_ends_the_thread_and_closes_the_source(taken: int) -> None:
    """R7: as when a query has a limit."""
    source = Source(1_000_000)
    reading = read_ahead(source.batches(), 2)
    for _ in range(taken):
        next(reading)
    reading.close()
    assert source.is_closed
    assert not any(thread.is_alive() for thread in source.threads)
    assert source.read <= taken + 3
