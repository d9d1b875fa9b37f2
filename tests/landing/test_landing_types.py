"""Types: what Spark makes of a column becomes what the table has, value by value; spelling is no difference."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

from headrace.spark import LanceSink
from support.lance_tables import create_table
from support.streams import StreamInput, drain, stamps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Each column's type in the table, the expression Spark is given, and the value that must be found.
COLUMNS: dict[str, tuple[pa.DataType, str, Any]] = {
    "whole": (pa.int64(), "id", 1),
    "narrow": (pa.int16(), "id", 1),
    "unsigned": (pa.uint32(), "id", 1),
    "real": (pa.float32(), "cast(1.5 as double)", 1.5),
    "counted": (pa.float64(), "cast(3 as int)", 3.0),
    "price": (pa.decimal128(20, 4), "cast(12.34 as decimal(10, 2))", Decimal("12.3400")),
    "large_price": (pa.decimal128(38, 10), "cast(-0.0000000001 as decimal(38, 10))", Decimal("-1E-10")),
    "text": (pa.string(), "'é'", "é"),
    "large_text": (pa.large_string(), "'é'", "é"),
    "bytes": (pa.binary(), "X'00ff'", b"\x00\xff"),
    "large_bytes": (pa.large_binary(), "X'00ff'", b"\x00\xff"),
    "flag": (pa.bool_(), "true", True),
    "day": (pa.date32(), "date'2024-02-29'", dt.date(2024, 2, 29)),
    "moment": (
        pa.timestamp("us", "UTC"),
        "timestamp'2024-02-29 12:00:00.123456Z'",
        dt.datetime(2024, 2, 29, 12, 0, 0, 123456, dt.UTC),
    ),
    "clock": (
        pa.timestamp("us"),
        "timestamp_ntz'2024-02-29 12:00:00.123456'",
        dt.datetime(2024, 2, 29, 12, 0, 0, 123456),
    ),
    "vector": (pa.list_(pa.float32(), 3), "array(1.0f, 2.0f, 3.0f)", [1.0, 2.0, 3.0]),
    "doubles": (pa.list_(pa.float32(), 2), "array(0.5D, 0.25D)", [0.5, 0.25]),
    "list": (pa.list_(pa.string()), "array('a', null)", ["a", None]),
    "lists": (pa.list_(pa.list_(pa.int32())), "array(array(1), array())", [[1], []]),
    "struct": (
        pa.struct([("y", pa.large_string()), ("x", pa.int64()), ("z", pa.bool_())]),
        "named_struct('x', id, 'y', 'why')",
        {"y": "why", "x": 1, "z": None},
    ),
    "structs": (
        pa.list_(pa.struct([("at", pa.timestamp("us", "UTC")), ("v", pa.list_(pa.float32(), 2))])),
        "array(named_struct('at', timestamp'1970-01-01 00:00:01Z', 'v', array(1f, 2f)))",
        [{"at": dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC), "v": [1.0, 2.0]}],
    ),
    "nothing": (pa.string(), "null", None),
}
NULLS = [f"if(id = 2, null, {expression}) as {name}" for name, (_, expression, _) in COLUMNS.items() if name != "whole"]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "table.lance")
    schema = pa.schema([pa.field(name, kind, nullable=name != "whole") for name, (kind, _, _) in COLUMNS.items()])
    create_table(uri, schema)
    return uri


def blob_of(uri: str, number: int) -> bytes:
    """The blob of the row with an id."""
    table = lance.dataset(uri)
    [row] = table.to_table(columns=["id"], filter=f"id = {number}", with_row_id=True)["_rowid"].to_pylist()
    [blob] = table.take_blobs("blob", ids=[row])
    with blob as file:
        content: bytes = file.read()
    return content


def every_type(ids: DataFrame) -> DataFrame:
    """Columns in another order than the table's; the row whose id is 2 has nulls wherever it may."""
    return ids.selectExpr(*reversed(NULLS), "id as whole")


def require_found(uri: str) -> None:
    first, second = sorted(lance.dataset(uri).to_table().to_pylist(), key=lambda row: row["whole"])
    assert first == {name: value for name, (_, _, value) in COLUMNS.items()}
    assert second == dict.fromkeys(COLUMNS) | {"whole": 2}


def test_every_type_streams(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    """L31, L33: width, order, nullability, zones, vectors, nesting, decimals; with nulls in each."""
    source = StreamInput(tmp_path / "input")
    source.add(1, 2)
    frame = every_type(source.stream(spark))
    drain(frame.writeStream.format("lance").options(path=uri, streamingQueryId="q"), tmp_path / "checkpoint")
    require_found(uri)


@pytest.mark.parametrize("mode", ["append", "complete", "upsert"])
def test_every_type_lands_in_each_mode(spark: SparkSession, uri: str, mode: str) -> None:
    """L31, L33: the same rows through foreachBatch."""
    keys = "whole" if mode == "upsert" else None
    LanceSink(uri, query_id="q", mode=mode, keys=keys)(every_type(spark.range(1, 3)), 0)
    require_found(uri)


def test_a_table_that_is_created_has_vectors_on_request(spark: SparkSession, tmp_path: Path) -> None:
    """L42: in a stream, in a batch that replaces the schema, and with foreachBatch in each mode."""
    source, uris = StreamInput(tmp_path / "input"), [str(tmp_path / f"{number}.lance") for number in range(5)]
    source.add(1, 2)
    frame = "id", "if(id = 1, array(1.5D, id), null) as Vec"
    options = {"columnTypes": '{"Vec": "vector(2, float16)"}'}
    writer = source.stream(spark).selectExpr(*frame).writeStream.format("lance")
    writer = writer.options(path=uris[0], streamingQueryId="q", createTable="true", **options)
    drain(writer, tmp_path / "checkpoint")
    rows = spark.range(1, 3).selectExpr(*frame)
    create_table(uris[1], pa.schema([("id", pa.int64()), ("Vec", pa.list_(pa.float64()))]))
    rows.write.format("lance").options(overwriteSchema="true", **options).mode("overwrite").save(uris[1])
    for uri, mode in zip(uris[2:], ("append", "complete", "upsert"), strict=True):
        types, keys = {"Vec": "vector(2, float16)"}, "id" if mode == "upsert" else None
        LanceSink(uri, query_id="q", mode=mode, keys=keys, create_table=True, column_types=types)(rows, 0)
    for uri in uris:
        found = lance.dataset(uri).to_table()
        assert found.schema.field("Vec").type == pa.list_(pa.float16(), 2)
        assert {row["id"]: row["Vec"] for row in found.to_pylist()} == {1: [1.5, 1.0], 2: None}


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+02:00"])
def test_a_session_of_another_zone_lands_the_same_moments(spark: SparkSession, tmp_path: Path, zone: str) -> None:
    """L31: the zone's spelling is the session's in the rows and the table's in the table."""
    uri = str(tmp_path / "moments.lance")
    create_table(uri, pa.schema([("at", pa.timestamp("us", "UTC"))]))
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        LanceSink(uri, query_id="q")(spark.sql("select timestamp'2024-07-01 00:00:00Z' as at"), 0)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert lance.dataset(uri).to_table()["at"].to_pylist() == [dt.datetime(2024, 7, 1, tzinfo=dt.UTC)]


def test_blobs_stream(spark: SparkSession, tmp_path: Path) -> None:
    """L33: binary columns land in a table whose column is a blob, and are read back as files."""
    uri = str(tmp_path / "blobs.lance")
    metadata = {b"lance-encoding:blob": b"true"}
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("blob", pa.large_binary(), metadata=metadata)])
    create_table(uri, schema)
    source = StreamInput(tmp_path / "input")
    source.add(0, 1)
    frame = source.stream(spark).selectExpr("id", "if(id = 0, encode(repeat('x', 100000), 'UTF-8'), null) as blob")
    drain(frame.writeStream.format("lance").options(path=uri, streamingQueryId="q"), tmp_path / "checkpoint")
    assert (lance.dataset(uri).count_rows(), blob_of(uri, 0)) == (2, b"x" * 100_000)


def test_blobs_of_the_second_kind_stream(spark: SparkSession, tmp_path: Path) -> None:
    """L33: the extension type that Lance has for them since its file format 2.2."""
    uri = str(tmp_path / "blobs.lance")
    schema = pa.schema([pa.field("id", pa.int64()), lance.blob_field("blob")])
    create_table(uri, schema, data_storage_version="2.2")
    frame = spark.range(2).selectExpr("id", "if(id = 0, encode(repeat('x', 100000), 'UTF-8'), null) as blob")
    LanceSink(uri, query_id="q")(frame, 0)
    assert (lance.dataset(uri).count_rows(), blob_of(uri, 0)) == (2, b"x" * 100_000)


def test_a_map_lands(spark: SparkSession, tmp_path: Path) -> None:
    """L33: maps need Lance's file format 2.2, which an option sets for a new table."""
    uri = str(tmp_path / "maps.lance")
    sink = LanceSink(uri, query_id="q", create_table=True, data_storage_version="2.2")
    sink(spark.sql("select map('a', 1, 'b', null) as m"), 0)
    assert lance.dataset(uri).to_table()["m"].to_pylist() == [[("a", 1), ("b", None)]]


def test_metadata_and_nullability_of_the_table_stay(spark: SparkSession, tmp_path: Path) -> None:
    """L31: landing rows changes nothing about the schema."""
    uri = str(tmp_path / "table.lance")
    field = pa.field("id", pa.int64(), nullable=False, metadata={"unit": "piece"})
    schema = pa.schema([field], metadata={"owner": "sales"})
    create_table(uri, schema)
    for epoch, mode in enumerate(("append", "complete")):
        LanceSink(uri, query_id=mode, mode=mode)(spark.range(1), epoch)
        assert lance.dataset(uri).schema.equals(schema, check_metadata=True)
    assert [stamp.operation for stamp in stamps(uri)] == ["Overwrite", "Project", "Append", "Overwrite"]
