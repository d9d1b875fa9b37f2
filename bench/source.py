"""Reading Lance with Spark, against the same rows in parquet, and against Lance alone in one process.

Batch scans that sum columns, and a stream that catches up with a history of many versions. All contenders read the
same rows in turns, and the ratios are of medians within one run. `rows handed over` is a source in Python with its
rows in memory: that time is Spark's, and no source in Python can be faster.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from _measure import table
from sink import NARROW, VECTORS, Shape, session


def rows_of(shape: Shape, first: int, count: int) -> pa.Table:
    ids = np.arange(first, first + count)
    if shape.name == VECTORS.name:
        values = pa.array((np.arange(count * 128) % 1000).astype(np.float32))
        return pa.table([ids, pa.FixedSizeListArray.from_arrays(values, 128)], schema=shape.schema)
    names = pa.array([f"name-{number}" for number in range(5000)]).take(pa.array(ids % 5000))
    return pa.table([ids, ids % 1000, ids * 0.5, names], schema=shape.schema)


class HandedOver(DataSource):
    """A source with as many tasks as headrace's, each of which yields the same batch repeatedly."""

    @classmethod
    def name(cls) -> str:
        return "handed-over"

    def schema(self) -> str:
        return "id bigint, v array<float>" if self._is_vectors else "id bigint, k bigint, x double, name string"

    def reader(self, schema: Any) -> DataSourceReader:
        shape = VECTORS if self._is_vectors else NARROW
        return HandedOverReader(shape, int(self.options["rows"]), int(self.options["tasks"]))

    @property
    def _is_vectors(self) -> bool:
        return self.options["shape"] == VECTORS.name


class HandedOverReader(DataSourceReader):
    def __init__(self, shape: Shape, rows: int, tasks: int) -> None:
        self._shape = shape
        self._rows = rows // tasks
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(task) for task in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        at_once = 8_000 if "v" in self._shape.schema.names else 65_000
        rows = rows_of(self._shape, 0, at_once)
        if "v" in rows.column_names:
            rows = rows.cast(pa.schema([("id", pa.int64()), ("v", pa.list_(pa.field("element", pa.float32())))]))
        batch = rows.to_batches()[0]
        for first in range(0, self._rows, at_once):
            yield batch.slice(0, min(at_once, self._rows - first))


def in_turns(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for round_ in range(rounds + 1):
        for name, run in contenders.items():
            started = time.perf_counter()
            run()
            if round_:  # the first round is warm-up
                seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(times) for name, times in seconds.items()}


def as_table(medians: dict[str, float], rows: int) -> str:
    return table(
        ["reader", "s", "million rows per s", ": parquet"],
        [
            [name, f"{time_:.2f}", f"{rows / time_ / 1e6:.2f}", f"{time_ / medians['Spark, parquet']:.2f}"]
            for name, time_ in medians.items()
        ],
    )


def scans(spark: Any, folder: Path, shape: Shape, rows: int, rounds: int) -> str:
    """Measure a sum over all rows, which no reader can answer from statistics."""
    uri, parquet = str(folder / "t.lance"), folder / "t.parquet"
    parquet.mkdir()
    parts = 8
    for part in range(parts):
        some = rows_of(shape, part * rows // parts, rows // parts)
        lance.write_dataset(some, uri, mode="append" if part else "create")
        pq.write_table(some, parquet / f"{part}.parquet", row_group_size=128 * 1024)
    what = "sum(id), sum(v[0])" if shape.name == VECTORS.name else "sum(id), sum(k), sum(x), max(name)"

    tasks = spark.read.format("lance").load(uri).rdd.getNumPartitions()
    made = spark.read.format("handed-over").options(shape=shape.name, rows=rows, tasks=tasks)

    def summed(frame: Any) -> Callable[[], object]:
        return lambda: frame.selectExpr(*what.split(", ")).collect()

    def alone() -> None:
        for batch in lance.dataset(uri).to_batches():
            pc.sum(batch["id"])

    return as_table(
        in_turns(
            {
                "Spark, lance": summed(spark.read.format("lance").load(uri)),
                "Spark, lance, one column": summed_one(spark.read.format("lance").option("columns", "id").load(uri)),
                "Spark, rows handed over": summed(made.load()),
                "Spark, parquet": summed(spark.read.parquet(str(parquet))),
                "lance alone": alone,
            },
            rounds,
        ),
        rows,
    )


def summed_one(frame: Any) -> Callable[[], object]:
    return lambda: frame.selectExpr("sum(id)").collect()


def catch_up(spark: Any, folder: Path, versions: int, rows: int, rounds: int) -> str:
    """Measure an AvailableNow query over a history of equally large versions; parquet has one file per version."""
    uri, parquet = str(folder / "s.lance"), folder / "s.parquet"
    parquet.mkdir()
    for version in range(versions):
        some = rows_of(NARROW, version * rows, rows)
        lance.write_dataset(some, uri, mode="append" if version else "create")
        pq.write_table(some, parquet / f"{version:05}.parquet")
    runs = iter(range(10_000))

    def run(reader: Any) -> None:
        query = (
            reader.writeStream.format("noop")
            .option("checkpointLocation", str(folder / f"checkpoint-{next(runs)}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    schema = spark.read.parquet(str(parquet)).schema
    versioned = spark.readStream.format("lance").option("startingVersion", 1)
    return as_table(
        in_turns(
            {
                "Spark, lance": lambda: run(versioned.load(uri)),
                "Spark, lance, 10 triggers": lambda: run(
                    versioned.option("maxFilesPerTrigger", -(-versions // 10)).load(uri)
                ),
                "Spark, parquet": lambda: run(spark.readStream.schema(schema).parquet(str(parquet))),
                "Spark, parquet, 10 triggers": lambda: run(
                    spark.readStream.schema(schema)
                    .option("maxFilesPerTrigger", -(-versions // 10))
                    .parquet(str(parquet))
                ),
            },
            rounds,
        ),
        versions * rows,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000, help="rows of a batch scan, narrow rows")
    parser.add_argument("--vectors", type=int, default=400_000, help="rows of a batch scan, vectors")
    parser.add_argument("--versions", type=int, default=200, help="versions a stream catches up with")
    parser.add_argument("--rows-per-version", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark = session(folder)
        import headrace.spark

        headrace.spark.register(spark)
        spark.dataSource.register(HandedOver)
        for shape, rows in [(NARROW, arguments.rows), (VECTORS, arguments.vectors)]:
            part = folder / shape.name.replace(" ", "-")
            part.mkdir()
            print(f"\nA batch scan of {rows:,} rows, {shape.name}")
            print(scans(spark, part, shape, rows, arguments.rounds), flush=True)
        print(f"\nA stream that catches up with {arguments.versions} versions of {arguments.rows_per_version:,} rows")
        print(catch_up(spark, folder, arguments.versions, arguments.rows_per_version, arguments.rounds), flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
