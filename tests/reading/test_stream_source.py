"""A Lance table as a stream for Spark: what is added comes once, across restarts."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException

from support.lance_tables import create_table
from support.storages import Storage
from support.streams import ARROW_SCHEMA, committed, drain, replay, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


class Flow:
    """A stream from a table, and what has come out of it."""

    def __init__(self, spark: SparkSession, uri: str, checkpoint: Path, **options: Any) -> None:
        self.spark = spark
        self.uri = uri
        self.checkpoint = checkpoint
        self.options = options
        self.epochs: list[list[Any]] = []
        self.after_epoch: Callable[[int], object] = lambda epoch: None

    def frame(self) -> DataFrame:
        return self.spark.readStream.format("lance").options(**self.options).load(self.uri)

    def run(self, columns: str = "id") -> list[list[Any]]:
        """Return the rows of one AvailableNow run, epoch by epoch."""
        self.epochs = []
        drain(self.frame().selectExpr(columns).writeStream.foreachBatch(self._take), self.checkpoint)
        return self.epochs

    def ids(self) -> list[int]:
        return sorted(value for epoch in self.run() for value in epoch)

    def _take(self, frame: DataFrame, epoch: int) -> None:
        found = [row[0] if len(row) == 1 else tuple(row) for row in frame.collect()]
        if found:
            self.epochs.append(sorted(found))
        self.after_epoch(epoch)


@pytest.fixture
def flow(spark: SparkSession, tmp_path: Path) -> Callable[..., Flow]:
    """Makes streams from the table in this test's folder."""
    return lambda **options: Flow(spark, str(tmp_path / "table.lance"), tmp_path / "checkpoint", **options)


def write(uri: str, *ids: int, mode: str = "append", **settings: Any) -> lance.LanceDataset:
    return lance.write_dataset(pa.table({"id": ids}, schema=ARROW_SCHEMA), uri, mode=mode, **settings)


def test_every_row_comes_once_across_restarts(spark: SparkSession, storage: Storage, tmp_path: Path) -> None:
    """R1, R2: in a folder and on S3, with compactions between the runs."""
    uri = storage.uri("table")
    options = {f"storage.{name}": value for name, value in storage.storage_options.items()}
    flow = Flow(spark, uri, tmp_path / "checkpoint", **options)
    write(uri, 1, 2, mode="create", storage_options=storage.storage_options)
    assert flow.ids() == [1, 2]
    assert flow.ids() == []
    write(uri, 3, storage_options=storage.storage_options)
    write(uri, 4, storage_options=storage.storage_options).optimize.compact_files()
    assert flow.ids() == [3, 4]
    lance.dataset(uri, storage_options=storage.storage_options).optimize.compact_files()
    assert flow.ids() == []


def test_an_epoch_that_is_run_again_has_the_same_rows(flow: Callable[..., Flow], tmp_path: Path) -> None:
    """R1: after a crash, and whatever became of the table meanwhile."""
    reading = flow(maxRowsPerTrigger=2)
    write(reading.uri, *range(5), mode="create")
    first = reading.run()
    assert first == [[0, 1], [2, 3], [4]]
    write(reading.uri, 5).optimize.compact_files()
    lance.dataset(reading.uri).delete("id = 4")
    replay(tmp_path / "checkpoint", epoch=0)
    reading.options["skipChangeCommits"] = True
    assert reading.run() == [[0, 1], [2, 3], [4, 5]]
    replay(tmp_path / "checkpoint", epoch=2)
    assert reading.run() == [[4, 5]]


@pytest.mark.parametrize(
    ("limit", "epochs"),
    [
        ({"maxRowsPerTrigger": 3}, [[0, 1, 2], [3, 4, 5], [6]]),
        ({"maxFilesPerTrigger": 2}, [[0, 1, 2, 3], [4, 5, 6]]),
        ({"maxBytesPerTrigger": 1}, [[0, 1, 2], [3], [4], [5, 6]]),
        ({"maxFilesPerTrigger": 2, "maxRowsPerTrigger": 100}, [[0, 1, 2, 3], [4, 5, 6]]),
    ],
)
def test_each_trigger_takes_no_more_than_its_limit(
    flow: Callable[..., Flow], limit: dict[str, int], epochs: list[list[int]]
) -> None:
    """R4: a large version is split; all of it comes in one run of AvailableNow."""
    reading = flow(startingVersion=1, **limit)
    write(reading.uri, 0, 1, 2, mode="create")
    write(reading.uri, 3, 4, max_rows_per_file=1)
    write(reading.uri, 5, 6)
    assert reading.run() == epochs


def test_available_now_ends_where_the_table_was_when_it_began(
    spark: SparkSession, tmp_path: Path, flow: Callable[..., Flow]
) -> None:
    """R4: rows that are added while it runs are for the next one."""
    reading = flow(maxRowsPerTrigger=1)
    write(reading.uri, 1, 2, mode="create")
    reading.after_epoch = lambda epoch: write(reading.uri, 10 + epoch)
    assert reading.run() == [[1], [2]]
    reading.after_epoch = lambda epoch: None
    assert reading.ids() == [10, 11]


def test_a_running_query_gets_what_is_added_and_tells_how_far_behind_it_is(spark: SparkSession, tmp_path: Path) -> None:
    """R1, R4: the end of the table is in the query's progress, beside where the query is."""
    uri = str(tmp_path / "table.lance")
    write(uri, 1, mode="create")
    stream = spark.readStream.format("lance").option("maxRowsPerTrigger", 1).load(uri)
    writer = stream.writeStream.format("memory").queryName("running")
    query: StreamingQuery = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        query.processAllAvailable()
        write(uri, 2)
        write(uri, 3, 4)
        query.processAllAvailable()
        assert sorted(row.id for row in spark.table("running").collect()) == [1, 2, 3, 4]
        sources = [progress.sources[0] for progress in query.recentProgress if progress.numInputRows]
        ends = [json.loads(source.endOffset) for source in sources]
        latest = [json.loads(source.latestOffset) for source in sources]
        assert [(end["version"], end["row"]) for end in ends] == [(2, 0), (3, 0), (3, 1), (4, 0)]
        assert latest[-1]["version"] == 4
        assert all(after["version"] >= end["version"] for after, end in zip(latest, ends, strict=True))
    finally:
        query.stop()
        spark.catalog.dropTempView("running")


@pytest.mark.parametrize(("start", "expected"), [("earliest", [1, 2, 3]), ("latest", []), (2, [2, 3]), ("3", [3])])
def test_a_new_query_begins_at_the_requested_start(
    flow: Callable[..., Flow], start: str | int, expected: list[int]
) -> None:
    """R1."""
    reading = flow(startingVersion=start)
    write(reading.uri, 1, mode="create")
    write(reading.uri, 2)
    write(reading.uri, 3)
    assert reading.ids() == expected
    write(reading.uri, 4)
    assert reading.ids() == [4]


def test_a_change_stops_the_query_and_names_the_way_on(flow: Callable[..., Flow]) -> None:
    """R3: what came before it is delivered, and with skipChangeCommits the rest is too."""
    reading = flow()
    write(reading.uri, 1, mode="create")
    assert reading.ids() == [1]
    write(reading.uri, 2)
    lance.dataset(reading.uri).delete("id = 1")
    write(reading.uri, 3)
    with pytest.raises(StreamingQueryException, match=r"Version 3 of .*a delete.*skipChangeCommits=true"):
        reading.run()
    assert reading.epochs == [[2]]
    reading.options["skipChangeCommits"] = "true"
    assert reading.ids() == [3]


def test_available_now_over_a_version_that_has_expired_is_an_error(flow: Callable[..., Flow]) -> None:
    """R5: not the end of a run that found nothing; it continues only if the option allows it."""
    reading = flow(startingVersion=1)
    write(reading.uri, 1, mode="create")
    assert reading.ids() == [1]
    for number in (2, 3, 4):
        write(reading.uri, number)
    lance.dataset(reading.uri).cleanup_old_versions(timedelta(0), retain_versions=1)
    with pytest.raises(StreamingQueryException, match=r"Version 2 of .*the oldest kept version is 4"):
        reading.run()
    assert reading.epochs == []
    reading.options["failOnDataLoss"] = "false"
    assert reading.ids() == [4]


def test_the_change_feed_has_inserts_and_updates_with_their_versions(flow: Callable[..., Flow]) -> None:
    """R3: with stable row ids; without them, an error that says so."""
    reading = flow(readChangeFeed="true")
    write(reading.uri, 1, mode="create")
    with pytest.raises(StreamingQueryException, match="enable_stable_row_ids"):
        reading.run()
    stable = flow(readChangeFeed="true")
    stable.uri += "2"
    write(stable.uri, 1, 2, mode="create", enable_stable_row_ids=True)
    lance.dataset(stable.uri).update({"id": "id + 10"}, where="id = 2")
    stable.options["startingVersion"] = 1
    stable.checkpoint = stable.checkpoint.with_name("other")
    assert stable.frame().columns == ["id", "_change_type", "_commit_version"]
    (changes,) = stable.run("*")
    assert changes == [(1, "insert", 1), (2, "insert", 1), (12, "update_postimage", 2)]


def test_only_the_columns_that_are_asked_for_are_read(flow: Callable[..., Flow]) -> None:
    """R7."""
    reading = flow(columns="b, id")
    create_table(reading.uri, pa.table({"id": [1], "a": ["x"], "b": [2.5]}))
    assert reading.run("struct(*)") == [[(2.5, 1)]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingVersion": 9}, "startingVersion is 9, and the newest version"),
        ({"maxRowPerTrigger": 5}, "did you mean 'maxRowsPerTrigger'"),
    ],
)
def test_a_wrong_option_is_named(flow: Callable[..., Flow], options: dict[str, Any], said: str) -> None:
    """R1, R4: when the frame is made, or when the query starts."""
    reading = flow(**options)
    write(reading.uri, 1, mode="create")
    with pytest.raises((StreamingQueryException, AnalysisException), match="(?i)" + said):
        reading.run()


def test_no_table_is_an_error_when_the_frame_is_made(flow: Callable[..., Flow]) -> None:
    """R1."""
    with pytest.raises(AnalysisException, match="There is no Lance table at"):
        flow().run()


def test_from_lance_to_lance_every_row_lands_once(spark: SparkSession, tmp_path: Path) -> None:
    """R6, L12: the source's epochs are the sink's, and one that is run again is recognised."""
    source, target, checkpoint = str(tmp_path / "a.lance"), str(tmp_path / "b.lance"), tmp_path / "checkpoint"
    write(source, *range(6), mode="create")
    write(target, mode="create")

    def flow_on() -> None:
        stream = spark.readStream.format("lance").option("maxRowsPerTrigger", 4).load(source)
        drain(stream.writeStream.format("lance").options(path=target, streamingQueryId="copy"), checkpoint)

    flow_on()
    assert rows(target) == list(range(6))
    write(source, 6, 7)
    flow_on()
    replay(checkpoint)
    lance.dataset(source).optimize.compact_files()
    write(source, 8)
    flow_on()
    assert rows(target) == list(range(9))
    assert committed(checkpoint)[-1] >= 3
