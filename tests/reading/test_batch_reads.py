"""A Lance table as a frame for Spark: any version of it, whole or in part, with its types."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PythonException

from support.lance_tables import LanceTable, create_table
from support.storages import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Three versions: 1 and 2; 3 as well; without 1."""
    uri = str(tmp_path / "table.lance")
    create_table(uri, pa.table({"id": [1, 2], "name": ["a", "b"]}))
    LanceTable(uri).write(pa.table({"id": [3], "name": ["c"]}))
    lance.dataset(uri).delete("id = 1")
    return uri


def load(spark: SparkSession, uri: str, **options: Any) -> DataFrame:
    return spark.read.format("lance").options(**options).load(uri)


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.collect())


def test_the_newest_version_is_read_and_any_other_that_is_named(spark: SparkSession, uri: str) -> None:
    """R7: by number, tag or time."""
    table = lance.dataset(uri)
    table.tags.create("first", 1)
    made = {each["version"]: each["timestamp"].astimezone(datetime.UTC) for each in table.versions()}
    assert ids(load(spark, uri)) == [2, 3]
    assert ids(load(spark, uri, version=1)) == [1, 2]
    assert ids(load(spark, uri, version="first")) == [1, 2]
    assert ids(load(spark, uri, timestamp=made[2].isoformat())) == [1, 2, 3]


def test_rows_and_columns_are_left_out_by_options(spark: SparkSession, uri: str) -> None:
    """R7."""
    frame = load(spark, uri, columns="name", filter="id > 2 OR name = 'x'")
    assert frame.columns == ["name"]
    assert [row.name for row in frame.collect()] == ["c"]


def test_a_schema_of_the_user_is_the_projection(spark: SparkSession, uri: str) -> None:
    """R7: a column that is not there, or of a kind that does not fit, is named."""
    frame = spark.read.format("lance").schema("id bigint").load(uri)
    assert frame.columns == ["id"]
    assert ids(frame) == [2, 3]
    for schema, said in (("total bigint", "Column 'total' is not in"), ("name int", "Column 'name'")):
        with pytest.raises((AnalysisException, PythonException), match=said):
            spark.read.format("lance").schema(schema).load(uri).collect()


def test_filters_of_spark_are_pushed_where_both_switches_are_on(spark: SparkSession, uri: str) -> None:
    """R7: the same rows come either way; with one switch only, Spark says which is missing."""
    condition = "id >= 2 and name in ('b', 'c', 'x') and name like 'c%' and id is not null and not id = 2"
    assert ids(load(spark, uri).where(condition)) == [3]
    with pytest.raises(AnalysisException, match=PUSHDOWN):
        load(spark, uri, pushFilters=True).where(condition).collect()
    spark.conf.set(PUSHDOWN, "true")
    try:
        assert ids(load(spark, uri, pushFilters=True).where(condition)) == [3]
        assert ids(load(spark, uri, pushFilters=True, filter="id < 3").where("id > 1")) == [2]
        assert ids(load(spark, uri).where(condition)) == [3]
    finally:
        spark.conf.unset(PUSHDOWN)


def test_a_table_without_rows_is_an_empty_frame(spark: SparkSession, tmp_path: Path) -> None:
    """R7."""
    uri = str(tmp_path / "empty.lance")
    create_table(uri, pa.schema([("id", pa.int64())]))
    assert load(spark, uri).count() == 0


def test_what_spark_writes_spark_reads(spark: SparkSession, storage: Storage) -> None:
    """R7: in a folder and on S3; append and overwrite."""
    uri = storage.uri("table")
    options = {f"storage.{name}": value for name, value in storage.storage_options.items()}
    frame = spark.range(1000).selectExpr("id", "id * 0.5D as half", "array(id, id + 1) as pair")
    frame.write.format("lance").options(**options).mode("append").save(uri)
    frame.write.format("lance").options(**options).mode("append").save(uri)
    assert load(spark, uri, **options).count() == 2000
    frame.write.format("lance").options(**options).mode("overwrite").save(uri)
    assert sorted(load(spark, uri, **options).collect()) == sorted(frame.collect())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"version": 99}, "There is no version 99 of"),
        ({"version": "no such tag"}, "There is no version 'no such tag' of"),
        ({"timestamp": "1999-01-01"}, "timestamp is 1999-01-01"),
        ({"columns": "id,nothing"}, "The columns option names 'nothing'"),
        ({"filter": "nothing > 1"}, "nothing"),
    ],
)
def test_a_wrong_option_is_named(spark: SparkSession, uri: str, options: dict[str, Any], said: str) -> None:
    """R7."""
    with pytest.raises((AnalysisException, PythonException), match="(?i)" + said):
        load(spark, uri, **options).collect()


def test_no_table_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    """R7."""
    with pytest.raises(AnalysisException, match="There is no Lance table at"):
        load(spark, str(tmp_path / "nothing.lance"))


WHEN = datetime.datetime(2026, 3, 1, 12, 30, 15, 123456)
COLUMNS: dict[str, tuple[pa.DataType, list[Any], list[Any]]] = {
    "vector": (pa.list_(pa.float32(), 2), [[1.5, 2.5], None], [[1.5, 2.5], None]),
    "small": (pa.uint8(), [255, None], [255, None]),
    "large": (pa.uint64(), [2**64 - 1, None], [Decimal(2**64 - 1), None]),
    "half": (pa.float16(), [np.float16(0.5), None], [0.5, None]),
    "text": (pa.large_string(), ["x" * 1000, None], ["x" * 1000, None]),
    "word": (pa.dictionary(pa.int32(), pa.string()), ["a", None], ["a", None]),
    "bytes": (pa.binary(3), [b"abc", None], [b"abc", None]),
    "money": (pa.decimal128(38, 10), [Decimal("1.5"), None], [Decimal("1.5"), None]),
    "day": (pa.date32(), [datetime.date(2026, 3, 1), None], [datetime.date(2026, 3, 1), None]),
    "local": (pa.timestamp("us"), [WHEN, None], [WHEN, None]),
    "fine": (pa.timestamp("ns"), [np.datetime64("2026-03-01T12:30:15.123456789"), None], [WHEN, None]),
    "nested": (
        pa.struct([("list", pa.large_list(pa.int16())), ("deep", pa.struct([("flag", pa.bool_())]))]),
        [{"list": [1, None], "deep": {"flag": True}}, None],
        [([1, None], (True,)), None],
    ),
}


def test_every_type_is_read_as_the_nearest_of_sparks(spark: SparkSession, tmp_path: Path) -> None:
    """R7: values and nulls alike."""
    uri = str(tmp_path / "types.lance")
    arrays = {
        name: pa.array(np.array(values, dtype="datetime64[ns]"), kind) if name == "fine" else pa.array(values, kind)
        for name, (kind, values, _) in COLUMNS.items()
    }
    create_table(uri, pa.table(arrays), data_storage_version="2.2")
    rows = load(spark, uri).collect()
    for name, (_, _, expected) in COLUMNS.items():
        assert [row[name] for row in rows] == expected, name


def test_a_zoned_time_is_the_same_moment(spark: SparkSession, tmp_path: Path) -> None:
    """R7: whatever zone the table and the session are in."""
    uri = str(tmp_path / "zoned.lance")
    zone = "Europe/Berlin"
    create_table(uri, pa.table({"at": pa.array([WHEN], pa.timestamp("ms", zone))}))
    [row] = load(spark, uri).selectExpr("unix_micros(at) as at").collect()
    assert row.at == pa.array([WHEN], pa.timestamp("ms", zone)).cast(pa.int64())[0].as_py() * 1000


def test_blobs_are_read_with_their_content(spark: SparkSession, tmp_path: Path) -> None:
    """R7: of both kinds."""
    content = b"x" * 100_000
    old = pa.schema([pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})])
    create_table(tmp_path / "old.lance", pa.table({"blob": [content, None]}, schema=old))
    new = pa.schema([lance.blob_field("blob")])
    create_table(
        tmp_path / "new.lance",
        pa.table({"blob": lance.blob_array([content, None])}, schema=new),
        data_storage_version="2.2",
    )
    for name in ("old", "new"):
        rows = load(spark, str(tmp_path / f"{name}.lance")).collect()
        assert [None if row.blob is None else bytes(row.blob) for row in rows] == [content, None], name


def test_a_type_spark_does_not_have_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """R7: and the column can be left out."""
    uri = str(tmp_path / "odd.lance")
    create_table(uri, pa.table({"id": [1], "wide": pa.array([Decimal("1")], pa.decimal256(76, 0))}))
    with pytest.raises(AnalysisException, match=r"no type for column 'wide'.*columns option"):
        load(spark, uri)
    assert ids(load(spark, uri, columns="id")) == [1]


def test_fragments_are_dealt_out_to_tasks(spark: SparkSession, tmp_path: Path) -> None:
    """R7: many small ones to one task, a large one to several."""
    small, large = str(tmp_path / "small.lance"), str(tmp_path / "large.lance")
    create_table(small, pa.table({"id": range(100)}), max_rows_per_file=1)
    assert load(spark, small).rdd.getNumPartitions() == 1
    numbers = np.random.default_rng(0).integers(0, 2**40, 5_000_000)
    create_table(large, pa.table({"id": numbers}), max_rows_per_file=10**7)
    assert len(lance.dataset(large).get_fragments()) == 1
    frame = load(spark, large)
    assert frame.rdd.getNumPartitions() > 1
    assert frame.selectExpr("count(*)", "sum(id)").collect()[0] == (5_000_000, int(numbers.sum()))
