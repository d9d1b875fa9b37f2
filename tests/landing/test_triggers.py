"""Triggers: every kind of running a query lands each epoch once, across stops and restarts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.spark import LanceSink
from support.lance_tables import create_table
from support.streams import ARROW_SCHEMA, DRAIN_SECONDS, StreamInput, drain, rows, stamps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter


@pytest.fixture
def source(tmp_path: Path) -> StreamInput:
    source = StreamInput(tmp_path / "input")
    source.add(1)
    return source


def writer(source: StreamInput, spark: SparkSession, uri: str, checkpoint: Path, way: str) -> DataStreamWriter:
    stream = source.stream(spark).writeStream.option("checkpointLocation", str(checkpoint))
    if way == "format":
        return stream.format("lance").options(path=uri, streamingQueryId="q")
    return stream.foreachBatch(LanceSink(uri, query_id="q"))


def epochs(uri: str) -> list[str]:
    found = (stamp.properties.get("lance.streaming.epochId") for stamp in stamps(uri))
    return [epoch for epoch in found if epoch is not None]


@pytest.mark.parametrize("way", ["format", "sink"])
def test_a_query_that_is_stopped_and_started_continues(
    source: StreamInput, spark: SparkSession, uri: str, tmp_path: Path, way: str
) -> None:
    """L37: by processing time, then once, then all that is available, on one checkpoint."""
    checkpoint = tmp_path / "checkpoint"
    for each in (2, 3):
        query = writer(source, spark, uri, checkpoint, way).trigger(processingTime="50 milliseconds").start()
        try:
            query.processAllAvailable()
            source.add(each)
            query.processAllAvailable()
        finally:
            query.stop()
        assert query.exception() is None
        assert rows(uri) == source.ids()
    source.add(4)
    query = writer(source, spark, uri, checkpoint, way).trigger(once=True).start()
    assert query.awaitTermination(DRAIN_SECONDS)
    source.add(5)
    source.add(6)
    query = writer(source, spark, uri, checkpoint, way).trigger(availableNow=True).start()
    assert query.awaitTermination(DRAIN_SECONDS)
    assert rows(uri) == [1, 2, 3, 4, 5, 6]
    assert epochs(uri) == ["0", "1", "2", "3", "4", "5"]
    fences = [stamp.properties for stamp in stamps(uri) if stamp.operation == "Project"]
    assert [fence["headrace.fence.lastEpochId"] for fence in fences] == ["-1", "1", "2", "3"]


def test_a_restart_with_nothing_to_do_leaves_no_trace(
    source: StreamInput, spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    """L37, L8: no fence either, since nothing is about to be landed."""
    for _ in range(2):
        query = writer(source, spark, uri, tmp_path / "checkpoint", "format").trigger(availableNow=True).start()
        assert query.awaitTermination(DRAIN_SECONDS)
        assert len(stamps(uri)) == 3


def test_progress_counts_what_was_landed(source: StreamInput, spark: SparkSession, uri: str, tmp_path: Path) -> None:
    """L37: Spark's own numbers are right."""
    source.add(2, 3)
    query = drain(writer(source, spark, uri, tmp_path / "checkpoint", "format"), tmp_path / "checkpoint")
    assert [progress["sink"]["numOutputRows"] for progress in query.recentProgress] == [1, 2]


def test_batches_without_data_that_a_watermark_causes_land_their_rows(spark: SparkSession, tmp_path: Path) -> None:
    """L37: an aggregation in append mode gives its groups when the watermark passes, often in a batch without input."""
    folder, uri = tmp_path / "events", str(tmp_path / "windows.lance")
    folder.mkdir()
    for number, seconds in enumerate([(10, 11, 12), (100, 101), (200,)]):
        at = pa.array([second * 1_000_000 for second in seconds], pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"at": at}), folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (1_700_000_000 + number,) * 2)
    frame = (
        spark.readStream.schema("at TIMESTAMP")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder))
        .withWatermark("at", "5 seconds")
        .groupBy("at")
        .count()
        .selectExpr("unix_seconds(at) as id")
    )
    create_table(uri, ARROW_SCHEMA)
    stream = frame.writeStream.format("lance").options(path=uri, streamingQueryId="q")
    query = drain(stream.outputMode("append"), tmp_path / "checkpoint")
    assert rows(uri) == [10, 11, 12, 100, 101]
    without_input = {str(each["batchId"]) for each in query.recentProgress if each["numInputRows"] == 0}
    assert without_input & set(epochs(uri)), "no rows came in a batch without input: the test shows nothing"
    before = stamps(uri)
    drain(stream.outputMode("append"), tmp_path / "checkpoint")
    assert stamps(uri) == before


def test_a_query_without_a_trigger_lands_as_well(
    source: StreamInput, spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    """L37: Spark's default, as soon as possible; two queries on one table at the same time."""
    first = writer(source, spark, uri, tmp_path / "first", "format").start()
    second = writer(source, spark, uri, tmp_path / "second", "format").option("streamingQueryId", "other").start()
    try:
        first.processAllAvailable()
        second.processAllAvailable()
    finally:
        first.stop()
        second.stop()
    assert rows(uri) == [1, 1]
    assert epochs(uri) == ["0", "0"]
