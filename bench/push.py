"""A push table against the same query over batches in memory, and against the other ways to query batches that arrive.

The query is a sum and a count by key over two columns. One thread produces the batches for the push table and for the
ways that use a queue, as programs have it that receive their batches. For the other ways all batches are there before
the query starts, which is less work. `memory` is the query over an Arrow table in a session. A *reader* is a
`pyarrow.RecordBatchReader` over a list of batches, a *queue* is one over a generator that takes them from a
`queue.Queue`, as people write it by hand, and a *dataset* is pyarrow's, of a list.
"""

from __future__ import annotations

import argparse
import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds

import headrace
from _events import SCHEMA, SHAPES, Shape, produced, pushed
from harness import Aim, Case, Work, main

SQL = "select k, sum(v) as total, count(*) as n from events group by k"
# At most this share of the time of `memory` and of `DuckDB, reader`, by rows in a batch.
AIMS = {100: (0.6, 0.45), 8_192: (1.35, 0.9), 65_536: (1.2, 0.75)}
SLOW = ("Polars, reader", "Polars, queue", "DataFusion, dataset", "DataFusion, reader", "DataFusion, queue")

Answer = tuple[int, int, int]


def answer(result: pa.Table) -> Answer:
    """The keys, rows and, without the last digits, which depend on the order of additions, the sum."""
    totals, counts = result.column("total").to_pylist(), result.column("n").to_pylist()
    return result.num_rows, sum(counts), round(sum(totals))


def in_session(session: headrace.SessionContext) -> Answer:
    with session.sql(SQL).execute_stream() as reader:
        return answer(reader.read_all())


def in_duckdb(connection: duckdb.DuckDBPyConnection, reader: pa.RecordBatchReader) -> Answer:
    connection.register("events", reader)
    result = connection.sql(SQL).to_arrow_table()
    connection.unregister("events")
    return answer(result)


def in_polars(reader: pa.RecordBatchReader) -> Answer:
    grouped = pl.scan_arrow_c_stream(reader).group_by("k").agg(pl.col("v").sum().alias("total"), pl.len().alias("n"))
    return answer(grouped.collect(engine="streaming").to_arrow())


def in_datafusion(context: datafusion.SessionContext, events: ds.Dataset) -> Answer:
    context.register_dataset("events", events)
    result = context.sql(SQL).to_arrow_table()
    context.deregister_table("events")
    return answer(result)


@contextmanager
def through_a_queue(batches: list[pa.RecordBatch], capacity: int) -> Iterator[pa.RecordBatchReader]:
    """The adapter that people write."""
    waiting: queue.Queue[pa.RecordBatch | None] = queue.Queue(capacity)
    with produced(waiting.put, [*batches, None]):
        yield pa.RecordBatchReader.from_batches(SCHEMA, iter(waiting.get, None))


def contenders(
    shape: Shape, push: headrace.SessionContext, memory: headrace.SessionContext, duck: duckdb.DuckDBPyConnection
) -> dict[str, Callable[[], object]]:
    batches = shape.batches()
    memory.register_arrow("events", pa.Table.from_batches(batches))
    fusion = datafusion.SessionContext()

    def from_push_table() -> Answer:
        with pushed(push, batches, shape.capacity):
            return in_session(push)

    def from_queue(query: Callable[[pa.RecordBatchReader], Answer]) -> Answer:
        with through_a_queue(batches, shape.capacity) as reader:
            return query(reader)

    def reader() -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(SCHEMA, iter(batches))

    return {
        "push table": from_push_table,
        "memory": lambda: in_session(memory),
        "DuckDB, reader": lambda: in_duckdb(duck, reader()),
        "DuckDB, queue": lambda: from_queue(lambda events: in_duckdb(duck, events)),
        "Polars, reader": lambda: in_polars(reader()),
        "Polars, queue": lambda: from_queue(in_polars),
        "DataFusion, dataset": lambda: in_datafusion(fusion, ds.dataset(batches)),
        "DataFusion, reader": lambda: in_datafusion(fusion, ds.InMemoryDataset(reader())),
        "DataFusion, queue": lambda: from_queue(lambda events: in_datafusion(fusion, ds.InMemoryDataset(events))),
    }


def cases(arguments: argparse.Namespace) -> Iterator[Case]:
    for full in SHAPES:
        shape = full.less(50) if arguments.quick else full
        of_memory, of_duckdb = AIMS[shape.rows]
        with headrace.SessionContext() as push, headrace.SessionContext() as memory, duckdb.connect() as duck:
            yield Case(
                shape.name,
                contenders(shape, push, memory, duck),
                ours=["push table"],
                base="memory",
                rounds=11,
                seldom=SLOW if shape.rows == 100 else (),
                aims=(
                    Aim("push table", of_memory, to="memory"),
                    Aim("push table", of_duckdb, to="DuckDB, reader"),
                ),
                work=Work(shape.millions, "million rows"),
            )


if __name__ == "__main__":
    main(cases)
