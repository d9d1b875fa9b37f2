"""Update mode appends what changed; upsert mode merges by key, one stamped transaction for an epoch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from headrace import HeadraceError, SchemaMismatchError
from headrace.spark import LanceSink
from support.lance_tables import LanceTable, create_table
from support.storages import Storage
from support.streams import StreamInput, drain, stamps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("n", pa.int64())])
SPARK_SCHEMA = "id BIGINT, kind STRING, n BIGINT"
Row = tuple[int | None, str | None, int | None]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "table.lance")
    create_table(uri, table((1, "a", 10), (2, "b", 20), (3, "c", 30)))
    return uri


def table(*given: Row) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in given], SCHEMA)


def held(uri: str, options: dict[str, str] | None = None) -> list[Row]:
    values = lance.dataset(uri, storage_options=options).to_table().to_pylist()
    return sorted(tuple(row.values()) for row in values)


def epochs(uri: str, options: dict[str, str] | None = None) -> list[tuple[str, str]]:
    found = [(stamp.operation, stamp.properties.get("lance.streaming.epochId")) for stamp in stamps(uri, options)]
    return [(operation, epoch) for operation, epoch in found if epoch is not None]


def staged(uri: str) -> list[Path]:
    return [path for path in Path(uri, "_headrace").rglob("*") if path.is_file() and "staging" in path.parts]


def test_update_mode_appends_what_changed(spark: SparkSession, tmp_path: Path) -> None:
    """L10: a changed group is added beside its earlier state; nothing is merged."""
    uri = str(tmp_path / "counts.lance")
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("n", pa.int64(), nullable=False)])
    create_table(uri, schema)
    source = StreamInput(tmp_path / "input")
    source.add(1, 1, 2)
    source.add(1)
    counts = source.stream(spark).groupBy("id").count().withColumnRenamed("count", "n")
    sink = LanceSink(uri, query_id="q", mode="update")
    drain(counts.writeStream.outputMode("update").foreachBatch(sink), tmp_path / "checkpoint")
    assert held(uri) == [(1, 2), (1, 3), (2, 1)]
    assert epochs(uri) == [("Append", "0"), ("Append", "1")]


def test_matched_rows_are_updated_and_others_inserted(spark: SparkSession, tmp_path: Path, storage: Storage) -> None:
    """L11, L36: in one stamped transaction for each epoch; an epoch that comes again changes nothing."""
    uri, options = storage.uri("table"), storage.storage_options
    create_table(uri, table((1, "a", 10), (2, "b", 20), (3, "c", 30)), options)
    sink = LanceSink(uri, query_id="q", mode="upsert", keys=["id"], storage_options=options)
    again = LanceSink(uri, query_id="q", mode="upsert", keys=["id"], storage_options=options)
    sink(spark.createDataFrame([(2, "b", 21), (4, "d", 40)], SPARK_SCHEMA), 0)
    sink(spark.createDataFrame([(4, None, 41)], SPARK_SCHEMA), 1)
    expected = [(1, "a", 10), (2, "b", 21), (3, "c", 30), (4, None, 41)]
    assert held(uri, options) == expected
    assert epochs(uri, options) == [("Update", "0"), ("Update", "1")]
    before = stamps(uri, options)
    assert (before[-1].properties["headrace.mode"], before[-1].properties["headrace.rows"]) == ("upsert", "1")
    for late in (sink, again):
        for epoch in (0, 1):
            late(spark.createDataFrame([(4, "wrong", 99)], SPARK_SCHEMA), epoch)
    assert held(uri, options) == expected
    assert stamps(uri, options) == before
    again(spark.createDataFrame([(3, "c", 31)], SPARK_SCHEMA), 2)
    assert held(uri, options)[2] == (3, "c", 31)


def test_an_epoch_without_rows_makes_no_version(spark: SparkSession, uri: str) -> None:
    """L8, L11: nothing to merge, nothing to commit."""
    LanceSink(uri, query_id="q", mode="upsert", keys="id")(spark.createDataFrame([], SPARK_SCHEMA), 0)
    assert len(stamps(uri)) == 1


def test_a_key_of_two_columns_matches_on_both(spark: SparkSession, uri: str) -> None:
    """L11: one of them alone is no match, and may be there twice."""
    sink = LanceSink(uri, query_id="q", mode="upsert", keys=("id", "kind"))
    sink(spark.createDataFrame([(1, "a", 11), (1, "b", 12), (2, "a", 13)], SPARK_SCHEMA), 0)
    assert held(uri) == [(1, "a", 11), (1, "b", 12), (2, "a", 13), (2, "b", 20), (3, "c", 30)]


def test_column_order_and_odd_names_do_not_matter(spark: SparkSession, tmp_path: Path) -> None:
    """L11, L31: a key whose name has a dot, a space and a capital."""
    uri, key = str(tmp_path / "odd.lance"), "The key"
    create_table(uri, pa.table({key: [1], "v": [1]}))
    sink = LanceSink(uri, query_id="q", mode="upsert", keys=[key])
    sink(spark.createDataFrame([(2, 1), (3, 2)], f"v BIGINT, `{key}` BIGINT"), 0)
    assert sorted(map(tuple, (row.values() for row in lance.dataset(uri).to_table().to_pylist()))) == [(1, 2), (2, 3)]


@pytest.mark.parametrize(
    ("given", "schema", "said"),
    [
        (
            [(4, "x", 1), (4, "y", 2), (5, "z", 3)],
            SPARK_SCHEMA,
            "The epoch has more than one row for the same key: one task found 1 such key",
        ),
        ([(1, "x", 1), (1, "y", 2)], SPARK_SCHEMA, "{'id': 1}"),
        ([(None, "x", 1)], SPARK_SCHEMA, "Key column 'id' holds nulls, which match no row"),
        ([(1, "x")], "id BIGINT, kind STRING", "Column 'n' (int64) is missing from the rows"),
        ([(1, 5)], "n BIGINT, extra BIGINT", "Column 'extra' (int64) is not in the table"),
    ],
    ids=["a new key twice", "a known key twice", "a null key", "a missing column", "an unknown column"],
)
def test_rows_that_cannot_be_merged_are_refused_and_change_nothing(
    spark: SparkSession, uri: str, given: list[Row], schema: str, said: str
) -> None:
    """L11: Lance would insert a new key twice, keep neither, or erase what is missing."""
    before = held(uri)
    with pytest.raises(Exception) as caught:  # noqa: PT011  (from a task, Spark's own class has the text)
        LanceSink(uri, query_id="q", mode="upsert", keys="id")(spark.createDataFrame(given, schema), 0)
    assert said in str(caught.value)
    assert len(stamps(uri)) == 1
    assert held(uri) == before
    assert staged(uri) == []


def test_a_key_the_table_does_not_have_is_refused_by_name(spark: SparkSession, uri: str) -> None:
    """L11: at the first epoch, with the columns there are."""
    sink = LanceSink(uri, query_id="q", mode="upsert", keys=["id", "nope"])
    with pytest.raises(SchemaMismatchError, match="Key column 'nope' is not in the table, whose columns are id, kind"):
        sink(spark.createDataFrame([(1, "a", 1)], SPARK_SCHEMA), 0)
    assert len(stamps(uri)) == 1


def test_staged_rows_are_removed_after_the_epoch(spark: SparkSession, uri: str) -> None:
    """L11: and what a driver that died left behind, before the query's next one; not another query's."""
    from headrace.tables.write import upsert

    for query_id in ("q", "another"):
        left = Path(uri, upsert.staging_folder(query_id), "left", "data", "left.lance")
        left.parent.mkdir(parents=True)
        left.touch()
    LanceSink(uri, query_id="q", mode="upsert", keys="id")(spark.createDataFrame([(1, "a", 1)], SPARK_SCHEMA), 0)
    assert [path.name for path in staged(uri)] == ["left.lance"]
    assert staged(uri)[0] == left


def test_others_appends_between_epochs_stay(spark: SparkSession, uri: str) -> None:
    """L11, L24: the merge is worked out against the newest version."""
    sink = LanceSink(uri, query_id="q", mode="upsert", keys="id")
    sink(spark.createDataFrame([(1, "a", 11)], SPARK_SCHEMA), 0)
    LanceTable(uri).write(table((9, "i", 90)))
    sink(spark.createDataFrame([(9, "i", 91)], SPARK_SCHEMA), 1)
    assert held(uri) == [(1, "a", 11), (2, "b", 20), (3, "c", 30), (9, "i", 91)]


def test_a_stream_of_aggregates_keeps_one_row_for_each_group(spark: SparkSession, tmp_path: Path) -> None:
    """L11: update mode's changes, merged: what most users want of it."""
    uri = str(tmp_path / "counts.lance")
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("n", pa.int64(), nullable=False)])
    create_table(uri, schema)
    source = StreamInput(tmp_path / "input")
    source.add(1, 1, 2)
    source.add(1, 3)
    counts = source.stream(spark).groupBy("id").count().withColumnRenamed("count", "n")
    sink = LanceSink(uri, query_id="q", mode="upsert", keys="id")
    drain(counts.writeStream.outputMode("update").foreachBatch(sink), tmp_path / "checkpoint")
    assert held(uri) == [(1, 3), (2, 1), (3, 1)]
    assert epochs(uri) == [("Update", "0"), ("Update", "1")]


def test_an_error_of_a_task_keeps_its_class_for_the_reader(spark: SparkSession, uri: str) -> None:
    """L31: Spark turns a task's error into text; the text has the class and the hint."""
    sink = LanceSink(uri, query_id="q", mode="upsert", keys="id")
    with pytest.raises(Exception) as caught:  # noqa: PT011
        sink(spark.createDataFrame([(None, "x", 1)], SPARK_SCHEMA), 0)
    if not isinstance(caught.value, HeadraceError):
        assert "SchemaMismatchError: Key column 'id' holds nulls" in str(caught.value)
        assert "Hint: drop those rows, or fill in the key." in str(caught.value)
