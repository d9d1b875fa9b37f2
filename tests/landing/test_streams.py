"""What the landing tests depend on: real epochs, replayed by Spark itself, into real tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from support.lance_tables import LanceTable, create_table
from support.storages import Storage
from support.streams import Stamp, StreamInput, committed, drain, replay, rows, stamps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Run = list[tuple[int, list[int]]]


class Noted:
    """A sink that only notes which epochs came, and with which ids."""

    def __init__(self, source: StreamInput, spark: SparkSession, checkpoint: Path) -> None:
        self._source = source
        self._spark = spark
        self._checkpoint = checkpoint

    def run(self) -> Run:
        seen: Run = []

        def note(frame: DataFrame, epoch: int) -> None:
            seen.append((epoch, sorted(row.id for row in frame.collect())))

        drain(self._source.stream(self._spark).writeStream.foreachBatch(note), self._checkpoint)
        return seen


@pytest.fixture
def source(tmp_path: Path) -> StreamInput:
    source = StreamInput(tmp_path / "input")
    for start in (0, 10, 20):
        source.add(start, start + 1)
    return source


@pytest.fixture
def noted(source: StreamInput, spark: SparkSession, tmp_path: Path) -> Noted:
    return Noted(source, spark, tmp_path / "checkpoint")


def test_all_that_needs_spark_runs_in_one_worker(request: pytest.FixtureRequest, spark: SparkSession) -> None:
    """A group that is not heeded would show as slowness only."""
    if getattr(request.config.option, "loadgroup", False):  # set in a worker, by xdist
        assert request.node.nodeid.endswith("@spark")


def test_each_file_is_an_epoch_in_the_order_written(source: StreamInput, noted: Noted, tmp_path: Path) -> None:
    assert noted.run() == [(0, [0, 1]), (1, [10, 11]), (2, [20, 21])]
    assert committed(tmp_path / "checkpoint") == [0, 1, 2]
    assert noted.run() == []
    source.add(30)
    assert noted.run() == [(3, [30])]


def test_a_replayed_epoch_comes_again_with_the_same_ids(noted: Noted, tmp_path: Path) -> None:
    first = noted.run()
    assert replay(tmp_path / "checkpoint") == 2
    assert noted.run() == first[2:]


def test_a_replay_from_an_earlier_epoch_repeats_each_one_after_it(
    source: StreamInput, noted: Noted, tmp_path: Path
) -> None:
    """A new file comes after them, not among them."""
    first = noted.run()
    replay(tmp_path / "checkpoint", 0)
    source.add(30)
    assert noted.run() == [*first, (3, [30])]


def test_an_epoch_that_was_not_done_cannot_be_replayed(noted: Noted, tmp_path: Path) -> None:
    noted.run()
    with pytest.raises(ValueError, match="epoch 3 is not among"):
        replay(tmp_path / "checkpoint", 3)


def test_a_query_that_fails_raises_from_drain(source: StreamInput, spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.errors import StreamingQueryException

    def fail(frame: DataFrame, epoch: int) -> None:
        raise LookupError("on purpose")

    writer = source.stream(spark).writeStream.foreachBatch(fail)
    with pytest.raises(StreamingQueryException, match="on purpose"):
        drain(writer, tmp_path / "checkpoint")
    assert spark.streams.active == []


def test_rows_and_stamps_show_what_was_committed(storage: Storage, table_uri: str) -> None:
    options = storage.storage_options
    create_table(table_uri, pa.table({"id": [2, 1]}), options)
    mark = {"epoch": "7"}
    LanceTable(table_uri, options).write(pa.table({"id": [0]}), transaction_properties=mark)
    assert rows(table_uri, options) == [0, 1, 2]
    assert stamps(table_uri, options) == [Stamp(1, "Overwrite", {}), Stamp(2, "Append", mark)]
