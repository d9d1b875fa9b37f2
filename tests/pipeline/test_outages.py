"""A job whose store, rows or workers fail: what is said, what starts again, and what ends the run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

from headrace import AccessDeniedError, ConfigurationError, SchemaMismatchError, StorageError
from headrace.pipeline import load
from headrace.pipeline.failures import Failure
from headrace.pipeline.progress import Progress, Totals
from headrace.pipeline.runner import Job, Stop
from support.hearing import Hearing
from support.lance_tables import create_table
from support.s3_proxy import ALWAYS, S3Proxy
from support.s3_server import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        add_file(tmp_path, number)
    return tmp_path


def add_file(folder: Path, number: int) -> None:
    (folder / "in" / f"{number}.json").write_text(json.dumps({"id": number, "size": 10.0**number}))


@pytest.fixture
def job(spark: SparkSession, folder: Path) -> Iterator[Callable[..., Job]]:
    """Makes a job of one file per epoch."""

    def make(table: str, run: str = "", *, name: str = "job", stop: Stop | None = None, **more: Any) -> Job:
        text = (
            f'name = "{name}"\ncheckpoint = "{more.get("checkpoint", "checkpoint")}"\n[source]\nformat = "json"\n'
            'path = "in"\nschema = "id BIGINT, size DOUBLE"\noptions = { maxFilesPerTrigger = 1 }\n'
            f"[table]\n{table}\n[run]\n{run}\n"
        )
        (folder / "pipeline.toml").write_text(text)
        return Job(load(folder / "pipeline.toml"), spark, follow=more.get("follow", False), stop=stop)

    yield make
    spark.catalog.dropTempView("source")


def on_s3(server: S3Server, proxy: S3Proxy) -> tuple[str, str]:
    """The section of a table behind the proxy, and its address."""
    uri = f"s3://{server.make_bucket()}/out.lance"
    options = {**proxy.storage_options, "client_max_retries": "0"}
    storage = "".join(f'{name} = "{value}"\n' for name, value in options.items())
    return f'uri = "{uri}"\ncreate = true\n[table.storage]\n{storage}', uri


def ids(server: S3Server, uri: str) -> list[int]:
    found = lance.dataset(uri, storage_options=server.storage_options).to_table()["id"].to_pylist()
    return sorted(found)


@pytest.mark.xdist_group("s3")
def test_a_query_comes_back_after_an_outage_of_its_store(
    job: Callable[..., Job], folder: Path, s3_server: S3Server, s3_proxy: S3Proxy
) -> None:
    """C29, F12: in the middle of a stream and at its start; every row is there once, and the failures are counted."""
    table, uri = on_s3(s3_server, s3_proxy)
    stop = Stop()

    def after_epoch(progress: Progress, totals: Totals) -> None:
        if totals.epochs == 1:
            s3_proxy.fail("PUT", "/data/", status=503, times=ALWAYS)
        if totals.ended >= FILES:
            stop.ask()

    errors: list[BaseException] = []

    def after_failure(failure: Failure) -> None:
        errors.append(failure.error)
        if len(heard.failures) == 2:
            s3_proxy.clear()

    heard = Hearing(after_epoch, after_failure)
    totals = job(table, 'max_pause = "1 second"', follow=True, stop=stop).run(heard)
    assert ids(s3_server, uri) == list(range(FILES))
    assert (totals.epochs, totals.skipped) == (FILES, 0)
    assert [kind for kind, _ in heard.failures] == ["storage", "storage"]
    assert all(0 < (pause or 0) <= 1 for _, pause in heard.failures)
    assert heard.restarts == ["storage", "storage"]
    for error in errors:
        # Spark keeps the error, and frames would keep what the failed epoch had opened.
        assert (error.__traceback__, error.__cause__, error.__context__) == (None, None, None)


@pytest.mark.xdist_group("s3")
def test_an_outage_ends_a_run_that_does_not_follow_or_has_tried_enough(
    job: Callable[..., Job], s3_server: S3Server, s3_proxy: S3Proxy
) -> None:
    """C28, C29: with what the store answered; wrong credentials are not tried at all."""
    table, uri = on_s3(s3_server, s3_proxy)
    create_table(uri, pa.schema([("id", pa.int64()), ("size", pa.float64())]), s3_server.storage_options)
    s3_proxy.fail("PUT", "/data/", status=503, times=ALWAYS)
    heard = Hearing()
    with pytest.raises(StorageError, match=r"Writing data files of s3://.* failed: the object store answered 503"):
        job(table).run(heard)
    assert heard.failures == [("storage", None)]
    heard = Hearing()
    with pytest.raises(StorageError, match="503"):
        job(table, 'restart = "on-failure"\nmax_restarts = 1\nmax_pause = "1 second"').run(heard)
    assert [pause is None for _, pause in heard.failures] == [False, True]
    s3_proxy.clear()
    s3_proxy.fail("GET", "/", status=403, times=ALWAYS)
    heard = Hearing()
    with pytest.raises(AccessDeniedError, match=r"answered 403 AccessDenied.*Hint: check the credentials"):
        job(table, follow=True).run(heard)
    assert heard.failures == [("access", None)]


def test_rows_that_do_not_fit_are_named_as_the_task_named_them(job: Callable[..., Job], folder: Path) -> None:
    """C28, L31: a Python worker's error of ours is the run's error, and does not start the query again."""
    create_table(folder / "out.lance", pa.schema([("id", pa.int64()), ("size", pa.float32())]))
    (folder / "in" / "9.json").write_text(json.dumps({"id": 9, "size": 1e300}))
    heard = Hearing()
    with pytest.raises(SchemaMismatchError, match=r"^Column 'size' is double .*1e\+300 does not fit.* Hint: "):
        job('uri = "out.lance"', follow=True).run(heard)
    assert heard.failures == [("schema", None)]


def test_two_rows_of_one_key_are_named_as_the_task_named_them(job: Callable[..., Job], folder: Path) -> None:
    """C28, L11"""
    (folder / "in" / "0.json").write_text('{"id": 7, "size": 1.0}\n{"id": 7, "size": 2.0}')
    with pytest.raises(SchemaMismatchError, match=r"more than one row for the same key.*'id': 7.* Hint: keep one row"):
        job('uri = "out.lance"\ncreate = true\nmode = "upsert"\nkeys = ["id"]').run()


def test_the_checkpoint_of_another_source_is_named(job: Callable[..., Job], folder: Path, spark: SparkSession) -> None:
    """C28: Spark itself says `No usable value for offset`."""
    job('uri = "out.lance"\ncreate = true').run()
    text = (folder / "pipeline.toml").read_text()
    changed = text.replace('"json"\npath = "in"\nschema = "id BIGINT, size DOUBLE"', '"rate-micro-batch"')
    (folder / "pipeline.toml").write_text(changed.replace("maxFilesPerTrigger", "rowsPerBatch"))
    with pytest.raises(ConfigurationError, match=r"The checkpoint .*/checkpoint was written by a query with another"):
        Job(load(folder / "pipeline.toml"), spark, follow=False).run()


def test_a_query_that_follows_says_when_it_is_idle(job: Callable[..., Job], folder: Path) -> None:
    """C30: it works on what there is, and then it waits; it was never stuck."""
    stop = Stop()

    class UntilIdle(Hearing):
        def activity(self, activity: str) -> None:
            super().activity(activity)
            if activity == "idle" and self.epochs == FILES:
                stop.ask()

        def epoch(self, progress: Progress, totals: Totals) -> None:
            self.epochs = totals.epochs

        epochs = 0

    heard = UntilIdle()
    job('uri = "out.lance"\ncreate = true', follow=True, stop=stop).run(heard)
    assert heard.activities == {"working", "idle"}
