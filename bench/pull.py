"""Pull tables against the same query over batches in memory, and against a bare pyarrow dataset in plain DataFusion.

An aggregate, a cheap filter and a projection over two columns, in batches of 100, 8,192 and 65,536 rows. The provider
hands over batches that exist already, so what is measured is their way into the engine. The bare dataset scans the
same batches with pyarrow's scanner. pyarrow's own dataset over a table is no contender: each batch is a partition of
it, and 20,000 partitions take DataFusion five seconds.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence

import datafusion
import pyarrow as pa
import pyarrow.dataset

import headrace
from _events import SCHEMA, SHAPES
from harness import Aim, Case, Work, main

QUERIES = {
    "aggregate": "select k, sum(v) as total, count(*) as n from events group by k",
    "filter": "select k, v from events where v < 0.01",
    "projection": "select v * 2 as twice from events",
}
PROVIDER, MEMORY, DATASET = "provider", "memory", "bare dataset"
# The most times the query over memory, by the rows in a batch.
AIMS = {100: 0.6, 8_192: 1.35, 65_536: 1.2}


class Bare(pyarrow.dataset.Dataset):  # type: ignore[misc]
    """A pyarrow dataset of one fragment, which is the dataset itself: batches that pyarrow projects and filters."""

    __slots__ = ("_batches", "schema")

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self.schema = SCHEMA
        self._batches = batches

    def get_fragments(self, filter: pyarrow.dataset.Expression | None = None) -> list[Bare]:
        return [self]

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Sequence[str] | None = None,
        filter: pyarrow.dataset.Expression | None = None,
        batch_size: int | None = None,
    ) -> pyarrow.dataset.Scanner:
        return pyarrow.dataset.Scanner.from_batches(iter(self._batches), schema=SCHEMA, columns=columns, filter=filter)


class Parts(headrace.TableProvider):
    """Hands over batches; each partition has a part of them."""

    def __init__(self, batches: Sequence[pa.RecordBatch], partitions: int) -> None:
        self._batches = batches
        self._partitions = partitions

    def schema(self) -> pa.Schema:
        return SCHEMA

    def partition_count(self) -> int:
        return self._partitions

    def scan(self) -> Iterator[pa.RecordBatch]:
        return iter(self._batches)

    def scan_with(self, request: headrace.ScanRequest) -> pa.RecordBatchReader:
        part = self._batches[request.partition :: request.partitions]
        return pa.RecordBatchReader.from_batches(SCHEMA, part)


def in_session(session: headrace.SessionContext, sql: str) -> Callable[[], int]:
    return lambda: sum(batch.num_rows for batch in session.sql(sql).execute_stream())


def in_datafusion(context: datafusion.SessionContext, sql: str) -> Callable[[], int]:
    return lambda: sum(batch.to_pyarrow().num_rows for batch in context.sql(sql).execute_stream())


def cases(arguments: argparse.Namespace) -> Iterator[Case]:
    partitions = os.cpu_count() or 1
    parts = f"{PROVIDER}, {partitions} partitions"
    for shape in SHAPES:
        measured = shape.less(50) if arguments.quick else shape
        batches = measured.batches()
        table = pa.Table.from_batches(batches)
        plain = datafusion.SessionContext()
        plain.register_dataset("events", Bare(batches))
        with (
            headrace.SessionContext() as provided,
            headrace.SessionContext() as parted,
            headrace.SessionContext() as memory,
        ):
            provided.register_table(
                "events", headrace.SimpleTableProvider(SCHEMA, lambda batches=batches: iter(batches))
            )
            parted.register_table("events", Parts(batches, partitions))
            memory.register_arrow("events", table)
            for name, sql in QUERIES.items():
                yield Case(
                    f"{name}, {shape.name}",
                    {
                        PROVIDER: in_session(provided, sql),
                        parts: in_session(parted, sql),
                        MEMORY: in_session(memory, sql),
                        DATASET: in_datafusion(plain, sql),
                    },
                    ours=(PROVIDER, parts, MEMORY),
                    base=MEMORY,
                    aims=(Aim(PROVIDER, AIMS[shape.rows], MEMORY),),
                    work=Work(measured.millions, "Mrows"),
                )


if __name__ == "__main__":
    main(cases)
