"""Streaming 2 GB out of a session: time, peak memory, and the time to the first row.

The query computes two columns of integers from a series that the engine generates, and the result is read batch by
batch: with headrace's `execute_stream`, with the stream that DataFusion's own DataFrame exports (`__arrow_c_stream__`),
with DataFusion's own `execute_stream`, whose batches are converted to pyarrow's, and with headrace's `collect`, which
keeps the result in memory. `execute_stream, provider` reads the same series from a provider in Python. Each run has a
separate process, so that peaks do not add up.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator

import datafusion
import numpy as np
import pyarrow as pa

import headrace
from harness import Aim, Case, Metric, PeakMemory, Samples, Work, in_child, main

ROWS = 130_000_000  # two int64 columns: 2.08 GB
BATCH = 65_536
SQL = "select k * 2 as twice, k from big where k >= 0"
SCHEMA = pa.schema([("k", pa.int64())])
HEADRACE = ("execute_stream", "collect", "execute_stream, provider")
DATAFUSION = ("DataFusion, export", "DataFusion, execute_stream")
METRICS = (Metric("time", "ms"), Metric("peak memory", "MB"), Metric("first row", "ms"))
# At most this share of the time of DataFusion's export, by the number of partitions.
AIMS = {1: 1.25, 2: 1.0, 8: 1.0}


def series(rows: int) -> str:
    return f"create view big as select value as k from generate_series(0, {rows - 1})"


class Big(headrace.TableProvider):
    """The series in Python, in batches that the partitions take in turns."""

    def __init__(self, rows: int, partitions: int) -> None:
        self._rows = rows
        self._partitions = partitions

    def schema(self) -> pa.Schema:
        return SCHEMA

    def scan(self) -> Iterator[pa.RecordBatch]:
        return self._batches(0, 1)

    def scan_with(self, request: headrace.ScanRequest) -> Iterator[pa.RecordBatch]:
        return self._batches(request.partition, request.partitions)

    def partition_count(self) -> int:
        return self._partitions

    def _batches(self, partition: int, partitions: int) -> Iterator[pa.RecordBatch]:
        for start in range(partition * BATCH, self._rows, partitions * BATCH):
            stop = min(start + BATCH, self._rows)
            yield pa.record_batch([pa.array(np.arange(start, stop))], schema=SCHEMA)


def opener(way: str, partitions: int, rows: int) -> Callable[[], Iterator[pa.RecordBatch]]:
    if way in DATAFUSION:
        context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(partitions))
        context.sql(series(rows))
        if way == "DataFusion, export":
            return lambda: iter(pa.RecordBatchReader.from_stream(context.sql(SQL)))
        return lambda: (batch.to_pyarrow() for batch in context.sql(SQL).execute_stream())
    session = headrace.SessionContext(target_partitions=partitions)
    if way.endswith("provider"):
        session.register_table("big", Big(rows, partitions))
    else:
        session.sql(series(rows))
    method = way.partition(",")[0]
    return lambda: iter(getattr(session.sql(SQL), method)())


def child(way: str, partitions: str, rows: str) -> None:
    start = opener(way, int(partitions), int(rows))
    read, first = 0, 0.0
    with PeakMemory() as peak:
        started = time.perf_counter()
        for batch in start():
            first = first or time.perf_counter() - started
            read += batch.num_rows
        seconds = time.perf_counter() - started
    if read != int(rows):
        raise SystemExit(f"{read} rows instead of {rows}")
    print(json.dumps({"time": seconds * 1000, "peak memory": peak.mb, "first row": first * 1000}))


def contender(way: str, partitions: int, rows: int) -> Callable[[], Samples]:
    return lambda: Samples({name: [value] for name, value in in_child(__file__, way, partitions, rows).items()})


def cases(arguments: argparse.Namespace) -> Iterator[Case]:
    rows = ROWS // 100 if arguments.quick else ROWS
    for partitions, at_most in AIMS.items():
        yield Case(
            f"{partitions} partition{'s' if partitions > 1 else ''}",
            {way: contender(way, partitions, rows) for way in (HEADRACE[0], *DATAFUSION, *HEADRACE[1:])},
            ours=HEADRACE,
            base="DataFusion, export",
            rounds=5,
            warm_up=False,
            metrics=METRICS,
            aims=(Aim("execute_stream", at_most, to="DataFusion, export"),),
            work=Work(rows * 16 / 1e9, "GB"),
        )


if __name__ == "__main__":
    main(cases, child=child)
