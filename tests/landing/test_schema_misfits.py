"""Rows that do not fit are refused by the name of their column, and the table is as it was."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from headrace import SchemaMismatchError
from headrace.spark import LanceSink
from support.lance_tables import create_table
from support.streams import StreamInput, drain, stamps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("small", pa.int8()),
        pa.field("vector", pa.list_(pa.float32(), 3)),
        pa.field("inner", pa.struct([pa.field("x", pa.int64())])),
        pa.field("real", pa.float32()),
    ]
)
ALL = [
    "id",
    "null as small",
    "array(1.0f, 2.0f, 3.0f) as vector",
    "named_struct('x', id) as inner",
    "cast(0.1 as double) as real",
]

# What is selected from a stream of the ids 1 and 2, and what the error must say. The first ones show before any row is
# read. Where the message quotes a value, only one row has it: tasks run side by side.
BY_SCHEMA = {
    "an extra column": ([*ALL, "1 as extra"], "Column 'extra' (int32) is not in the table"),
    "a wrong type": (["id", "'text' as small"], "Column 'small' is string in the rows and int8 in the table"),
    "a missing column that may not be null": (ALL[1:], "Column 'id' (int64) is missing from the rows"),
    "a wrong type inside": (["id", "named_struct('x', 'text') as inner"], "Column 'inner.x' is string in the rows"),
    "an extra field inside": (["id", "named_struct('x', id, 'y', 1) as inner"], "Field 'y' of column 'inner'"),
    "a date for a number": (["id", "current_date() as small"], "Column 'small' is date32[day] in the rows and int8"),
}
BY_VALUE = {
    "a null where none may be": (["nullif(id, 2) as id"], "Column 'id' holds nulls, and the table does not allow"),
    "a vector too short": (
        ["id", "array(1.0f, 2.0f) as vector"],
        "Column 'vector' holds a list of 2 values; the table's vectors have 3",
    ),
    "a number too large": (
        ["id", "if(id = 2, 300, 3) as small"],
        "Column 'small' is int32 in the rows and int8 in the table, and 300 does not fit",
    ),
    "a float too large": (
        [*ALL[:4], "if(id = 2, 1e300D, 0.1D) as real"],
        "Column 'real' is double in the rows and float in the table, and 1e+300 does not fit",
    ),
    "a float too large inside": (
        ["id", "array(0.1D, 1e300D, 1D) as vector"],
        "Column 'vector.item' is double in the rows and float in the table, and 1e+300 does not fit",
    ),
}
MISFITS = BY_SCHEMA | BY_VALUE


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "table.lance")
    create_table(uri, SCHEMA)
    return uri


@pytest.fixture
def source(tmp_path: Path) -> StreamInput:
    source = StreamInput(tmp_path / "input")
    source.add(1, 2)
    return source


def by_format(frame: DataFrame, uri: str, **options: str) -> DataStreamWriter:
    return frame.writeStream.format("lance").options(path=uri, streamingQueryId="q", **options)


def require_untouched(uri: str) -> None:
    """One version, no rows, and no data file but, at most, one a task could not know of."""
    assert len(stamps(uri)) == 1
    assert lance.dataset(uri).count_rows() == 0


@pytest.mark.parametrize("misfit", BY_SCHEMA)
def test_a_sink_refuses_columns_that_do_not_fit(spark: SparkSession, uri: str, misfit: str) -> None:
    """L31: with a separate error class, before any task runs."""
    columns, said = BY_SCHEMA[misfit]
    frame = spark.range(1, 3).selectExpr(*columns)
    with pytest.raises(SchemaMismatchError) as caught:
        LanceSink(uri, query_id="q")(frame, 0)
    assert said in str(caught.value)
    assert "Hint:" in str(caught.value)
    require_untouched(uri)
    assert not list(Path(uri, "data").glob("*"))


@pytest.mark.parametrize("misfit", BY_VALUE)
def test_a_sink_refuses_values_that_do_not_fit(spark: SparkSession, uri: str, misfit: str) -> None:
    """L31: a task finds out; the text that Spark hands over has class, column and hint."""
    columns, said = BY_VALUE[misfit]
    with pytest.raises(Exception) as caught:  # noqa: PT011  (Spark's own class has the text)
        LanceSink(uri, query_id="q")(spark.range(1, 3).selectExpr(*columns), 0)
    assert said in str(caught.value)
    assert "SchemaMismatchError" in str(caught.value) or isinstance(caught.value, SchemaMismatchError)
    assert "Hint:" in str(caught.value)
    require_untouched(uri)


@pytest.mark.parametrize(
    "misfit",
    [
        "an extra column",
        "a null where none may be",
        "a float too large",
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in MISFITS
            if each not in ("an extra column", "a null where none may be", "a float too large")
        ),
    ],
)
def test_a_stream_refuses_rows_that_do_not_fit_and_continues_when_they_do(
    source: StreamInput, spark: SparkSession, uri: str, tmp_path: Path, misfit: str
) -> None:
    """L31: the user reads class, column and hint; the same checkpoint continues once the query is corrected."""
    from pyspark.errors import StreamingQueryException

    columns, said = MISFITS[misfit]
    with pytest.raises(StreamingQueryException) as caught:
        drain(by_format(source.stream(spark).selectExpr(*columns), uri), tmp_path / "checkpoint")
    assert said in str(caught.value)
    assert "SchemaMismatchError" in str(caught.value)
    assert "Hint:" in str(caught.value)
    require_untouched(uri)
    drain(by_format(source.stream(spark).selectExpr(*ALL), uri), tmp_path / "checkpoint")
    assert sorted(lance.dataset(uri).to_table()["id"].to_pylist()) == [1, 2]


@pytest.mark.parametrize("mode", ["complete", "update", "upsert"])
@pytest.mark.parametrize("misfit", ["an extra column", "a null where none may be", "a float too large"])
def test_other_modes_refuse_them_as_well(spark: SparkSession, uri: str, mode: str, misfit: str) -> None:
    """L31: with the same words, or those of the key that is null."""
    columns, said = MISFITS[misfit]
    columns = columns if len(columns) > 1 else [columns[0], *ALL[1:]]
    sink = LanceSink(uri, query_id="q", mode=mode, keys="id" if mode == "upsert" else None)
    with pytest.raises(Exception) as caught:  # noqa: PT011
        sink(spark.range(1, 3).selectExpr(*columns), 0)
    assert said in str(caught.value) or "Key column 'id' holds nulls" in str(caught.value)
    require_untouched(uri)


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_batch_job_refuses_a_float_that_is_too_large(spark: SparkSession, uri: str, mode: str) -> None:
    """L31, R7: and lands those that are rounded."""
    columns, said = MISFITS["a float too large"]
    with pytest.raises(Exception, match="SchemaMismatchError") as caught:
        spark.range(1, 3).selectExpr(*columns).write.format("lance").mode(mode).save(uri)
    assert said in str(caught.value)
    require_untouched(uri)
    spark.range(1, 2).selectExpr(*columns).write.format("lance").mode(mode).save(uri)
    assert lance.dataset(uri).to_table()["real"].to_pylist() == [0.10000000149011612]


def test_keys_that_would_be_rounded_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """L11, L31: two keys of an epoch could become one; a cast in the query is the user's own word."""
    uri = str(tmp_path / "keyed.lance")
    create_table(uri, pa.schema([("k", pa.float32())]))
    sink = LanceSink(uri, query_id="q", mode="upsert", keys="k")
    with pytest.raises(SchemaMismatchError, match="Key column 'k' is double"):
        sink(spark.sql("select 0.1D as k union all select 0.10000000000001D"), 0)
    require_untouched(uri)
    sink(spark.sql("select cast(0.1D as float) as k"), 0)
    assert lance.dataset(uri).to_table()["k"].to_pylist() == [0.10000000149011612]


def test_missing_columns_that_may_be_null_are_filled(
    source: StreamInput, spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    """L32: with null, in both ways."""
    drain(by_format(source.stream(spark), uri), tmp_path / "checkpoint")
    LanceSink(uri, query_id="sink")(spark.range(3, 4).selectExpr("cast(7 as tinyint) as small", "id"), 0)
    found = sorted(lance.dataset(uri).to_table().to_pylist(), key=lambda row: row["id"])
    nothing = {"small": None, "vector": None, "inner": None, "real": None}
    assert found == [{"id": 1} | nothing, {"id": 2} | nothing, {"id": 3} | nothing | {"small": 7}]


def test_a_new_column_is_added_on_request(source: StreamInput, spark: SparkSession, uri: str, tmp_path: Path) -> None:
    """L32: once, before the first epoch; rows from before have null in it."""
    drain(by_format(source.stream(spark), uri), tmp_path / "checkpoint")
    source.add(3)
    source.add(4)
    wider = source.stream(spark).selectExpr("id", "concat('n', id) as name")
    drain(by_format(wider, uri, mergeSchema="true"), tmp_path / "checkpoint")
    table = lance.dataset(uri).to_table(columns=["id", "name"]).to_pylist()
    assert sorted(table, key=lambda row: row["id"]) == [
        {"id": 1, "name": None},
        {"id": 2, "name": None},
        {"id": 3, "name": "n3"},
        {"id": 4, "name": "n4"},
    ]
    operations = [stamp.operation for stamp in stamps(uri)]
    assert operations.count("Append") == 3
    LanceSink(uri, query_id="sink", merge_schema=True)(spark.range(5, 6).selectExpr("id", "1.5D as more"), 0)
    assert lance.dataset(uri).schema.field("more").type == pa.float64()


def test_a_new_column_is_not_added_beside_one_that_does_not_fit(spark: SparkSession, uri: str) -> None:
    """L31, L32: the table is changed only when the rows can be landed."""
    sink = LanceSink(uri, query_id="q", merge_schema=True)
    with pytest.raises(SchemaMismatchError, match="Column 'small'"):
        sink(spark.range(1).selectExpr("id", "'x' as small", "1 as extra"), 0)
    assert lance.dataset(uri).schema.equals(SCHEMA)
    require_untouched(uri)
