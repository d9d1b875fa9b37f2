"""How far a provider is read ahead of a reader that idles."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from headrace import SessionContext, SimpleTableProvider, TableError
from headrace.engine import read_ahead

SCHEMA = pa.schema([("k", pa.int64())])
PLENTY = 100_000


class Source:
    """A provider of one-row batches that notes when it was asked for more than it should be."""

    def __init__(self, allowed: int, seconds: float, rows: int = 1) -> None:
        self.pulled = 0
        self.overrun = threading.Event()
        self._allowed = allowed
        self._seconds = seconds
        self._batch = pa.record_batch([pa.array(range(rows))], schema=SCHEMA)

    def scan(self) -> Iterator[pa.RecordBatch]:
        for _ in range(PLENTY):
            if self._seconds:
                time.sleep(self._seconds)
            self.pulled += 1
            if self.pulled > self._allowed:
                self.overrun.set()
            yield self._batch


@pytest.mark.parametrize(
    ("seconds", "rows", "allowed"),
    [
        # What the channels of scan and result hold, what the scan has taken, and one in each thread.
        (0.001, 1, 2 * read_ahead.BATCHES + 16 + 8),
        # The scan makes one batch of all that it takes, and the result holds 16 of these.
        (0.0, 1, 20 * read_ahead.AT_HAND_BATCHES),
        # Eight in each MiB.
        (0.0, 16 * 1024, 64),
    ],
    ids=["one that takes time", "one that has small batches at hand", "one that has larger batches at hand"],
)
def test_a_provider_is_read_ahead_by_a_bounded_number_of_batches(seconds: float, rows: int, allowed: int) -> None:
    """S3: after the first batch of the result was read, and no more."""
    source = Source(allowed, seconds, rows)
    with SessionContext(target_partitions=1) as ctx:
        ctx.register_table("t", SimpleTableProvider(SCHEMA, source.scan))
        with ctx.sql("select k from t where k >= 0").execute_stream() as reader:
            reader.read_next_batch()
            assert not source.overrun.wait(0.3), source.pulled


def test_a_provider_with_small_batches_at_hand_is_read_ahead_by_more_than_a_few() -> None:
    """S3: else the engine would wait for the pump and the pump for the engine, every four batches."""
    source = Source(2 * read_ahead.BATCHES + 16 + 8, 0.0)
    with SessionContext(target_partitions=1) as ctx:
        ctx.register_table("t", SimpleTableProvider(SCHEMA, source.scan))
        with ctx.sql("select k from t where k >= 0").execute_stream() as reader:
            for _ in range(20):
                reader.read_next_batch()
            assert source.overrun.wait(10)


def test_a_batch_that_is_none_is_an_error_and_not_the_end() -> None:
    """T3: a truncated scan never looks complete."""
    batch = pa.record_batch([pa.array([1])], schema=SCHEMA)
    with SessionContext() as ctx:
        ctx.register_table("t", SimpleTableProvider(SCHEMA, lambda: iter([batch, None, batch])))
        with pytest.raises(TableError, match=r"is not a pyarrow\.RecordBatch"):
            ctx.sql("select k from t").collect().read_all()
