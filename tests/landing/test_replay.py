"""Epochs that Spark sends again land once: the first, a middle one and the last, in every mode and in both ways."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from headrace.spark import LanceSink
from support.streams import ARROW_SCHEMA, StreamInput, committed, drain, replay, rows, stamps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter

OPERATIONS = {"append": "Append", "complete": "Overwrite", "update": "Append", "upsert": "Update"}


@pytest.fixture
def source(tmp_path: Path) -> StreamInput:
    return StreamInput(tmp_path / "input")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


def writer(
    source: StreamInput, spark: SparkSession, uri: str, way: str, mode: str = "append", **options: str
) -> DataStreamWriter:
    """Write distinct ids, so that complete mode has something to aggregate; each epoch adds new ones."""
    frame = source.stream(spark)
    if mode == "complete":
        frame = frame.groupBy("id").count().select("id")
    output = {"upsert": "append"}.get(mode, mode)
    stream = frame.writeStream.outputMode(output)
    if way == "format":
        return stream.format("lance").options(path=uri, streamingQueryId="q", **options)
    keys = ["id"] if mode == "upsert" else None
    return stream.foreachBatch(LanceSink(uri, query_id="q", mode=mode, keys=keys, **options))  # type: ignore[arg-type]


def epochs(uri: str) -> list[tuple[str, str]]:
    """Operation and epoch of every version that carries an epoch's stamp."""
    found = ((stamp.operation, stamp.properties.get("lance.streaming.epochId")) for stamp in stamps(uri))
    return [(operation, epoch) for operation, epoch in found if epoch is not None]


@pytest.mark.parametrize(
    ("way", "mode"),
    [
        ("format", "append"),
        ("sink", "upsert"),
        pytest.param("format", "complete", marks=pytest.mark.slow),
        pytest.param("sink", "append", marks=pytest.mark.slow),
        pytest.param("sink", "complete", marks=pytest.mark.slow),
        pytest.param("sink", "update", marks=pytest.mark.slow),
    ],
)
def test_a_replayed_epoch_lands_once(
    source: StreamInput, spark: SparkSession, uri: str, checkpoint: Path, way: str, mode: str
) -> None:
    """L12, L13: Spark dies after the commit and before its own note of it; first, last and middle epoch in turn."""

    def run() -> None:
        drain(writer(source, spark, uri, way, mode), checkpoint)

    source.add(0, 1)
    run()
    assert replay(checkpoint) == 0
    run()
    source.add(10, 11)
    source.add(20, 21)
    run()
    before = stamps(uri)
    assert epochs(uri) == [(OPERATIONS[mode], epoch) for epoch in "012"]
    for epoch in (2, 1, 0):
        replay(checkpoint, epoch)
        run()
        assert committed(checkpoint) == [0, 1, 2]
        assert stamps(uri) == before
    replay(checkpoint, 1)
    source.add(30)
    run()
    assert rows(uri) == source.ids()
    assert epochs(uri) == [(OPERATIONS[mode], epoch) for epoch in "0123"]


def test_what_a_dead_driver_had_written_and_not_committed_stays_invisible(
    source: StreamInput, spark: SparkSession, uri: str, checkpoint: Path
) -> None:
    """L14: the epoch comes again and lands once; the files of the first try are in no version."""
    from headrace.spark.datasource import LanceDataSource

    source.add(1, 2)
    drain(writer(source, spark, uri, "format"), checkpoint)
    source.add(3)
    dead = LanceDataSource({"path": uri, "streamingQueryId": "q"}).streamWriter(source.stream(spark).schema, False)
    dead.write(iter([pa.record_batch({"id": [3]}, schema=ARROW_SCHEMA)]))
    assert rows(uri) == [1, 2]
    drain(writer(source, spark, uri, "format"), checkpoint)
    assert rows(uri) == [1, 2, 3]
    known = {file.path for each in lance.dataset(uri).get_fragments() for file in each.data_files()}
    assert len({path.name for path in Path(uri, "data").iterdir()} - known) == 1


@pytest.mark.parametrize("way", ["format", "sink"])
def test_a_new_checkpoint_under_the_same_id_stops_the_query(
    source: StreamInput, spark: SparkSession, uri: str, tmp_path: Path, way: str
) -> None:
    """L18, L30: neither taken for landed nor landed twice; both ways out are named, and the files are removed."""
    from pyspark.errors import StreamingQueryException

    source.add(1)
    drain(writer(source, spark, uri, way), tmp_path / "first")
    before, files = stamps(uri), sorted(Path(uri, "data").iterdir())
    with pytest.raises(StreamingQueryException) as caught:
        drain(writer(source, spark, uri, way), tmp_path / "second")
    said = str(caught.value)
    assert "CheckpointResetError: Query 'q' comes with epoch 0 of checkpoint" in said
    ways_out = {
        "format": "choose a new streamingQueryId, or set lance.streaming.onCheckpointReset=accept",
        "sink": 'choose a new query_id, or set on_checkpoint_reset="accept"',
    }
    assert ways_out[way] in said
    assert stamps(uri) == before
    assert sorted(Path(uri, "data").iterdir()) == files
    option = {"lance.streaming.onCheckpointReset" if way == "format" else "on_checkpoint_reset": "accept"}
    drain(writer(source, spark, uri, way, **option), tmp_path / "second")
    assert rows(uri) == [1, 1]
    source.add(2)
    with pytest.raises(StreamingQueryException, match="CheckpointResetError"):
        drain(writer(source, spark, uri, way), tmp_path / "first")


@pytest.mark.parametrize(
    ("way", "mode"), [("format", "append"), pytest.param("sink", "upsert", marks=pytest.mark.slow)]
)
def test_compaction_an_index_and_cleanup_between_epochs_change_nothing(
    source: StreamInput, spark: SparkSession, uri: str, checkpoint: Path, way: str, mode: str
) -> None:
    """L22, F7: the landed epoch is known though its version is gone, and the next one lands."""

    def run() -> None:
        drain(writer(source, spark, uri, way, mode), checkpoint)

    for epoch in range(3):
        source.add(*range(10 * epoch, 10 * epoch + 5))
        run()
        table = lance.dataset(uri)
        table.optimize.compact_files()
        if epoch == 1:
            table.create_scalar_index("id", "BTREE")
        lance.dataset(uri).cleanup_old_versions(older_than=timedelta(0))
        assert len(lance.dataset(uri).versions()) == 1
        replay(checkpoint)
        run()
        assert rows(uri) == source.ids()
    assert len(lance.dataset(uri).versions()) == 1
