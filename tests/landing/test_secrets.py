"""Secrets: what is given as a storage option or to a namespace is found in no text that anybody reads."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace import HeadraceError
from headrace.spark import LanceSink
from support.canaries import CANARY, prefixed, require_clean_folder, require_no_text_shows_one, with_canaries
from support.deadlines import PROGRAM_SECONDS
from support.lance_tables import create_table
from support.s3_proxy import ALWAYS, S3Proxy
from support.s3_server import S3Server
from support.streams import ARROW_SCHEMA, StreamInput, drain, rows, stamps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def uri(s3_server: S3Server) -> str:
    uri = f"s3://{s3_server.make_bucket()}/table.lance"
    create_table(uri, ARROW_SCHEMA, s3_server.storage_options)
    return uri


def require_clean_bucket(server: S3Server, uri: str) -> None:
    client, bucket = server.client(), uri.split("/")[2]
    names = [each["Key"] for each in client.list_objects_v2(Bucket=bucket)["Contents"]]
    assert any("_headrace/" in name for name in names)
    for name in names:
        assert CANARY.encode() not in client.get_object(Bucket=bucket, Key=name)["Body"].read(), name


@pytest.mark.parametrize("way", ["format", "sink"])
def test_a_stream_that_goes_well_shows_no_secret(
    source: StreamInput,
    spark: SparkSession,
    s3_server: S3Server,
    uri: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    way: str,
) -> None:
    """L34: progress, plans, standard output and error, the checkpoint, and all that is in the bucket."""
    options, stream = with_canaries(s3_server.storage_options), source.stream(spark).writeStream
    if way == "format":
        writer = stream.format("lance").options(path=uri, streamingQueryId="q", **prefixed(options))
    else:
        sink = LanceSink(uri, query_id="q", storage_options=options)
        require_no_text_shows_one(sink)
        writer = stream.foreachBatch(sink)
    query = drain(writer, tmp_path / "checkpoint")
    assert rows(uri, s3_server.storage_options) == [1, 2]
    query.explain(True)
    shown = json.dumps(query.recentProgress, default=str) + str(query.status)
    shown += "".join(f"{stamp}" for stamp in stamps(uri, s3_server.storage_options))
    assert CANARY not in shown
    captured = capfd.readouterr()
    assert "Physical Plan" in captured.out
    assert CANARY not in captured.out + captured.err
    require_clean_folder(tmp_path / "checkpoint")
    require_clean_bucket(s3_server, uri)


@pytest.mark.parametrize("fault", ["refused by the store", "refused in mid-stream", "no such bucket"])
@pytest.mark.parametrize("way", ["format", "sink"])
def test_an_error_shows_no_secret(
    source: StreamInput,
    spark: SparkSession,
    s3_proxy: S3Proxy,
    uri: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    way: str,
    fault: str,
) -> None:
    """L34, F12: what the user reads, what Spark logs; a 403 says that it is one, and at which table."""
    from pyspark.errors import StreamingQueryException

    if fault == "refused by the store":
        s3_proxy.fail("GET", "", status=403, times=ALWAYS)
        s3_proxy.fail("HEAD", "", status=403, times=ALWAYS)
    elif fault == "refused in mid-stream":
        s3_proxy.fail("PUT", "/data/", status=403, times=ALWAYS)
    else:
        uri = "s3://no-such-bucket-at-all/table.lance"
    options = with_canaries(s3_proxy.storage_options)
    if way == "format":
        writer = source.stream(spark).writeStream.format("lance")
        writer = writer.options(path=uri, streamingQueryId="q", **prefixed(options))
    else:
        sink = LanceSink(uri, query_id="q", storage_options=options)
        writer = source.stream(spark).writeStream.foreachBatch(sink)
    with pytest.raises(StreamingQueryException) as caught:
        drain(writer, tmp_path / "checkpoint")
    said, captured = str(caught.value), capfd.readouterr()
    assert uri in said
    if fault != "no such bucket":
        assert "403" in said or "AccessDenied" in said or "ermission" in said
    assert CANARY not in said + captured.out + captured.err
    require_clean_folder(tmp_path / "checkpoint")


def test_an_error_of_a_direct_call_holds_no_secret_in_its_whole_chain(
    spark: SparkSession, s3_proxy: S3Proxy, uri: str
) -> None:
    """L34: neither in a cause or context, nor in what it pickles to."""
    s3_proxy.fail("GET", "", status=403, times=ALWAYS)
    s3_proxy.fail("HEAD", "", status=403, times=ALWAYS)
    sink = LanceSink(uri, query_id="q", storage_options=with_canaries(s3_proxy.storage_options))
    with pytest.raises(HeadraceError) as caught:
        sink(spark.range(1), 0)
    error: BaseException | None = caught.value
    assert CANARY.encode() not in pickle.dumps(error)
    while error is not None:
        assert CANARY not in f"{error!r} {error}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_a_namespace_that_fails_shows_no_secret(spark: SparkSession, s3_proxy: S3Proxy, s3_server: S3Server) -> None:
    """L34, L35: nor does the sink that has the options."""
    s3_proxy.fail("GET", "", status=403, times=ALWAYS)
    s3_proxy.fail("HEAD", "", status=403, times=ALWAYS)
    s3_proxy.fail("PUT", "", status=403, times=ALWAYS)
    options = prefixed(with_canaries(s3_proxy.storage_options)) | {
        "root": f"s3://{s3_server.make_bucket()}/root",
        "vend_input_storage_options": "true",
    }
    sink = LanceSink(namespace="dir", namespace_options=options, table_id="orders", query_id="q")
    require_no_text_shows_one(sink)
    with pytest.raises(HeadraceError) as caught:
        sink(spark.range(1), 0)
    assert CANARY not in str(caught.value)


LOUD = """
import json, sys
from pyspark.sql import SparkSession

given = json.loads(sys.stdin.read())
spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.eventLog.enabled", "true").config("spark.eventLog.dir", given["events"])
    .config("spark.eventLog.compress", "false").config("spark.log.level", "INFO")
    .config("spark.sql.shuffle.partitions", "2").getOrCreate()
)
import logging
logging.basicConfig(level=logging.INFO)
for name in ("headrace", "lance"):
    logging.getLogger(name).setLevel(logging.DEBUG)
from headrace.spark import LanceSink
from support.lance_tables import create_table

for number, uri in enumerate(given["uris"]):
    rows = spark.readStream.schema("id BIGINT").parquet(given["source"])
    options = {f"storage.{name}": value for name, value in given["options"].items()}
    namespace = {f"namespace.{name}": value for name, value in given["namespace"].items()}
    writers = {
        "format": rows.writeStream.format("lance").options(path=uri, streamingQueryId="q", **options),
        "sink": rows.writeStream.foreachBatch(LanceSink(uri, query_id="s", storage_options=given["options"])),
        "upsert": rows.writeStream.foreachBatch(
            LanceSink(uri, query_id="u", mode="upsert", keys="id", storage_options=given["options"])
        ),
        "namespace": rows.writeStream.format("lance").options(
            namespace="dir", tableId="orders", streamingQueryId="n", createTable="true", **namespace
        ),
    }
    for name, writer in writers.items():
        writer = writer.option("checkpointLocation", f"{given['checkpoints']}/{number}-{name}")
        try:
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            print(name, "went well", query.lastProgress)
            query.explain(True)
        except Exception as error:
            print(name, "failed", error)
    try:
        spark.range(1).write.format("lance").options(**options).mode("append").save(uri)
        print("batch went well")
    except Exception as error:
        print("batch failed", error)
    try:
        frame = spark.read.format("lance").options(**options).load(uri)
        print("read went well", frame.count())
        frame.explain(True)
        stream = spark.readStream.format("lance").options(**options).load(uri).writeStream.format("noop")
        stream = stream.option("checkpointLocation", f"{given['checkpoints']}/{number}-read")
        query = stream.trigger(availableNow=True).start()
        query.awaitTermination()
        print("stream went well", query.lastProgress)
        query.explain(True)
    except Exception as error:
        print("read failed", error)
spark.stop()
"""


@pytest.mark.slow
def test_no_log_of_a_whole_run_holds_a_secret(
    source: StreamInput, s3_server: S3Server, uri: str, tmp_path: Path
) -> None:
    """L34: event log, driver and worker output with everything turned up, checkpoints; what works and what fails."""
    events, options = tmp_path / "events", with_canaries(s3_server.storage_options)
    events.mkdir()
    root = {"root": f"s3://{s3_server.make_bucket()}/root", "vend_input_storage_options": "true"}
    given = {
        "uris": [uri, "s3://no-such-bucket-at-all/table.lance"],
        "options": options,
        "namespace": prefixed(options) | root,
        "source": str(source.folder),
        "events": str(events),
        "checkpoints": str(tmp_path / "checkpoints"),
    }
    done = subprocess.run(
        [sys.executable, "-c", LOUD],
        input=json.dumps(given),
        env=os.environ
        | {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "RUST_LOG": "debug"},
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = done.stdout
    for name in ("format", "sink", "upsert", "namespace", "batch", "read", "stream"):
        assert f"{name} went well" in said, said[-3000:]
    for name in ("format", "sink", "upsert", "batch", "read"):
        assert f"{name} failed" in said
    assert "INFO" in done.stderr
    shown = [line for line in (said + done.stderr).splitlines() if CANARY in line]
    assert [line[:300].replace(CANARY, "CANARY") for line in shown] == []
    require_clean_folder(events)
    require_clean_folder(tmp_path / "checkpoints")
    require_clean_bucket(s3_server, uri)
