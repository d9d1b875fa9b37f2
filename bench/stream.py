"""Streaming 2 GB out of a session: peak memory, throughput and time to the first row.

Each case runs in a separate process, so that peaks do not add up. Over numbers that the engine generates:
headrace's `execute_stream`, the stream that datafusion's DataFrame exports (`__arrow_c_stream__`), and
`collect`. Over a provider in Python with the same number of partitions: `execute_stream`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator

import datafusion
import numpy as np
import pyarrow as pa

import headrace
from _measure import PeakMemory, in_child, table

ROWS = 130_000_000  # two int64 columns: 2.08 GB
BATCH = 65_536
SQL = "select k * 2 as twice, k from big where k >= 0"
SCHEMA = pa.schema([("k", pa.int64())])
PARTITIONS = (1, 2, 8)
WAYS = ("execute_stream", "__arrow_c_stream__", "collect", "execute_stream, provider")
SERIES = f"create view big as select value as k from generate_series(0, {ROWS - 1})"


def batches(partition: int, partitions: int) -> Iterator[pa.RecordBatch]:
    for start in range(partition * BATCH, ROWS, partitions * BATCH):
        stop = min(start + BATCH, ROWS)
        yield pa.record_batch([pa.array(np.arange(start, stop))], schema=SCHEMA)


def headrace_session(partitions: int, provided: bool) -> headrace.SessionContext:
    class Big(headrace.TableProvider):
        def schema(self) -> pa.Schema:
            return SCHEMA

        def scan(self) -> Iterator[pa.RecordBatch]:
            return batches(0, 1)

        def scan_with(self, request: headrace.ScanRequest) -> Iterator[pa.RecordBatch]:
            return batches(request.partition, request.partitions)

        def partition_count(self) -> int:
            return partitions

    session = headrace.SessionContext(target_partitions=partitions)
    if provided:
        session.register_table("big", Big())
    else:
        session.sql(SERIES)
    return session


def opener(way: str, partitions: int) -> Callable[[], Iterator[pa.RecordBatch]]:
    if way == "__arrow_c_stream__":
        context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(partitions))
        context.sql(SERIES)
        return lambda: iter(pa.RecordBatchReader.from_stream(context.sql(SQL)))
    session = headrace_session(partitions, provided=way.endswith("provider"))
    method = way.partition(",")[0]
    return lambda: iter(getattr(session.sql(SQL), method)())


def child(way: str, partitions: int) -> None:
    start = opener(way, partitions)
    rows, first = 0, 0.0
    with PeakMemory() as peak:
        started = time.perf_counter()
        for batch in start():
            first = first or time.perf_counter() - started
            rows += batch.num_rows
        seconds = time.perf_counter() - started
    if rows != ROWS:
        raise SystemExit(f"{rows} rows instead of {ROWS}")
    print(json.dumps({"first": first, "seconds": seconds, "peak": peak.mb}))


def main() -> None:
    lines = []
    for partitions in PARTITIONS:
        results = {way: in_child(__file__, way, partitions) for way in WAYS}
        base = results["execute_stream"]["seconds"]
        for way, result in results.items():
            lines.append(
                [
                    str(partitions),
                    way,
                    f"{result['peak']:.0f}",
                    f"{result['first'] * 1000:.1f}",
                    f"{ROWS * 16 / 1e9 / result['seconds']:.2f}",
                    f"{result['seconds'] / base:.2f}",
                ]
            )
    print(table(["partitions", "way", "peak MB", "first row ms", "GB/s", "time : execute_stream"], lines))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], int(sys.argv[3]))
    else:
        main()
