"""Landing epochs in Lance, against Spark's own parquet sink and against collecting them on the driver.

Two measurements: the time of an epoch compared with the alternatives, and the time of an epoch as versions accumulate.
The first runs real Spark streams in turns, the second only the commit protocol. `rows dropped` passes the rows to
Python and drops them: that time is Spark's, and no sink in Python can be faster.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from _measure import table


@dataclass(frozen=True)
class Shape:
    """The columns of a row."""

    name: str
    schema: pa.Schema
    columns: tuple[str, ...]


NARROW = Shape(
    "narrow",
    pa.schema([("id", pa.int64()), ("k", pa.int64()), ("x", pa.float64()), ("name", pa.string())]),
    ("value AS id", "value % 1000 AS k", "value * 0.5D AS x", "concat('name-', value % 5000) AS name"),
)
VECTORS = Shape(
    "vectors of 128",
    pa.schema([("id", pa.int64()), ("v", pa.list_(pa.float32(), 128))]),
    ("value AS id", "transform(sequence(1, 128), i -> float(i * value % 1000)) AS v"),
)

WARM_UP = 4


def session(folder: Path) -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)  # so that workers can import this module
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .getOrCreate()
    )


def naive(uri: str, schema: pa.Schema) -> Callable[[Any, int], None]:
    def land(df: Any, _: int) -> None:
        lance.write_dataset(pa.Table.from_pandas(df.toPandas(), schema=schema), uri, mode="append")

    return land


def drop(df: Any, _: int) -> None:
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([[sum(batch.num_rows for batch in batches)]], names=["rows"])

    df.mapInArrow(count, "rows long").collect()


def epoch_seconds(spark: Any, kind: str, folder: Path, shape: Shape, rows: int, epochs: int) -> list[float]:
    """Return the seconds of each epoch of a new stream, without the first few."""
    from headrace.spark import LanceSink

    uri = str(folder / "out.lance")
    lance.write_dataset(shape.schema.empty_table(), uri)
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 2).load()
    writer = source.selectExpr(*shape.columns).writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    query = {
        'format("lance")': lambda: writer.format("lance").option("streamingQueryId", "bench").start(uri),
        "LanceSink": lambda: writer.foreachBatch(LanceSink(uri, query_id="bench")).start(),
        "parquet": lambda: writer.format("parquet").start(str(folder / "out.parquet")),
        "toPandas": lambda: writer.foreachBatch(naive(uri, shape.schema)).start(),
        "rows dropped": lambda: writer.foreachBatch(drop).start(),
    }[kind]()
    try:
        while len(query.recentProgress) < epochs + WARM_UP:
            if not query.isActive:
                raise SystemExit(f"{kind} stopped: {query.exception()}")
            time.sleep(0.05)
        durations = [progress.durationMs["triggerExecution"] / 1000 for progress in query.recentProgress]
    finally:
        query.stop()
    return durations[WARM_UP : epochs + WARM_UP]


def against_others(shape: Shape, rows: int, epochs: int, rounds: int) -> str:
    kinds = ['format("lance")', "LanceSink", "parquet", "toPandas", "rows dropped"]
    seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as name:
        import headrace.spark

        spark = session(Path(name))
        headrace.spark.register(spark)
        for round_ in range(rounds):
            for kind in kinds:
                folder = Path(name, f"{round_}-{kinds.index(kind)}")
                folder.mkdir()
                seconds[kind] += epoch_seconds(spark, kind, folder, shape, rows, epochs)
                shutil.rmtree(folder, ignore_errors=True)
        spark.stop()
    medians = {kind: statistics.median(times) for kind, times in seconds.items()}
    return table(
        ["sink", "ms per epoch", ": parquet", ": toPandas"],
        [
            [kind, f"{ms * 1000:.0f}", f"{ms / medians['parquet']:.2f}", f"{ms / medians['toPandas']:.2f}"]
            for kind, ms in medians.items()
        ],
    )


def as_versions_accumulate(marks: list[int]) -> None:
    """Measure writing and committing one small epoch, with and without compaction; print each result when done."""
    from headrace.tables.manage.compact import CompactionRules

    contenders = {
        "compactEveryEpochs=50, retainVersions=100": CompactionRules(every_epochs=50, retain_versions=100),
        "compactEveryEpochs=50": CompactionRules(every_epochs=50),
        "no compaction": CompactionRules(),
    }
    for name, rules in contenders.items():
        found = accumulated(rules, marks)
        first = found[marks[0]].seconds
        lines = [
            [
                str(mark),
                f"{at.seconds * 1000:.1f}",
                f"{at.seconds / first:.2f}",
                f"{at.versions_read:.2f}",
                str(at.versions),
                str(at.fragments),
                f"{at.bytes / 1e6:.0f}",
            ]
            for mark, at in found.items()
        ]
        head = ["epochs", "ms per epoch", f": at {marks[0]}", "versions read", "versions kept", "fragments", "MB"]
        print(f"\n{name}\n{table(head, lines)}", flush=True)


@dataclass(frozen=True)
class Accumulated:
    """A table after a number of epochs: the median of the last epochs' seconds, and what is there."""

    seconds: float
    versions_read: float
    versions: int
    fragments: int
    bytes: int


def accumulated(rules: Any, marks: list[int], window: int = 40) -> dict[int, Accumulated]:
    from headrace.tables import sink as sinks
    from headrace.tables.commit.ledger import QueryRun
    from headrace.tables.commit.payload import AppendPayload
    from headrace.tables.commit.protocol import Rules
    from headrace.tables.location import Location
    from headrace.tables.write.data_files import Task, write_rows

    batch = pa.record_batch([range(100), range(100), [0.5] * 100, ["x"] * 100], schema=NARROW.schema)
    found: dict[int, Accumulated] = {}
    run = QueryRun("bench", "bench")
    with tempfile.TemporaryDirectory() as name:
        location = Location(f"{name}/t.lance")
        lance.write_dataset(NARROW.schema.empty_table(), location.uri)
        sink = sinks.EpochSink(sinks.SinkSettings(location, Rules("bench"), compaction=rules))
        seconds: list[float] = []
        read: list[int] = []
        for epoch in range(marks[-1]):
            started = time.perf_counter()
            before = sink.committer(run).state.versions_read
            sink.land(epoch, run, AppendPayload([write_rows([batch], location, Task(0, run, epoch))]))
            seconds.append(time.perf_counter() - started)
            read.append(sink.committer(run).state.versions_read - before)
            if epoch + 1 in marks:
                sinks.compactor.wait()
                there = lance.dataset(location.uri)
                found[epoch + 1] = Accumulated(
                    statistics.median(seconds[-window:]),
                    statistics.mean(read[-window:]),
                    len(there.versions()),
                    len(there.get_fragments()),
                    sum(file.stat().st_size for file in Path(location.uri).rglob("*") if file.is_file()),
                )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000, 2_000_000], help="rows per epoch, narrow rows")
    parser.add_argument("--vectors", type=int, nargs="*", default=[1_000, 200_000], help="rows per epoch, vectors")
    parser.add_argument("--epochs", type=int, default=8, help="measured epochs of each stream")
    parser.add_argument("--rounds", type=int, default=3, help="streams of each sink, in turns")
    parser.add_argument("--versions", type=int, nargs="*", default=[50, 1_000, 10_000])
    arguments = parser.parse_args()
    for shape, counts in [(NARROW, arguments.rows), (VECTORS, arguments.vectors)]:
        for rows in counts:
            print(f"\n{rows:,} rows per epoch, {shape.name}")
            print(against_others(shape, rows, arguments.epochs, arguments.rounds), flush=True)
    if arguments.versions:
        print("\n100 rows per epoch, without Spark, as versions accumulate")
        as_versions_accumulate(arguments.versions)


if __name__ == "__main__":
    main()
