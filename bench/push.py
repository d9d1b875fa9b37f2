"""Push tables against the same query over batches in memory, and against DuckDB over a RecordBatchReader.

One query (sum and count by key, two columns), one producer thread, batches of 100, 8,192 and 65,536 rows.
The contenders run in turns. A ratio is the push table's time divided by the other's: 1.0 is equally fast.
"""

from __future__ import annotations

import threading

import duckdb
import numpy as np
import pyarrow as pa

import headrace
from _measure import interleaved, table

SQL = "select k, sum(v) as total, count(*) as n from events group by k"
KEYS = 100
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.float64())])
# rows in a batch, batches, capacity of the channel
CASES = [(100, 20_000, 1024), (8_192, 1_500, 64), (65_536, 200, 16)]
ROUNDS = 7


def batches_of(rows: int, count: int) -> list[pa.RecordBatch]:
    random = np.random.default_rng(7)
    keys = random.integers(0, KEYS, rows * count)
    values = random.random(rows * count)
    return [
        pa.record_batch([pa.array(keys[i : i + rows]), pa.array(values[i : i + rows])], schema=SCHEMA)
        for i in range(0, rows * count, rows)
    ]


def push(session: headrace.SessionContext, batches: list[pa.RecordBatch], capacity: int) -> int:
    sink = session.register_streaming_table("events", SCHEMA, capacity)

    def produce() -> None:
        with sink:
            for batch in batches:
                sink.write(batch)

    producer = threading.Thread(target=produce)
    reader = session.sql(SQL).execute_stream()
    producer.start()
    rows = reader.read_all().num_rows
    producer.join()
    session.deregister_table("events")
    return int(rows)


def from_memory(session: headrace.SessionContext) -> int:
    return int(session.sql(SQL).execute_stream().read_all().num_rows)


def in_duckdb(connection: duckdb.DuckDBPyConnection, batches: list[pa.RecordBatch]) -> int:
    events = pa.RecordBatchReader.from_batches(SCHEMA, iter(batches))
    connection.register("events", events)
    rows = connection.sql(SQL).to_arrow_table().num_rows
    connection.unregister("events")
    return int(rows)


def measure(batches: list[pa.RecordBatch], capacity: int) -> dict[str, float]:
    with headrace.SessionContext() as pushed, headrace.SessionContext() as memory, duckdb.connect() as connection:
        memory.register_arrow("events", pa.Table.from_batches(batches))
        return interleaved(
            {
                "push": lambda: push(pushed, batches, capacity),
                "memory": lambda: from_memory(memory),
                "duckdb": lambda: in_duckdb(connection, batches),
            },
            ROUNDS,
        )


def main() -> None:
    lines = []
    for rows, count, capacity in CASES:
        seconds = measure(batches_of(rows, count), capacity)
        millions = rows * count / 1e6
        lines.append(
            [
                f"{rows:,}",
                *(f"{millions / seconds[name]:.0f}" for name in ("push", "memory", "duckdb")),
                f"{seconds['push'] / seconds['memory']:.2f}",
                f"{seconds['push'] / seconds['duckdb']:.2f}",
            ]
        )
    print(
        table(
            ["rows/batch", "push Mrows/s", "memory Mrows/s", "duckdb Mrows/s", "push : memory", "push : duckdb"], lines
        )
    )


if __name__ == "__main__":
    main()
