"""Queries that compute each row from one row, over a push table: throughput, and how long a row takes.

The throughput is that of a projection, a cheap filter and an expensive one over rows that a thread writes. `memory` is
the query over an Arrow table in a session, and `DataFusion, dataset` the one of plain DataFusion over pyarrow's dataset
of a list of batches: both have all rows before they start. `ordered=False` gives up the order of the rows.

The latency is the time that one row takes from its producer through a filter to the reader, while no other row
follows; 99% of the rows arrive within `p99`. A way that delivers nothing within a second has no figures. A *queue* is
a `queue.Queue` behind a `pyarrow.RecordBatchReader`, as people write it by hand.
"""

from __future__ import annotations

import argparse
import queue
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack

import datafusion
import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

import headrace
from _events import KEYS, SCHEMA, SHAPES, Shape, pushed
from harness import Aim, Case, Metric, Samples, Work, main

SCHEMA_WITH_NAMES = SCHEMA.append(pa.field("name", pa.string()))
NAMES = pa.array([f"user-{number}@example.org" for number in range(KEYS)])
# By what each shape is made smaller, so that every query takes about as long.
QUERIES = {
    "projection": ("select k, v * 2 as twice from events", 1),
    "cheap filter": ("select k, v from events where k % 2 = 0", 1),
    "expensive filter": ("select k, v from events where md5(name) < '8'", 4),
}
LATENCY = (Metric("latency", "ms"), Metric("p99", "ms"))
FILTER = "select k, v from events where k % 2 = 0"
GIVE_UP_SECONDS = 1.0

Receive = Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]]


def named(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return [batch.append_column("name", NAMES.take(batch["k"])) for batch in batches]


def rows_of(reader: Iterable[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in reader)


def throughput(shape: Shape, sql: str, opened: ExitStack) -> dict[str, Callable[[], object]]:
    batches = named(shape.batches())
    ordered = opened.enter_context(headrace.SessionContext())
    unordered = opened.enter_context(headrace.SessionContext(ordered=False))
    memory = opened.enter_context(headrace.SessionContext())
    memory.register_arrow("events", pa.Table.from_batches(batches))
    plain = datafusion.SessionContext()
    plain.register_dataset("events", ds.dataset(batches))

    def push(session: headrace.SessionContext) -> int:
        with (
            pushed(session, batches, shape.capacity, SCHEMA_WITH_NAMES),
            session.sql(sql).execute_stream() as reader,
        ):
            return rows_of(reader)

    def in_memory() -> int:
        with memory.sql(sql).execute_stream() as reader:
            return rows_of(reader)

    return {
        "push table": lambda: push(ordered),
        "push table, ordered=False": lambda: push(unordered),
        "memory": in_memory,
        "DataFusion, dataset": lambda: rows_of(batch.to_pyarrow() for batch in plain.sql(sql).execute_stream()),
    }


def by_session(**settings: bool) -> Receive:
    def receive(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with headrace.SessionContext(**settings) as session, pushed(session, batches, 64):
            yield from session.sql(FILTER).execute_stream()

    return receive


def by_datafusion(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    context = datafusion.SessionContext()
    context.register_dataset("events", ds.InMemoryDataset(pa.RecordBatchReader.from_batches(SCHEMA, batches)))
    return (batch.to_pyarrow() for batch in context.sql(FILTER).execute_stream())


def by_duckdb(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with duckdb.connect() as connection:
        connection.register("events", pa.RecordBatchReader.from_batches(SCHEMA, batches))
        yield from connection.sql(FILTER).to_arrow_reader(1)


def latency(receive: Receive, rows: int) -> Callable[[], Samples]:
    """Write one row at a time, each when the one before it has arrived."""
    row = pa.record_batch([[2], [0.5]], schema=SCHEMA)

    def run() -> Samples:
        sent: queue.SimpleQueue[pa.RecordBatch | None] = queue.SimpleQueue()
        arrived: queue.SimpleQueue[float] = queue.SimpleQueue()

        def read() -> None:
            for _ in receive(iter(sent.get, None)):
                arrived.put(time.perf_counter())

        reader = threading.Thread(target=read)
        reader.start()
        taken = []
        try:
            for _ in range(1 + rows):  # The first one waits until the query is planned.
                started = time.perf_counter()
                sent.put(row)
                taken.append((arrived.get(timeout=GIVE_UP_SECONDS) - started) * 1000)
        except queue.Empty:
            return Samples({})
        finally:
            sent.put(None)
            reader.join()
        del taken[0]
        return Samples({"latency": taken, "p99": [statistics.quantiles(taken, n=100, method="inclusive")[-1]]})

    return run


def cases(arguments: argparse.Namespace) -> Iterator[Case]:
    for query, (sql, factor) in QUERIES.items():
        for full in SHAPES[:2]:
            shape = full.less(factor * (50 if arguments.quick else 1))
            with ExitStack() as opened:
                yield Case(
                    f"{query}, {shape.name}",
                    throughput(shape, sql, opened),
                    ours=("push table", "push table, ordered=False"),
                    base="memory",
                    seldom=("DataFusion, dataset",),
                    rounds=11,
                    work=Work(shape.millions, "million rows"),
                )
    rows = 20 if arguments.quick else 200
    ways = {
        "push table": by_session(),
        "push table, ordered=False": by_session(ordered=False),
        "DataFusion, queue": by_datafusion,
        "DuckDB, queue": by_duckdb,
    }
    yield Case(
        "latency of a row",
        {name: latency(receive, rows) for name, receive in ways.items()},
        ours=("push table", "push table, ordered=False"),
        rounds=3,
        metrics=LATENCY,
        aims=(Aim("push table", 5.0, metric="latency"), Aim("push table", 50.0, metric="p99")),
    )


if __name__ == "__main__":
    main(cases)
