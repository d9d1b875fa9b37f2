"""The rows of the benches of tables in Python, the shapes of their batches, and a producer thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import headrace

KEYS = 100
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.float64())])


@dataclass(frozen=True, slots=True)
class Shape:
    """Rows in a batch, the number of batches, and the capacity of the queue between producer and query."""

    rows: int
    count: int
    capacity: int

    @property
    def name(self) -> str:
        return f"batches of {self.rows:,} rows"

    @property
    def millions(self) -> float:
        return self.rows * self.count / 1e6

    def less(self, factor: int) -> Shape:
        return Shape(self.rows, max(2, self.count // factor), self.capacity)

    def batches(self) -> list[pa.RecordBatch]:
        random = np.random.default_rng(7)
        keys = random.integers(0, KEYS, self.rows * self.count)
        values = random.random(self.rows * self.count)
        return [
            pa.record_batch([pa.array(keys[i : i + self.rows]), pa.array(values[i : i + self.rows])], schema=SCHEMA)
            for i in range(0, self.rows * self.count, self.rows)
        ]


SHAPES = (Shape(100, 20_000, 1024), Shape(8_192, 1_500, 64), Shape(65_536, 200, 16))


@contextmanager
def produced(write: Callable[[pa.RecordBatch], object], batches: Iterable[pa.RecordBatch]) -> Iterator[None]:
    """Write the batches on a thread during the block, and join it at the end."""

    def produce() -> None:
        for batch in batches:
            write(batch)

    producer = threading.Thread(target=produce)
    producer.start()
    yield
    producer.join()


@contextmanager
def pushed(
    session: headrace.SessionContext, batches: Iterable[pa.RecordBatch], capacity: int, schema: pa.Schema = SCHEMA
) -> Iterator[None]:
    """Have a push table `events` in the block, to which a thread writes the batches."""
    sink = session.register_streaming_table("events", schema, capacity)

    def produce() -> None:
        with sink:
            for batch in batches:
                sink.write(batch)

    producer = threading.Thread(target=produce)
    producer.start()
    yield
    producer.join()
    session.deregister_table("events")
