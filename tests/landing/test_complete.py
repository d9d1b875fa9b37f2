"""Complete mode: each epoch's result replaces the one before it, and no older one comes back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from headrace.spark import LanceSink
from support.lance_tables import LanceTable, create_table
from support.streams import StreamInput, drain, replay, stamps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

SCHEMA = pa.schema([pa.field("kind", pa.int64()), pa.field("n", pa.int64(), nullable=False)])
METADATA = {b"kept": b"yes"}


@pytest.fixture
def source(tmp_path: Path) -> StreamInput:
    return StreamInput(tmp_path / "input")


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table that held something else before."""
    uri = str(tmp_path / "table.lance")
    before = pa.table({"kind": [77], "n": [77]}, schema=SCHEMA.with_metadata(METADATA))
    create_table(uri, before)
    return uri


def counts(source: StreamInput, spark: SparkSession) -> DataFrame:
    """How many ids there are of each last digit; negative ones do not count."""
    ids = source.stream(spark).where("id >= 0")
    return ids.groupBy((ids.id % 10).alias("kind")).count().withColumnRenamed("count", "n")


def writer(frame: DataFrame, uri: str, way: str) -> DataStreamWriter:
    complete = frame.writeStream.outputMode("complete")
    if way == "format":
        return complete.format("lance").options(path=uri, streamingQueryId="q")
    return complete.foreachBatch(LanceSink(uri, query_id="q", mode="complete"))


def held(uri: str, version: int | None = None) -> dict[int, int]:
    table = lance.dataset(uri, version=version).to_table()
    found = dict(zip(table["kind"].to_pylist(), table["n"].to_pylist(), strict=True))
    assert len(found) == table.num_rows
    return found


def epochs(uri: str) -> list[tuple[str, str]]:
    """Operation and epoch of every version but the first."""
    return [(stamp.operation, stamp.properties.get("lance.streaming.epochId", "-")) for stamp in stamps(uri)[1:]]


@pytest.mark.parametrize("way", ["format", "sink"])
def test_each_epoch_is_one_overwrite_with_the_whole_result(
    source: StreamInput, spark: SparkSession, uri: str, tmp_path: Path, way: str
) -> None:
    """L9: an empty result is one empty overwrite with the table's schema; a replay changes nothing."""
    source.add(-1, -2)
    source.add(1, 2, 11)
    source.add(21, 3)
    frame = counts(source, spark)
    drain(writer(frame, uri, way), tmp_path / "checkpoint")
    assert epochs(uri) == [("Overwrite", "0"), ("Overwrite", "1"), ("Overwrite", "2")]
    assert [held(uri, version) for version in (2, 3, 4)] == [{}, {1: 2, 2: 1}, {1: 3, 2: 1, 3: 1}]
    for version in (2, 4):
        schema = lance.dataset(uri, version=version).schema
        assert schema.equals(SCHEMA)
        assert schema.metadata == METADATA
    for epoch in (None, 0):
        replay(tmp_path / "checkpoint", epoch)
        drain(writer(frame, uri, way), tmp_path / "checkpoint")
        assert len(epochs(uri)) == 3
    source.add(5)
    drain(writer(frame, uri, way), tmp_path / "checkpoint")
    assert epochs(uri)[3:] == [("Overwrite", "3")]
    assert held(uri) == {1: 3, 2: 1, 3: 1, 5: 1}


@pytest.mark.parametrize("way", ["format", "sink"])
def test_a_foreign_overwrite_stops_the_stream_and_a_restart_replaces_it(
    source: StreamInput, spark: SparkSession, uri: str, tmp_path: Path, way: str
) -> None:
    """L25: the stream does not silently win over another writer's overwrite; its owner restarts it, or does not."""
    from pyspark.errors import StreamingQueryException

    source.add(1)
    started = (
        writer(counts(source, spark), uri, way)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="50 milliseconds")
        .start()
    )
    try:
        started.processAllAvailable()
        LanceTable(uri).write(pa.table({"kind": [88], "n": [88]}, schema=SCHEMA), "overwrite")
        source.add(2)
        with pytest.raises(StreamingQueryException, match="is an overwrite by another writer"):
            started.processAllAvailable()
    finally:
        started.stop()
    assert held(uri) == {88: 88}
    drain(writer(counts(source, spark), uri, way), tmp_path / "checkpoint")
    assert held(uri) == {1: 1, 2: 1}


def test_an_older_result_never_replaces_a_newer_one(spark: SparkSession, uri: str) -> None:
    """L9, L17: no matter which run sends it."""
    result = spark.createDataFrame([(1, 5)], "kind BIGINT, n BIGINT")
    older = spark.createDataFrame([(1, 4)], "kind BIGINT, n BIGINT")
    sink = LanceSink(uri, query_id="q", mode="complete")
    sink(result, 5)
    for late in (sink, LanceSink(uri, query_id="q", mode="complete")):
        late(older, 4)
        late(older, 5)
    assert held(uri) == {1: 5}
    assert epochs(uri) == [("Overwrite", "5")]
