"""Push, pull, land and stream out, in one session.

A producer thread pushes sensor readings while the query runs. The query joins them with a table implemented in Python.
The result lands in a Lance table batch by batch, and is streamed out again.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa

import headrace

READINGS = pa.schema([("sensor", pa.int64()), ("celsius", pa.float64())])
SENSORS = pa.schema([("id", pa.int64()), ("room", pa.string())])
ROOMS = ("boiler", "office", "attic", "cellar")
BATCHES, ROWS = 200, 5_000


def sensors() -> Iterator[pa.RecordBatch]:
    """A table implemented in Python; called for every scan."""
    yield pa.record_batch([pa.array(range(100)), pa.array([ROOMS[i % 4] for i in range(100)])], schema=SENSORS)


def produce(sink: headrace.TableSink) -> None:
    """Push readings. `with` closes the sink at the end, or fails it if the block raises."""
    with sink:
        for number in range(BATCHES):
            ids = pa.array([(number + row) % 100 for row in range(ROWS)])
            degrees = pa.array([15 + (number * row) % 170 / 10 for row in range(ROWS)])
            sink.write(pa.record_batch([ids, degrees], schema=READINGS))


def main(folder: Path) -> None:
    with headrace.SessionContext() as session:
        print("push   200 batches of readings while the query below runs, at most 8 of them queued")
        sink = session.register_streaming_table("readings", READINGS, capacity=8)
        print("pull   a table of sensors, implemented as a Python generator")
        session.register_table("sensors", headrace.SimpleTableProvider(SENSORS, sensors))
        warm = session.sql(
            "select room, sensor, celsius from readings join sensors on sensor = id where celsius > $least",
            {"least": 20.0},
        )
        producer = threading.Thread(target=produce, args=(sink,))
        started = time.perf_counter()
        producer.start()
        target = str(folder / "warm.lance")
        # Everything that accepts an Arrow stream accepts the reader; Lance writes it batch by batch.
        written = lance.write_dataset(warm.execute_stream(), target)
        producer.join()
        seconds = time.perf_counter() - started
        counts = sink.statistics()
        print(f"       {counts.rows:,} rows pushed, {written.count_rows():,} landed in {target} in {seconds:.1f} s")
        print(f"       the producer waited {counts.seconds_blocked:.2f} s for the query to keep up\n")

        print("query  the landed table, with the filter pushed down into Lance's scan")
        session.register_lance("warm", target)
        session.sql(
            "select room, count(*) as readings, round(avg(celsius), 1) as mean, max(celsius) as warmest "
            "from warm where celsius > 25 group by room order by mean desc, room"
        ).show()

        print("\nstream the whole table out again, one batch in memory at a time")
        rows = batches = 0
        with session.sql("select * from warm").execute_stream() as reader:
            for batch in reader:
                rows, batches = rows + batch.num_rows, batches + 1
        print(f"       {rows:,} rows in {batches:,} batches")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="headrace-demo-") as temporary:
        main(Path(temporary))
