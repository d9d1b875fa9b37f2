"""Tables of a Lance namespace: found and made by name, with the credentials the namespace hands out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import lance_namespace
import pyarrow as pa
import pytest

from headrace import ConfigurationError, TableNotFoundError
from headrace.spark import LanceSink
from support.s3_server import S3Server
from support.streams import ARROW_SCHEMA, StreamInput, drain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter


@pytest.fixture
def source(tmp_path: Path) -> StreamInput:
    source = StreamInput(tmp_path / "input")
    source.add(1, 2)
    return source


def make(options: dict[str, str], *table_id: str) -> Any:
    """An empty table, with the namespaces around it, by plain pylance; returns the namespace."""
    namespace = lance_namespace.connect("dir", options)
    for depth in range(1, len(table_id)):
        namespace.create_namespace(lance_namespace.CreateNamespaceRequest(id=list(table_id[:depth])))
    lance.write_dataset(ARROW_SCHEMA.empty_table(), namespace_client=namespace, table_id=list(table_id), mode="create")
    return namespace


def rows(namespace: Any, *table_id: str) -> list[int]:
    table = lance.dataset(namespace_client=namespace, table_id=list(table_id)).to_table()
    return sorted(table["id"].to_pylist())


def stream(
    source: StreamInput, spark: SparkSession, table_id: str, options: dict[str, str], **more: str
) -> DataStreamWriter:
    named = {f"namespace.{name}": value for name, value in options.items()}
    return (
        source.stream(spark)
        .writeStream.format("lance")
        .options(namespace="dir", tableId=table_id, streamingQueryId="q", **named, **more)
    )


@pytest.mark.parametrize("table_id", ["orders", "sales.north.orders"])
def test_a_table_is_found_by_its_name(source: StreamInput, spark: SparkSession, tmp_path: Path, table_id: str) -> None:
    """L35: in the root and nested; in both ways, and without a path anywhere."""
    options, parts = {"root": str(tmp_path / "root")}, table_id.split(".")
    namespace = make(options, *parts)
    drain(stream(source, spark, table_id, options), tmp_path / "checkpoint")
    assert rows(namespace, *parts) == [1, 2]
    sink = LanceSink(namespace="dir", namespace_options=options, table_id=parts, query_id="sink")
    for _ in range(2):
        sink(spark.range(3, 5), 0)
    assert rows(namespace, *parts) == [1, 2, 3, 4]
    assert f"dir namespace table {table_id}" in repr(sink)


def test_rows_are_merged_into_a_table_of_a_namespace(spark: SparkSession, tmp_path: Path) -> None:
    """L11, L35: staged rows go beside the table, wherever the namespace has put it."""
    options = {"root": str(tmp_path / "root")}
    namespace = make(options, "sales", "orders")
    sink = LanceSink(
        namespace="dir", namespace_options=options, table_id="sales.orders", query_id="q", mode="upsert", keys="id"
    )
    sink(spark.range(3), 0)
    sink(spark.range(2, 4), 1)
    assert rows(namespace, "sales", "orders") == [0, 1, 2, 3]


def test_a_table_that_is_not_in_the_namespace_is_an_error_that_names_it(spark: SparkSession, tmp_path: Path) -> None:
    """L5, L35: of our own class, with the hint."""
    options = {"root": str(tmp_path / "root")}
    for table_id in ("orders", "nowhere.orders"):
        sink = LanceSink(namespace="dir", namespace_options=options, table_id=table_id, query_id="q")
        with pytest.raises(TableNotFoundError, match=rf"{table_id}.*create_table=True"):
            sink(spark.range(1), 0)


def test_a_table_is_made_in_a_namespace_on_request(source: StreamInput, spark: SparkSession, tmp_path: Path) -> None:
    """L5, L35: under its name, so that the namespace lists it."""
    options = {"root": str(tmp_path / "root")}
    drain(stream(source, spark, "orders", options, createTable="true"), tmp_path / "checkpoint")
    namespace = lance_namespace.connect("dir", options)
    assert rows(namespace, "orders") == [1, 2]
    assert namespace.list_tables(lance_namespace.ListTablesRequest(id=[])).tables == ["orders"]


def vended(server: S3Server, **more: str) -> dict[str, str]:
    """A namespace on S3 that alone knows the credentials, and hands them out for a second at a time."""
    return {
        "root": f"s3://{server.make_bucket()}/root",
        "vend_input_storage_options": "true",
        "vend_input_storage_options_refresh_interval_millis": "1000",
        **{f"storage.{name}": value for name, value in server.storage_options.items()},
        **more,
    }


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in the environment could stand in for what the namespace hands out."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_credentials")
def test_credentials_that_a_namespace_hands_out_are_used(
    source: StreamInput, spark: SparkSession, s3_server: S3Server, tmp_path: Path
) -> None:
    """L35, L36: by the tasks and by the commit; no storage option is given to the stream."""
    options = vended(s3_server)
    namespace = make(options, "orders")
    drain(stream(source, spark, "orders", options), tmp_path / "checkpoint")
    assert rows(namespace, "orders") == [1, 2]
    sink = LanceSink(
        namespace="dir", namespace_options=options, table_id="orders", query_id="sink", mode="upsert", keys="id"
    )
    sink(spark.range(2, 4), 0)
    assert rows(namespace, "orders") == [1, 2, 3]


@pytest.mark.usefixtures("no_credentials")
def test_credentials_are_asked_for_again_when_they_expire(s3_server: S3Server) -> None:
    """L35: a landing that outlives its credentials gets new ones from the namespace, and lands."""
    import time

    from headrace.spark.options import streaming
    from headrace.tables.commit.ledger import QueryRun
    from headrace.tables.commit.payload import AppendPayload
    from headrace.tables.sink import EpochSink
    from headrace.tables.write.data_files import Task, write_rows

    options = vended(s3_server, ops_metrics_enabled="true")
    namespace = make(options, "orders")
    given = {f"namespace.{name}": value for name, value in options.items()}
    sink = EpochSink(streaming({"streamingQueryId": "q", "namespace": "dir", "tableId": "orders", **given}))
    run, client = QueryRun("run"), sink.settings.location.lance_arguments()["namespace_client"]
    snapshot = sink.prepare(ARROW_SCHEMA)
    expires = int(snapshot.dataset.latest_storage_options()["expires_at_millis"]) / 1000

    def slow_batches() -> Any:
        yield pa.record_batch({"id": [1]}, schema=ARROW_SCHEMA)
        time.sleep(max(0.0, expires - time.time()) + 0.1)  # the moment of expiry is what is waited for
        yield pa.record_batch({"id": [2]}, schema=ARROW_SCHEMA)

    asked = client.retrieve_ops_metrics()["describe_table"]
    message = write_rows(slow_batches(), sink.settings.location, Task(0, run, 0))
    sink.land(0, run, AppendPayload([message]))
    assert client.retrieve_ops_metrics()["describe_table"] > asked
    assert rows(namespace, "orders") == [1, 2]
    newest = snapshot.dataset.latest_storage_options()["expires_at_millis"]
    assert int(newest) / 1000 > expires


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("dir", {}, "option root"),
        ("nowhere.Namespace", {}, "Cannot connect to the Lance namespace 'nowhere.Namespace'"),
    ],
)
def test_a_namespace_that_cannot_be_used_is_refused_by_name(
    spark: SparkSession, kind: str, options: dict[str, str], said: str
) -> None:
    """L35: with what it needs."""
    sink = LanceSink(namespace=kind, namespace_options=options, table_id="orders", query_id="q")
    with pytest.raises(ConfigurationError) as caught:
        sink(spark.range(1), 0)
    assert said in str(caught.value)
    assert "Hint:" in str(caught.value)
