"""Append mode: one stamped version for each epoch with rows, despite other writers and failing tasks."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from headrace import LandingError
from headrace.spark import LanceSink
from support.deadlines import PROGRAM_SECONDS
from support.lance_tables import LanceTable, create_table
from support.storages import Storage
from support.streams import ARROW_SCHEMA, StreamInput, drain, rows, stamps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

Way = Callable[..., "DataStreamWriter"]


def by_format(frame: DataFrame, uri: str, query_id: str = "q", **options: str) -> DataStreamWriter:
    return frame.writeStream.format("lance").options(path=uri, streamingQueryId=query_id, **options)


def by_foreach_batch(frame: DataFrame, uri: str, query_id: str = "q", **options: str) -> DataStreamWriter:
    return frame.writeStream.foreachBatch(LanceSink(uri, query_id=query_id, **options))  # type: ignore[arg-type]


BOTH_WAYS = pytest.mark.parametrize("way", [by_format, by_foreach_batch])


@pytest.fixture
def source(tmp_path: Path) -> StreamInput:
    return StreamInput(tmp_path / "input")


def data_files(uri: str) -> set[str]:
    return {path.name for path in Path(uri, "data").glob("*")}


def landed(uri: str) -> list[tuple[str, str, str]]:
    """Operation, query and epoch of every version that carries an epoch's stamp."""
    keys = ("lance.streaming.queryId", "lance.streaming.epochId")
    return [
        (stamp.operation, *(stamp.properties[key] for key in keys))
        for stamp in stamps(uri)
        if keys[0] in stamp.properties
    ]


@BOTH_WAYS
def test_each_epoch_with_rows_is_one_stamped_append(
    source: StreamInput, spark: SparkSession, uri: str, tmp_path: Path, way: Way
) -> None:
    """L7, L8: an epoch without rows makes no version; one with tasks that have none makes one."""
    source.add(1, 2, 3)
    source.add()
    source.add(4)
    query = drain(way(source.stream(spark).repartition(2), uri), tmp_path / "checkpoint")
    assert rows(uri) == [1, 2, 3, 4]
    assert landed(uri) == [("Append", "q", "0"), ("Append", "q", "2")]
    assert [stamp.operation for stamp in stamps(uri)] == ["Overwrite", "Project", "Append", "Append"]
    written = stamps(uri)[-1].properties
    assert all(isinstance(value, str) for value in written.values())
    assert (written["headrace.runId"], written["headrace.sparkQueryId"]) == (query.runId, query.id)
    assert (written["headrace.mode"], written["headrace.rows"], written["headrace.files"]) == ("append", "1", "1")


def test_the_same_epochs_of_another_query_land_too(spark: SparkSession, uri: str) -> None:
    """L15: the key is the query's id and the epoch's, never the epoch's alone."""
    first, second = LanceSink(uri, query_id="first"), LanceSink(uri, query_id="second")
    for epoch in (0, 1):
        first(spark.range(epoch, epoch + 1), epoch)
        second(spark.range(10 + epoch, 11 + epoch), epoch)
    assert rows(uri) == [0, 1, 10, 11]
    assert landed(uri) == [("Append", query, epoch) for epoch in "01" for query in ("first", "second")]


def test_an_epoch_no_newer_than_the_newest_landed_is_never_committed(spark: SparkSession, uri: str) -> None:
    """L12, L17: by the run that landed it and by another, whatever its rows are."""
    sink = LanceSink(uri, query_id="q")
    sink(spark.range(1), 3)
    before = stamps(uri)
    for epoch in (3, 2, 0):
        sink(spark.range(5), epoch)
        LanceSink(uri, query_id="q")(spark.range(5), epoch)
    assert stamps(uri) == before
    sink(spark.range(1, 2), 4)
    assert rows(uri) == [0, 1]


def test_appends_of_others_and_of_the_stream_all_land(
    source: StreamInput, spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    """L24, F5: another writer appends all along, between and during epochs; it tries again when it meets a fence."""
    for epoch in range(3):
        source.add(10 * epoch, 10 * epoch + 1)
    stop, foreign, fenced = threading.Event(), [], []

    def append() -> None:
        while not stop.wait(0.02):
            row = 1000 + len(foreign)
            try:
                LanceTable(uri).write(pa.table({"id": [row]}, schema=ARROW_SCHEMA))
                foreign.append(row)
            except OSError as error:
                fenced.append(str(error))

    writer = threading.Thread(target=append)
    writer.start()
    try:
        drain(by_format(source.stream(spark), uri), tmp_path / "checkpoint")
    finally:
        stop.set()
        writer.join()
    assert len(foreign) > 3
    assert all("preempted by concurrent transaction Project" in said for said in fenced)
    assert rows(uri) == sorted(source.ids() + foreign)
    assert landed(uri) == [("Append", "q", str(epoch)) for epoch in range(3)]


def test_a_run_takes_over_on_a_table_that_is_appended_to_without_a_pause(uri: str) -> None:
    """L24: a long history must not make the take-over so slow that an append comes between every time."""
    from headrace.spark.options import streaming
    from headrace.tables.commit.ledger import QueryRun
    from headrace.tables.commit.payload import AppendPayload
    from headrace.tables.sink import EpochSink
    from headrace.tables.write.data_files import Task, write_rows

    def append() -> None:
        LanceTable(uri).write(pa.table({"id": [0]}, schema=ARROW_SCHEMA))

    for _ in range(150):
        append()
    sink, run, stop = EpochSink(streaming({"path": uri, "streamingQueryId": "q"})), QueryRun("run"), threading.Event()
    message = write_rows([pa.record_batch({"id": [1]}, schema=ARROW_SCHEMA)], sink.settings.location, Task(0, run, 0))

    def append_all_along() -> None:
        while not stop.wait(0.01):
            with contextlib.suppress(OSError):  # it met the fence
                append()

    writer = threading.Thread(target=append_all_along)
    writer.start()
    try:
        sink.land(0, run, AppendPayload([message]))
    finally:
        stop.set()
        writer.join()
    assert rows(uri).count(1) == 1


@BOTH_WAYS
def test_an_overwrite_under_a_running_stream_stops_it_until_it_is_accepted(
    source: StreamInput, spark: SparkSession, uri: str, tmp_path: Path, way: Way
) -> None:
    """L25, L40, F6: the message names the version; nothing that was overwritten comes back, and no epoch is lost."""
    from pyspark.errors import StreamingQueryException

    source.add(1)
    query = (
        way(source.stream(spark), uri)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="50 milliseconds")
        .start()
    )
    try:
        query.processAllAvailable()
        LanceTable(uri).write(pa.table({"id": [50]}, schema=ARROW_SCHEMA), "overwrite")
        overwritten = lance.dataset(uri).version
        source.add(2)
        with pytest.raises(StreamingQueryException) as caught:
            query.processAllAvailable()
    finally:
        query.stop()
    assert f"Version {overwritten} of the table is an overwrite by another writer" in str(caught.value)
    assert "restart the query" in str(caught.value)
    assert rows(uri) == [50]
    with pytest.raises(StreamingQueryException, match="made after query 'q' had landed up to epoch 0"):
        drain(way(source.stream(spark), uri), tmp_path / "checkpoint")
    option = "lance.streaming.onTableReplaced" if way is by_format else "on_table_replaced"
    drain(way(source.stream(spark), uri, **{option: "accept"}), tmp_path / "checkpoint")
    assert rows(uri) == [2, 50]


def test_only_the_attempt_that_spark_picked_lands(uri: str) -> None:
    """L29, F3: two attempts wrote their files; one message lands, both together are refused."""
    from headrace.spark.options import streaming
    from headrace.tables.commit.ledger import QueryRun
    from headrace.tables.commit.payload import AppendPayload
    from headrace.tables.sink import EpochSink
    from headrace.tables.write.data_files import Task, write_rows

    sink, run = EpochSink(streaming({"path": uri, "streamingQueryId": "q"})), QueryRun("run")

    def attempt(partition: int, value: int) -> object:
        batch = pa.record_batch({"id": [value]}, schema=ARROW_SCHEMA)
        return write_rows([batch], sink.settings.location, Task(partition, run, 0))

    loser, winner, other = attempt(0, 1), attempt(0, 1), attempt(1, 2)
    with pytest.raises(LandingError, match="name partition 0 2 times; nothing was committed"):
        sink.land(0, run, AppendPayload([loser, winner, other]))
    with pytest.raises(LandingError, match=r"name file .* 2 times"):
        sink.land(0, run, AppendPayload([winner, *[_moved(winner, 2)], other]))
    assert rows(uri) == []
    sink.land(0, run, AppendPayload([winner, other]))
    assert rows(uri) == [1, 2]
    assert len(data_files(uri)) == 3


def _moved(message: object, partition: int) -> object:
    from dataclasses import replace

    return replace(message, partition=partition)  # type: ignore[type-var]


def broken_in_one_task(frame: DataFrame) -> DataFrame:
    """Two tasks: one has rows and is done, the other one's rows cannot be had."""
    from pyspark.sql import functions as f

    broken = f.when(f.spark_partition_id() == 1, f.raise_error(f.lit("on purpose"))).otherwise(f.col("id"))
    return frame.repartition(2).select(broken.cast("bigint").alias("id"))


def test_an_epoch_whose_task_fails_leaves_the_table_as_it_was(
    source: StreamInput, spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    """L30: no version, no stamp, and a restart lands all of it."""
    from pyspark.errors import StreamingQueryException

    source.add(*range(10))
    with pytest.raises(StreamingQueryException, match="on purpose"):
        drain(by_format(broken_in_one_task(source.stream(spark)), uri), tmp_path / "checkpoint")
    assert len(stamps(uri)) == 1
    drain(by_format(source.stream(spark), uri), tmp_path / "checkpoint")
    assert rows(uri) == source.ids()


def test_abort_never_raises_and_never_touches_what_has_landed(uri: str) -> None:
    """L30: with files that landed, messages that are none, and a table that is gone."""
    import shutil

    from pyspark.sql.types import LongType, StructField, StructType

    from headrace.spark.datasource import LanceDataSource

    source = LanceDataSource({"path": uri, "streamingQueryId": "q"})
    writer = source.streamWriter(StructType([StructField("id", LongType())]), False)
    landed_rows, orphan = (writer.write(iter([pa.record_batch({"id": [n]}, schema=ARROW_SCHEMA)])) for n in (1, 2))
    writer.commit([landed_rows], 0)
    assert len(data_files(uri)) == 2
    writer.abort([landed_rows, None, type(orphan)("not a message"), orphan], 1)
    assert rows(uri) == [1]
    assert len(data_files(uri)) == 1
    shutil.rmtree(uri)
    writer.abort([landed_rows, orphan], 1)
    writer.abort([], 1)


RETRIED = """
import sys
from pyspark.sql import SparkSession

uri, source, checkpoint = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2,2]").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
)


def fail_at_first(batches):
    from pyspark import TaskContext

    yield from batches
    if TaskContext.get().attemptNumber() == 0:
        raise RuntimeError("the first attempt fails after its last row")


rows = spark.readStream.schema("id BIGINT").parquet(source).repartition(2).mapInArrow(fail_at_first, "id BIGINT")
writer = rows.writeStream.format("lance").options(path=uri, streamingQueryId="q", checkpointLocation=checkpoint)
writer.trigger(availableNow=True).start().awaitTermination()
"""


@pytest.mark.slow
def test_tasks_that_are_tried_again_land_once(source: StreamInput, uri: str, tmp_path: Path) -> None:
    """L29, F3: every task fails when it has handed over its last row, and is tried again."""
    source.add(*range(10))
    run = subprocess.run(
        [sys.executable, "-c", RETRIED, uri, str(source.folder), str(tmp_path / "checkpoint")],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert "the first attempt fails after its last row" in run.stderr
    assert rows(uri) == source.ids()
    assert landed(uri) == [("Append", "q", "0")]


def test_files_are_cut_at_the_configured_size(
    source: StreamInput, spark: SparkSession, tmp_path: Path, storage: Storage
) -> None:
    """L7, L36: an epoch of several files is one version, on a disk and on an object store."""
    uri, options = storage.uri("cut"), storage.storage_options
    create_table(uri, ARROW_SCHEMA, options)
    source.add(*range(10))
    given = {f"storage.{name}": value for name, value in options.items()}
    drain(by_format(source.stream(spark), uri, maxRowsPerFile="4", **given), tmp_path / "checkpoint")
    assert rows(uri, options) == source.ids()
    newest = stamps(uri, options)[-1]
    assert (newest.version, newest.properties["headrace.files"]) == (3, "3")
