"""Secrets of a table that is read are found in no text that anybody reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException

import headrace.spark
from support.canaries import CANARY, prefixed, require_clean_folder, with_canaries
from support.lance_tables import create_table
from support.s3_proxy import ALWAYS, S3Proxy
from support.s3_server import S3Server
from support.streams import drain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def uri(s3_server: S3Server) -> str:
    uri = f"s3://{s3_server.make_bucket()}/table.lance"
    create_table(uri, pa.table({"id": [1, 2]}), s3_server.storage_options)
    return uri


def options_of(server: S3Server | S3Proxy) -> dict[str, str]:
    return prefixed(with_canaries(server.storage_options))


def test_reads_that_go_well_show_no_secret(
    spark: SparkSession, s3_server: S3Server, uri: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """L34: plans, progress, standard output and error, the checkpoint with its offsets."""
    for _ in range(2):
        headrace.spark.register(spark)
    assert str(spark.conf.get("spark.sql.redaction.options.regex")) == "(?i)url|^storage[.]|^namespace[.]"
    options = options_of(s3_server)
    frame = spark.read.format("lance").options(**options).load(uri)
    assert sorted(row.id for row in frame.collect()) == [1, 2]
    frame.explain(True)
    stream = spark.readStream.format("lance").options(**options).load(uri)
    stream.explain(True)
    query = drain(stream.writeStream.format("noop"), tmp_path / "checkpoint")
    query.explain(True)
    assert query.lastProgress["numInputRows"] == 2
    assert CANARY not in json.dumps(query.recentProgress, default=str) + f"{frame} {stream} {query.status}"
    captured = capfd.readouterr()
    assert captured.out.count("Physical Plan") == 3
    assert CANARY not in captured.out + captured.err
    require_clean_folder(tmp_path / "checkpoint")


@pytest.mark.parametrize("refused", ["all of it", "the rows"])
@pytest.mark.parametrize("way", ["batch", "stream"])
def test_an_error_of_a_read_shows_no_secret(
    spark: SparkSession,
    s3_proxy: S3Proxy,
    uri: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    way: str,
    refused: str,
) -> None:
    """L34, F12: a 403 says that it is one, and at which table."""
    path = "/data/" if refused == "the rows" else ""
    for method in ("GET", "HEAD"):
        s3_proxy.fail(method, path, status=403, times=ALWAYS)
    options = options_of(s3_proxy)

    def read() -> None:
        if way == "batch":
            spark.read.format("lance").options(**options).load(uri).collect()
        else:
            stream = spark.readStream.format("lance").options(**options).load(uri)
            drain(stream.writeStream.format("noop"), tmp_path / "checkpoint")

    with pytest.raises((AnalysisException, PythonException, StreamingQueryException)) as caught:
        read()
    said, captured = str(caught.value), capfd.readouterr()
    assert uri in said
    assert "403" in said or "AccessDenied" in said or "ermission" in said
    assert CANARY not in said + captured.out + captured.err
