"""Reading Lance with Spark, against the same rows in parquet, and against a source that has its rows in memory.

Scans that sum columns, a stream that catches up with a history of small versions, and the start of a stream. `rows
handed over` is a source in Python without a table: what it takes is Spark's time, and no source in Python can be
faster. `compacted since` reads the same history of a table that was compacted after it. `a trigger per version` is
the same stream with one version in each epoch; it is measured over some of the versions, and the time of its triggers
is multiplied.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import lance
import pyarrow.compute as pc
import pyarrow.parquet as pq

from _handed import HandedOver
from _shapes import NARROW, VECTORS, Shape
from _spark import session
from harness import Aim, Case, Metric, Samples, Work, in_child, main

LANCE, PARQUET, HANDED = "Spark, lance", "Spark, parquet", "Spark, rows handed over"
COMPACTED, BY_VERSION = "Spark, lance, compacted since", "a trigger per version"
FILES = 8
FIRST = Metric("first epoch", "ms")


def cases(arguments: argparse.Namespace) -> Iterator[Case]:
    less = 100 if arguments.quick else 1
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with session(folder) as spark:
            spark.dataSource.register(HandedOver)
            for shape, rows in [(NARROW, arguments.rows), (VECTORS, arguments.vectors)]:
                yield scan(spark, folder / shape.name.replace(" ", "-"), shape, rows // less)
            bench = Streams(spark, folder, max(arguments.versions // less, 10), arguments.rows_per_version)
            yield bench.start()
            yield bench.catch_up()
        yield first_epoch(folder, 1 if arguments.quick else arguments.starts)


def scan(spark: Any, folder: Path, shape: Shape, rows: int) -> Case:
    """Return the case of sums over all rows, which no reader can answer from statistics."""
    uri, parquet = str(folder / "t.lance"), folder / "t.parquet"
    parquet.mkdir(parents=True)
    for part in range(FILES):
        some = shape.rows(part * rows // FILES, rows // FILES)
        lance.write_dataset(some, uri, mode="append" if part else "create")
        pq.write_table(some, parquet / f"{part}.parquet", row_group_size=128 * 1024)

    def summed(frame: Any, *sums: str) -> Callable[[], object]:
        return lambda: tuple(frame.selectExpr(*sums).first())

    def unchecked(run: Callable[[], object]) -> Callable[[], None]:
        def call() -> None:
            run()

        return call

    def alone() -> None:
        for batch in lance.dataset(uri).to_batches():
            pc.sum(batch["id"])

    read = spark.read.format("lance")
    tasks = read.load(uri).rdd.getNumPartitions()
    handed = spark.read.format("handed-over").options(shape=shape.name, rows=rows, tasks=tasks).load()
    one_column = spark.read.format("lance").option("columns", "id").load(uri)
    return Case(
        f"a scan of {rows:,} {shape.name}",
        {
            LANCE: summed(read.load(uri), *shape.sums),
            HANDED: unchecked(summed(handed, *shape.sums)),
            PARQUET: summed(spark.read.parquet(str(parquet)), *shape.sums),
            "Spark, lance, one column": unchecked(summed(one_column, "sum(id)")),
            "lance alone": alone,
        },
        ours=(LANCE, "Spark, lance, one column"),
        base=HANDED,
        rounds=5,
        work=Work(rows / 1e6, "million rows"),
        aims=(Aim(LANCE, 1.05, to=HANDED),),
    )


class Streams:
    """Streams over a history of equally large versions, and over the same rows in one parquet file per version."""

    def __init__(self, spark: Any, folder: Path, versions: int, rows: int) -> None:
        self._spark = spark
        self._folder = folder
        self._versions = versions
        self._rows = rows
        self._runs = count()
        self._uri, self._parquet = str(folder / "s.lance"), folder / "s.parquet"
        self._one = folder / "one.parquet"
        self._compacted = str(folder / "c.lance")
        self._parquet.mkdir()
        self._one.mkdir()
        pq.write_table(NARROW.rows(0, rows), self._one / "0.parquet")
        for version in range(versions):
            some = NARROW.rows(version * rows, rows)
            lance.write_dataset(some, self._uri, mode="append" if version else "create")
            pq.write_table(some, self._parquet / f"{version:05}.parquet")
        shutil.copytree(self._uri, self._compacted)
        lance.dataset(self._compacted).optimize.compact_files()

    def start(self) -> Case:
        """Return the case of a query that reads one version, in a session that has run others."""
        newest = self._from(self._versions)
        return Case(
            f"a stream's start, and {self._rows:,} {NARROW.name}",
            {
                LANCE: lambda: self._rows_of(newest),
                HANDED: lambda: self._rows_of(self._handed(self._rows)),
                PARQUET: lambda: self._rows_of(self._files(self._one)),
            },
            ours=(LANCE,),
            base=HANDED,
            rounds=5,
            aims=(Aim(LANCE, 1.25, to=HANDED),),
        )

    def catch_up(self) -> Case:
        """Return the case of a query that reads all versions, with the default limits."""
        rows = self._versions * self._rows
        return Case(
            f"catching up with {self._versions:,} versions of {self._rows:,} {NARROW.name}",
            {
                LANCE: lambda: self._rows_of(self._from(1)),
                COMPACTED: lambda: self._rows_of(self._from(1, self._compacted)),
                BY_VERSION: self._by_version,
                HANDED: lambda: self._rows_of(self._handed(rows)),
                PARQUET: lambda: self._rows_of(self._files(self._parquet)),
            },
            ours=(LANCE, COMPACTED),
            base=PARQUET,
            rounds=2,
            work=Work(rows / 1e6, "million rows"),
            aims=(
                Aim(LANCE, 0.33, to=BY_VERSION),
                Aim(LANCE, 1.5, to=PARQUET),
                Aim(COMPACTED, 1.5, to=PARQUET),
            ),
        )

    def _by_version(self) -> Samples:
        """Run a tenth of the versions, at most 25, and multiply the time of the triggers."""
        some = min(max(self._versions // 10, 1), 25)
        began = time.perf_counter()
        query = self._run(self._from(self._versions - some + 1, maxFilesPerTrigger=1))
        wall = (time.perf_counter() - began) * 1000
        triggers = sum(progress.durationMs["triggerExecution"] for progress in query.recentProgress)
        return Samples({"time": [wall + triggers * (self._versions / some - 1)]})

    def _from(self, version: int, uri: str = "", **options: object) -> Any:
        stream = self._spark.readStream.format("lance").options(startingVersion=version, **options)
        return stream.load(uri or self._uri)

    def _handed(self, rows: int) -> Any:
        return self._spark.readStream.format("handed-over").options(shape=NARROW.name, rows=rows, tasks=2).load()

    def _files(self, folder: Path) -> Any:
        return self._spark.readStream.schema(NARROW.spark).parquet(str(folder))

    def _rows_of(self, frame: Any) -> int:
        return sum(progress.numInputRows for progress in self._run(frame).recentProgress)

    def _run(self, frame: Any) -> Any:
        return ran(frame, self._folder / f"checkpoint-{next(self._runs)}")


def ran(frame: Any, checkpoint: Path) -> Any:
    """Return a query that has read what is available."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def first_epoch(folder: Path, starts: int) -> Case:
    """Return the case of an application's first stream, from a session to the end of the epoch."""
    uri, parquet = str(folder / "f.lance"), folder / "f.parquet"
    parquet.mkdir()
    some = NARROW.rows(0, 1000)
    lance.write_dataset(some, uri)
    pq.write_table(some, parquet / "0.parquet")
    where = {LANCE: uri, HANDED: "", PARQUET: str(parquet)}

    def started(kind: str) -> Samples:
        return Samples({FIRST.name: [in_child(__file__, kind, where[kind])["ms"]]})

    return Case(
        "the first epoch of an application",
        {kind: partial(started, kind) for kind in where},
        ours=(LANCE,),
        base=HANDED,
        rounds=starts,
        warm_up=False,
        metrics=(FIRST,),
        aims=(Aim(LANCE, 1.25, to=HANDED, metric=FIRST.name),),
    )


def child(kind: str, where: str) -> None:
    """Start an application, run a stream, and print the milliseconds that it took."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, session(Path(name)) as spark:
        spark.dataSource.register(HandedOver)
        began = time.perf_counter()
        stream = spark.readStream.schema(NARROW.spark)
        frame = {
            LANCE: lambda: spark.readStream.format("lance").load(where),
            HANDED: lambda: stream.format("handed-over").options(shape=NARROW.name, rows=1000, tasks=1).load(),
            PARQUET: lambda: stream.parquet(where),
        }[kind]()
        ran(frame, Path(name, "checkpoint"))
        print(json.dumps({"ms": (time.perf_counter() - began) * 1000}), flush=True)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=4_000_000, help="rows of a scan, narrow rows")
    parser.add_argument("--vectors", type=int, default=400_000, help="rows of a scan, vectors")
    parser.add_argument("--versions", type=int, default=1_000, help="versions a stream catches up with")
    parser.add_argument("--rows-per-version", type=int, default=1_000)
    parser.add_argument("--starts", type=int, default=1, help="applications started with each contender")


if __name__ == "__main__":
    main(cases, options=options, child=child)
