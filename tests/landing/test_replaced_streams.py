"""Streams whose table was dropped, replaced or is to be fed in another mode, while the checkpoint stayed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pytest

from headrace.spark import LanceSink
from headrace.tables.lance_store import LanceStore
from headrace.tables.location import Location
from headrace.tables.manage.verify import verify
from support.lance_tables import LanceTable
from support.streams import ARROW_SCHEMA, StreamInput, committed, drain, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

OPTIONS = {
    "create_table": "createTable",
    "on_table_replaced": "lance.streaming.onTableReplaced",
}


@pytest.fixture
def source(tmp_path: Path) -> StreamInput:
    return StreamInput(tmp_path / "input")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Of a table that is not there."""
    return str(tmp_path / "table.lance")


def writer(
    source: StreamInput,
    spark: SparkSession,
    uri: str,
    way: str = "sink",
    mode: str = "append",
    frame: Callable[[DataFrame], DataFrame] = lambda frame: frame,
    **options: Any,
) -> DataStreamWriter:
    rows = frame(source.stream(spark))
    if mode == "complete":
        rows = rows.groupBy("id").count().select("id")
    stream = rows.writeStream.outputMode({"upsert": "append"}.get(mode, mode))
    if way == "format":
        named = {OPTIONS[name]: str(value) for name, value in options.items()}
        return stream.format("lance").options(path=uri, streamingQueryId="q", **named)
    keys = ["id"] if mode == "upsert" else None
    return stream.foreachBatch(LanceSink(uri, query_id="q", mode=mode, keys=keys, **options))


def drop(uri: str) -> None:
    LanceTable(uri).drop()


def recreate(uri: str) -> None:
    LanceTable(uri).recreate(ARROW_SCHEMA)


def overwrite(uri: str) -> None:
    LanceTable(uri).write(ARROW_SCHEMA.empty_table(), "overwrite")


def restore(uri: str) -> None:
    LanceTable(uri).restore(1)


@pytest.mark.parametrize(
    ("way", "mode", "replaces"),
    [
        ("format", "append", drop),
        ("sink", "append", drop),
        ("format", "append", recreate),
        ("sink", "upsert", restore),
        pytest.param("sink", "upsert", drop, marks=pytest.mark.slow),
        pytest.param("sink", "update", drop, marks=pytest.mark.slow),
        pytest.param("sink", "append", recreate, marks=pytest.mark.slow),
        pytest.param("format", "append", overwrite, marks=pytest.mark.slow),
        pytest.param("format", "append", restore, marks=pytest.mark.slow),
    ],
)
def test_a_stream_whose_table_was_replaced_stops_until_that_is_accepted(
    source: StreamInput,
    spark: SparkSession,
    uri: str,
    checkpoint: Path,
    way: str,
    mode: str,
    replaces: Callable[[str], None],
) -> None:
    """L40, L5, F6: nothing is created or changed, at every start; accepted once, it continues."""
    from pyspark.errors import StreamingQueryException

    source.add(1, 2)
    source.add(3)
    drain(writer(source, spark, uri, way, mode, create_table=True), checkpoint)
    assert rows(uri) == [1, 2, 3]
    replaces(uri)
    source.add(4)
    versions = len(lance.dataset(uri).versions()) if replaces is not drop else 0
    for _ in range(2):
        with pytest.raises(StreamingQueryException) as caught:
            drain(writer(source, spark, uri, way, mode, create_table=True), checkpoint)
        assert "TableReplacedError" in str(caught.value)
        accepting = "lance.streaming.onTableReplaced=accept" if way == "format" else 'on_table_replaced="accept"'
        assert f"set {accepting}" in str(caught.value)
    assert committed(checkpoint) == [0, 1]
    assert not Path(uri).exists() if replaces is drop else len(lance.dataset(uri).versions()) == versions
    drain(writer(source, spark, uri, way, mode, create_table=True, on_table_replaced="accept"), checkpoint)
    source.add(5)
    drain(writer(source, spark, uri, way, mode, create_table=True), checkpoint)
    assert rows(uri) == [4, 5]
    (account,) = verify(LanceStore(Location(uri)))
    assert account.problems == ()


def test_a_whole_result_lands_in_a_new_table(
    source: StreamInput, spark: SparkSession, uri: str, checkpoint: Path
) -> None:
    """L40, L9: it has the rows of all epochs, so that nothing is lost."""
    source.add(1, 2)
    drain(writer(source, spark, uri, "format", "complete", create_table=True), checkpoint)
    drop(uri)
    source.add(3)
    drain(writer(source, spark, uri, "format", "complete", create_table=True), checkpoint)
    assert rows(uri) == [1, 2, 3]
    (account,) = verify(LanceStore(Location(uri)))
    assert (account.problems, account.rows) == ((), 3)


@pytest.mark.parametrize("way", ["format", "sink"])
def test_a_stream_whose_first_epochs_had_no_rows_lands_the_next(
    source: StreamInput, spark: SparkSession, uri: str, checkpoint: Path, way: str
) -> None:
    """L40, L8: though it was restarted after each of them."""

    def run() -> None:
        drain(writer(source, spark, uri, way, frame=lambda frame: frame.where("id > 2"), create_table=True), checkpoint)

    for id in (1, 2, 3):
        source.add(id)
        run()
    assert rows(uri) == [3]
    assert committed(checkpoint) == [0, 1, 2]


def test_a_checkpoint_of_another_table_is_refused(
    source: StreamInput, spark: SparkSession, uri: str, checkpoint: Path
) -> None:
    """L40: what it landed there is not here; a direct call has no checkpoint and may begin anywhere."""
    from pyspark.errors import StreamingQueryException

    source.add(1)
    drain(writer(source, spark, uri, create_table=True), checkpoint)
    source.add(2)
    other = f"{uri}.other"
    with pytest.raises(StreamingQueryException, match="checkpoint was used with another table"):
        drain(writer(source, spark, other, create_table=True), checkpoint)
    assert not Path(other).exists()
    LanceSink(other, query_id="q", create_table=True)(spark.range(7, 8), 7)
    assert rows(other) == [7]


def test_another_mode_is_refused_but_update_is_append(
    source: StreamInput, spark: SparkSession, uri: str, checkpoint: Path
) -> None:
    """L41: before a task runs; the message names both modes and the remedy."""
    from pyspark.errors import StreamingQueryException

    source.add(1)
    drain(writer(source, spark, uri, mode="append", create_table=True), checkpoint)
    source.add(2)
    drain(writer(source, spark, uri, mode="update"), checkpoint)
    source.add(3)
    with pytest.raises(StreamingQueryException, match=r"in mode upsert.*in mode append \(or update\).*headrace forget"):
        drain(writer(source, spark, uri, mode="upsert"), checkpoint)
    assert (rows(uri), committed(checkpoint)) == ([1, 2], [0, 1])
