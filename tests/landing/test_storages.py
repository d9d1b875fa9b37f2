"""The same core on a disk and on an object store: append, complete, upsert, and the replay of each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.spark import LanceSink
from support.lance_tables import create_table
from support.s3_proxy import S3Proxy
from support.s3_server import S3Server
from support.storages import Storage
from support.streams import ARROW_SCHEMA, StreamInput, drain, replay, rows, stamps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter

OPERATIONS = {"append": "Append", "complete": "Overwrite", "upsert": "Update"}


@pytest.fixture
def source(tmp_path: Path) -> StreamInput:
    return StreamInput(tmp_path / "input")


def writer(
    source: StreamInput, spark: SparkSession, uri: str, options: dict[str, str], way: str, mode: str
) -> DataStreamWriter:
    frame = source.stream(spark)
    if mode == "complete":
        frame = frame.groupBy("id").count().select("id")
    stream = frame.writeStream.outputMode("complete" if mode == "complete" else "append")
    if way == "format":
        given = {f"storage.{name}": value for name, value in options.items()}
        return stream.format("lance").options(path=uri, streamingQueryId="q", **given)
    keys = "id" if mode == "upsert" else None
    return stream.foreachBatch(LanceSink(uri, query_id="q", mode=mode, keys=keys, storage_options=options))


@pytest.mark.parametrize(
    ("way", "mode"),
    [
        ("format", "append"),
        pytest.param("format", "complete", marks=pytest.mark.slow),
        pytest.param("sink", "append", marks=pytest.mark.slow),
        pytest.param("sink", "complete", marks=pytest.mark.slow),
        pytest.param("sink", "upsert", marks=pytest.mark.slow),
    ],
)
def test_epochs_land_once_wherever_the_table_is(
    source: StreamInput, spark: SparkSession, storage: Storage, tmp_path: Path, way: str, mode: str
) -> None:
    """L36, L12, L13: three epochs, each sent again; storage options reach the tasks and the commit."""
    uri, options, checkpoint = storage.uri("table"), storage.storage_options, tmp_path / "checkpoint"
    create_table(uri, ARROW_SCHEMA, options)

    def run() -> None:
        drain(writer(source, spark, uri, options, way, mode), checkpoint)

    source.add(1, 2)
    source.add()
    source.add(3)
    run()
    before = stamps(uri, options)
    for epoch in (2, 0):
        replay(checkpoint, epoch)
        run()
    assert stamps(uri, options) == before
    source.add(4)
    run()
    assert rows(uri, options) == [1, 2, 3, 4]
    epochs = [(each.operation, each.properties.get("lance.streaming.epochId")) for each in stamps(uri, options)]
    landed = ["0", "1", "2", "3"] if mode == "complete" else ["0", "2", "3"]
    assert [each for each in epochs if each[1]] == [(OPERATIONS[mode], epoch) for epoch in landed]


def test_nothing_but_the_storage_options_leads_to_the_store(
    source: StreamInput, spark: SparkSession, s3_server: S3Server, s3_proxy: S3Proxy, tmp_path: Path
) -> None:
    """L34: data files, manifests and the bookmark all go where the options say, here through a proxy."""
    uri = f"s3://{s3_server.make_bucket()}/table.lance"
    create_table(uri, ARROW_SCHEMA, s3_server.storage_options)
    source.add(1)
    drain(writer(source, spark, uri, s3_proxy.storage_options, "format", "append"), tmp_path / "checkpoint")
    assert rows(uri, s3_server.storage_options) == [1]
    for part in ("/data/", "/_versions/", "/_headrace/"):
        assert s3_proxy.seen("PUT", part), f"nothing was put under {part}"


def test_a_bucket_that_is_not_there_is_an_error_that_names_the_table(spark: SparkSession, s3_server: S3Server) -> None:
    """L5, L36: and neither a bucket nor a table comes into being."""
    uri = "s3://no-such-bucket-at-all/table.lance"
    with pytest.raises(Exception, match="no-such-bucket-at-all"):
        LanceSink(uri, query_id="q", storage_options=s3_server.storage_options)(spark.range(1), 0)
    assert "no-such-bucket-at-all" not in {each["Name"] for each in s3_server.client().list_buckets()["Buckets"]}
