"""The rows and the streams of the benches of sinks. Imports Lance where it is used only.

A measured start includes what an application imports for its first epoch.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness import Samples

OURS = ('format("lance")', "LanceSink")
DROPPED = "rows dropped"
PARQUET = "Spark's parquet"


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of a row."""

    name: str
    schema: pa.Schema
    columns: tuple[str, ...]


NARROW = Shape(
    "narrow rows",
    pa.schema([("id", pa.int64()), ("k", pa.int64()), ("x", pa.float64()), ("name", pa.string())]),
    ("value AS id", "value % 1000 AS k", "value * 0.5D AS x", "concat('name-', value % 5000) AS name"),
)
VECTORS = Shape(
    "vectors of 128",
    pa.schema([("id", pa.int64()), ("v", pa.list_(pa.float32(), 128))]),
    ("value AS id", "transform(sequence(1, 128), i -> float(i * value % 1000)) AS v"),
)

Start = Callable[[Any, Path], Any]
"""Starts a stream, given its writer and a folder that has the empty table ``out.lance``; returns Spark's query."""


def writer(spark: Any, folder: Path, shape: Shape, rows: int) -> Any:
    """Return the writer of a stream with this many rows in each epoch, in two partitions."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 2).load()
    return source.selectExpr(*shape.columns).writeStream.option("checkpointLocation", str(folder / "checkpoint"))


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream that is started again in each round; without its first epochs, in which Java compiles."""

    spark: Any
    start: Start
    shape: Shape
    rows: int
    epochs: int
    warm_up: int = 3

    def __call__(self) -> Samples:
        """Run the stream in a new folder, and return the milliseconds of its epochs."""
        import lance

        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
            folder = Path(name)
            lance.write_dataset(self.shape.schema.empty_table(), folder / "out.lance")
            query = self.start(writer(self.spark, folder, self.shape, self.rows), folder)
            try:
                progress = epochs_of(query, self.warm_up + self.epochs)
            finally:
                query.stop()
        times = [each.durationMs["triggerExecution"] for each in progress]
        return Samples({"time": times[self.warm_up : self.warm_up + self.epochs]})


def epochs_of(query: Any, count: int) -> list[Any]:
    """Wait until a query has run this many epochs, and return their progress."""
    while len(query.recentProgress) < count:
        if not query.isActive:
            raise SystemExit(f"the stream stopped: {query.exception()}")
        time.sleep(0.01)
    return list(query.recentProgress)


def to_format(writer: Any, folder: Path) -> Any:
    """Land epochs with ``format("lance")``."""
    return writer.format("lance").option("streamingQueryId", "bench").start(str(folder / "out.lance"))


def to_sink(writer: Any, folder: Path) -> Any:
    """Land epochs with `LanceSink`."""
    from headrace.spark import LanceSink

    return writer.foreachBatch(LanceSink(folder / "out.lance", query_id="bench")).start()


def to_parquet(writer: Any, folder: Path) -> Any:
    """Write epochs with Spark's own parquet sink."""
    return writer.format("parquet").start(str(folder / "out.parquet"))


def to_nothing(writer: Any, folder: Path) -> Any:
    """Hand the rows to Python and drop them."""

    def drop(df: Any, _: int) -> None:
        def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield pa.record_batch([[sum(batch.num_rows for batch in batches)]], names=["rows"])

        df.mapInArrow(count, "rows long").collect()

    return writer.foreachBatch(drop).start()


def collected(writer: Any, folder: Path) -> Any:
    """Collect each epoch on the driver, and append it with Lance: at least once, and no larger than the driver."""
    import lance

    def land(df: Any, _: int) -> None:
        rows = pa.Table.from_pandas(df.toPandas(), schema=lance.dataset(folder / "out.lance").schema)
        lance.write_dataset(rows, folder / "out.lance", mode="append")

    return writer.foreachBatch(land).start()


def to_deltalake(writer: Any, folder: Path) -> Any:
    """Collect each epoch on the driver, and append it with the `deltalake` package: at least once."""
    import deltalake

    def land(df: Any, _: int) -> None:
        deltalake.write_deltalake(folder / "out.delta", df.toArrow(), mode="append")

    return writer.foreachBatch(land).start()
