"""TPC-H at scale 1: pull tables, Parquet and Lance in a session, against DataFusion over the same Parquet files.

The providers of the pull tables are in Python: one reads the files with pyarrow and uses the hints for columns and
rows, the other hands over the columns of batches in memory. Plain DataFusion also reads the files through pyarrow, and
the Lance tables, which shows what of a session's time is the time of these libraries. Before a query is measured, every
contender's answer is compared with DuckDB's. The last case has the geometric mean of the 22 times, for each round.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import datafusion
import duckdb
import lance
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

import headrace
from _tpch import QUERIES, MemoryTable, ParquetTable, difference, lance_tables, order_keys, parquet_tables
from harness import Aim, Case, Samples, main

DATA = Path(__file__).parents[1] / "build" / "tpch"
ENGINE, ENGINE_LANCE, ENGINE_PYARROW = "datafusion, parquet", "datafusion, Lance", "datafusion, pyarrow's parquet"
PARQUET, LANCE = "session, parquet", "session, Lance"
PULL, MEMORY = "session, provider of parquet", "session, provider of batches"
SESSIONS = (PARQUET, LANCE, PULL, MEMORY)
AIMS = (
    Aim(MEMORY, 1.5, ENGINE),
    Aim(PULL, 1.5, ENGINE),
    Aim(PULL, 1.2, ENGINE_PYARROW),
    Aim(PARQUET, 1.05, ENGINE),
    Aim(LANCE, 1.5, ENGINE),
    Aim(LANCE, 1.05, ENGINE_LANCE),
)

Answer = Callable[[str], pa.Table]
Paths = Mapping[str, Path]


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scale", type=float, default=1, help="the scale factor: gigabytes of text")
    parser.add_argument("--rounds", type=int, default=2, help="how often each query runs, after the comparison")


def in_datafusion(register: Callable[[datafusion.SessionContext, str, Path], object], paths: Paths) -> Answer:
    context = datafusion.SessionContext()
    for table, path in paths.items():
        register(context, table, path)
    return lambda sql: _table(context.sql(sql))


def _table(frame: datafusion.DataFrame) -> pa.Table:
    return pa.Table.from_batches((batch.to_pyarrow() for batch in frame.execute_stream()), frame.schema())


def in_session(register: Callable[[headrace.SessionContext, str, Path], object], paths: Paths) -> Answer:
    session = headrace.SessionContext()
    for table, path in paths.items():
        register(session, table, path)
    return lambda sql: session.sql(sql).execute_stream().read_all()


def contenders(files: Paths) -> dict[str, Answer]:
    parts = os.cpu_count() or 1
    tables = lance_tables(files)
    # The sessions first: the first one makes the pool of worker threads large enough for blocked scans.
    sessions = {
        PARQUET: in_session(headrace.SessionContext.register_parquet, files),
        LANCE: in_session(headrace.SessionContext.register_lance, tables),
        PULL: in_session(lambda session, table, file: session.register_table(table, ParquetTable(file, parts)), files),
        MEMORY: in_session(
            lambda session, table, file: session.register_table(table, MemoryTable(pq.read_table(file), parts)), files
        ),
    }
    return {
        ENGINE: in_datafusion(lambda context, table, file: context.register_parquet(table, str(file)), files),
        ENGINE_PYARROW: in_datafusion(
            lambda context, table, file: context.register_dataset(table, pyarrow.dataset.dataset(file)), files
        ),
        ENGINE_LANCE: in_datafusion(
            lambda context, table, path: context.register_table(
                table, lance.FFILanceTableProvider(lance.dataset(path))
            ),
            tables,
        ),
        **sessions,
    }


class Timed:
    """Answers a query, and keeps how long each answer took, in milliseconds."""

    def __init__(self, answer: Answer, sql: str) -> None:
        self._answer = answer
        self._sql = sql
        self.taken: list[float] = []

    def __call__(self) -> None:
        started = time.perf_counter()
        self._answer(self._sql)
        self.taken.append((time.perf_counter() - started) * 1000)


def cases(arguments: argparse.Namespace) -> Iterator[Case]:
    scale = min(arguments.scale, 0.01) if arguments.quick else arguments.scale
    files = parquet_tables(scale, DATA / f"{scale:g}")
    ways = contenders(files)
    measured: dict[str, list[Timed]] = {name: [] for name in ways}
    with duckdb.connect() as reference:
        for table, file in files.items():
            reference.sql(f"create view {table} as from '{file}'")
        for name, sql in QUERIES.items():
            if arguments.only not in name:
                continue
            require_right(name, sql, ways, reference.sql(sql).to_arrow_table())
            runs = {way: Timed(answer, sql) for way, answer in ways.items()}
            yield Case(name, runs, SESSIONS, ENGINE, arguments.rounds, warm_up=False)
            for way, run in runs.items():
                measured[way].append(run)
    means = {way: geometric_means([run.taken for run in runs]) for way, runs in measured.items()}
    yield Case(
        "the geometric mean of the queries",
        {way: lambda way=way: means[way] for way in ways},
        SESSIONS,
        ENGINE,
        rounds=1,
        warm_up=False,
        aims=AIMS,
    )


def require_right(name: str, sql: str, ways: Mapping[str, Answer], expected: pa.Table) -> None:
    """Compare the answer of every contender with DuckDB's. It also warms each up."""
    for way, answer in ways.items():
        found = difference(answer(sql), expected, order_keys(sql))
        if found:
            raise SystemExit(f"{name}, {way}: the answer is not DuckDB's: {found}")


def geometric_means(taken: list[list[float]]) -> Samples:
    """Return the geometric mean of the queries' times in each round."""
    return Samples({"time": [statistics.geometric_mean(of_round) for of_round in zip(*taken, strict=True)]})


if __name__ == "__main__":
    main(cases, options=options)
