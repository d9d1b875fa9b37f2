"""Types of columns that a sink creates and Spark does not have: vectors."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from headrace import ConfigurationError, SchemaMismatchError
from headrace.pipeline.spelling import PipelineSpelling
from headrace.spark.options import batch, streaming
from headrace.tables.commit.ledger import QueryRun
from headrace.tables.commit.payload import AppendPayload
from headrace.tables.location import Location
from headrace.tables.settings import SinkSettings, Vector
from headrace.tables.sink import EpochSink
from headrace.tables.sink_settings import stream_settings
from headrace.tables.spelling import PythonSpelling
from headrace.tables.write.data_files import Task, write_rows
from support.lance_tables import create_table

ROWS = pa.schema([("id", pa.int64()), ("v", pa.list_(pa.float64())), ("w", pa.list_(pa.int32()))])
ELEMENTS = {
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "int8": pa.int8(),
    "uint8": pa.uint8(),
}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "table.lance")


def settings(uri: str, types: dict[str, Any], **more: Any) -> SinkSettings:
    given = {"uri": uri, "query_id": "q", "create_table": True, "column_types": types}
    return stream_settings(given | more, PythonSpelling())


def prepare(uri: str, types: dict[str, Any], rows: pa.Schema = ROWS, **more: Any) -> pa.Schema:
    return EpochSink(settings(uri, types, **more)).prepare(rows).schema


@pytest.mark.parametrize("element", ELEMENTS)
def test_a_new_table_has_the_vectors_and_the_other_columns_of_the_rows(uri: str, element: str) -> None:
    """L42, L33: with each type of elements that Lance can search, and int8; values are converted exactly."""
    column = "v" if element.startswith("float") else "w"
    sink = EpochSink(settings(uri, {column: f" Vector( 3 ,{element} ) "}))
    kind = pa.list_(ELEMENTS[element], 3)
    assert sink.prepare(ROWS).schema == ROWS.set(ROWS.get_field_index(column), pa.field(column, kind))
    batch = pa.record_batch({"id": [1, 2], "v": [[1, 2, 3], None], "w": [[4, 5, 6], None]}, schema=ROWS)
    run = QueryRun("run")
    sink.land(0, run, AppendPayload([write_rows([batch], Location(uri), Task(0, run, 0))]))
    assert lance.dataset(uri).to_table().to_pylist() == batch.to_pylist()


def test_elements_are_float32_if_the_type_does_not_say(uri: str) -> None:
    """L42"""
    assert prepare(uri, {"v": "vector(128)"}).field("v").type == pa.list_(pa.float32(), 128)
    assert settings(uri, {"v": "vector(2)"}) == settings(uri, {"v": "vector(2, float32)"})


def test_a_column_that_is_added_to_a_table_has_its_type(uri: str) -> None:
    """L42, L32: as in a new table, so that the next start accepts it."""
    create_table(uri, pa.schema([("id", pa.int64())]))
    for _ in range(2):
        schema = prepare(uri, {"v": "vector(2)"}, create_table=False, merge_schema=True)
        assert schema.field("v").type == pa.list_(pa.float32(), 2)
        assert schema.field("w").type == ROWS.field("w").type


def test_a_table_that_exists_keeps_its_types(uri: str) -> None:
    """L42: the same vectors are accepted, however their elements are named; others are an error."""
    create_table(uri, ROWS.set(1, pa.field("v", pa.list_(pa.field("element", pa.float32(), nullable=False), 2))))
    before = lance.dataset(uri).version
    prepare(uri, {"v": "vector(2)"})
    for column, wrong in (("v", "vector(3)"), ("v", "vector(2, float16)"), ("w", "vector(2, int8)")):
        with pytest.raises(SchemaMismatchError, match=rf"'{column}' is .*list.* in the table, and column_types says"):
            prepare(uri, {column: wrong})
    assert lance.dataset(uri).version == before


@pytest.mark.parametrize(
    ("types", "rows", "said"),
    [
        ({"x": "vector(2)"}, ROWS, "column_types gives column 'x' a type, and the rows do not have it: .* id, v, w"),
        ({"id": "vector(2)"}, ROWS, "Column 'id' is int64 in the rows and fixed_size_list"),
        ({"v": "vector(2)"}, ROWS.set(1, pa.field("v", pa.list_(pa.string()))), "Column 'v.item' is string"),
        ({"v": "vector(2, int8)"}, ROWS, "Column 'v.item' is double in the rows and int8"),
    ],
)
def test_rows_that_cannot_have_the_type_are_an_error_before_anything_is_created(
    uri: str, types: dict[str, str], rows: pa.Schema, said: str
) -> None:
    """L42"""
    with pytest.raises(SchemaMismatchError, match=said):
        prepare(uri, types, rows)
    assert not Path(uri).exists()


def test_a_list_of_another_length_is_refused_by_the_name_of_its_column(uri: str) -> None:
    """L42, L31: before the commit."""
    prepare(uri, {"v": "vector(2)"})
    rows = pa.record_batch({"id": [1], "v": [[1, 2, 3]], "w": [None]}, schema=ROWS)
    with pytest.raises(SchemaMismatchError, match=r"Column 'v' holds a list of 3 values; the table's vectors have 2"):
        write_rows([rows], Location(uri), Task(0))


@pytest.mark.parametrize(
    "wrong", ["vector", "vector()", "vector(0)", "vector(-1)", "vector(1000001)", "vector(2, text)", "float", 2, None]
)
def test_what_is_no_vector_is_refused_by_name(uri: str, wrong: object) -> None:
    """L42: with what a type can be."""
    with pytest.raises(ConfigurationError) as caught:
        settings(uri, {"v": wrong})
    assert f'column_types["v"] is {wrong!r}; it must be vector(SIZE) or vector(SIZE, ELEMENT)' in str(caught.value)


def test_types_need_a_sink_that_creates_columns(uri: str) -> None:
    """L42: they would do nothing."""
    with pytest.raises(ConfigurationError, match=r"this sink creates none\. Hint: set create_table=True, or leave"):
        settings(uri, {"v": "vector(2)"}, create_table=False)
    assert settings(uri, {}, create_table=False).column_types == ()


def test_types_are_an_option_of_spark_too(uri: str) -> None:
    """L42: as JSON, because Spark changes the case of option names."""
    options = {"path": uri, "streamingQueryId": "q", "columnTypes": '{"Vec": "vector(2)"}'}
    found = streaming(options | {"createTable": "true"})
    assert found.column_types == (("Vec", Vector(2)),)
    assert hash(pickle.loads(pickle.dumps(found))) == hash(found)
    assert batch({"path": uri, "columnTypes": '{"Vec": "vector(2)"}'}).column_types == found.column_types
    for wrong in ("vec vector(2)", "[]", "7"):
        with pytest.raises(ConfigurationError, match=r"columnTypes is .*; it must be a JSON object.*as in \{"):
            streaming(options | {"columnTypes": wrong})
    with pytest.raises(ConfigurationError, match=r'columnTypes\["Vec"\] is .vector\(x\).; it must be'):
        streaming(options | {"columnTypes": '{"Vec": "vector(x)"}'})
    with pytest.raises(ConfigurationError, match=r"set createTable=true, or leave columnTypes out"):
        streaming(options)


def test_a_key_of_a_pipeline_file_is_named_with_its_section(uri: str) -> None:
    """L42, C22"""
    with pytest.raises(ConfigurationError, match=r"^at table.columns.v: table.columns.v is 'x'; it must be"):
        stream_settings(
            {"uri": uri, "query_id": "q", "column_types": {"v": "x"}}, PipelineSpelling(lambda key: f"at {key}: ")
        )
