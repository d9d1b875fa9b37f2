"""Rows of every type go through a task's files into a real table and come out the same."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from headrace.tables.commit.ledger import QueryRun
from headrace.tables.commit.message import TaskMessage
from headrace.tables.commit.payload import AppendPayload, OverwritePayload
from headrace.tables.commit.protocol import EpochCommitter
from headrace.tables.lance_store import LanceStore
from headrace.tables.location import Location
from headrace.tables.settings import Rules
from headrace.tables.write.data_files import Task, write_rows
from support.lance_tables import create_table

NOON = dt.datetime(2024, 5, 6, 12, tzinfo=dt.UTC)
STRUCT = pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.list_(pa.string()))])

# A name, the rows as Spark has them, and the table's type.
TYPES: list[tuple[str, pa.Array, pa.DataType]] = [
    ("bool", pa.array([True, None]), pa.bool_()),
    ("int8", pa.array([1, None], pa.int8()), pa.int8()),
    ("int narrowed", pa.array([1, None], pa.int64()), pa.int16()),
    ("float", pa.array([1.5, None], pa.float32()), pa.float32()),
    ("double", pa.array([1.5, None]), pa.float64()),
    ("decimal", pa.array([Decimal("12.34"), None], pa.decimal128(10, 2)), pa.decimal128(38, 4)),
    ("date", pa.array([dt.date(2024, 1, 2), None]), pa.date32()),
    ("timestamp", pa.array([NOON, None], pa.timestamp("us", "Europe/Berlin")), pa.timestamp("us", "UTC")),
    ("local timestamp", pa.array([NOON.replace(tzinfo=None), None], pa.timestamp("us")), pa.timestamp("us")),
    ("duration", pa.array([dt.timedelta(1), None], pa.duration("us")), pa.duration("us")),
    ("string", pa.array(["é", None], pa.string()), pa.large_string()),
    ("binary", pa.array([b"\x00", None], pa.binary()), pa.large_binary()),
    ("struct", pa.array([{"b": ["x"], "a": 1}, None], pa.struct([STRUCT.field(1), STRUCT.field(0)])), STRUCT),
    ("list", pa.array([[1, None], None, []], pa.list_(pa.int32())), pa.list_(pa.int64())),
    ("list of structs", pa.array([[{"a": 1, "b": None}], None], pa.list_(STRUCT)), pa.list_(STRUCT)),
    ("vector", pa.array([[1.0, 2.0], None], pa.list_(pa.float64())), pa.list_(pa.float32(), 2)),
    ("half vector", pa.array([[1.0, 2.0]], pa.list_(pa.float32())), pa.list_(pa.float16(), 2)),
    ("only nulls", pa.nulls(2), pa.list_(pa.float32(), 2)),
    ("dictionary", pa.array(["a", "b", "a", None]), pa.dictionary(pa.int32(), pa.string())),
]


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Location]:
    def make_table(schema: pa.Schema, **arguments: Any) -> Location:
        create_table(tmp_path / "table.lance", schema, **arguments)
        return Location(str(tmp_path / "table.lance"))

    return make_table


def land(location: Location, epoch: int, message: TaskMessage, *, replacing: bool = False) -> lance.LanceDataset:
    payload = OverwritePayload([message]) if replacing else AppendPayload([message])
    EpochCommitter(LanceStore(location), Rules(f"query {epoch}"), QueryRun("run")).commit(epoch, payload)
    return lance.dataset(location.uri)


@pytest.mark.parametrize(("values", "kind"), [each[1:] for each in TYPES], ids=[each[0] for each in TYPES])
def test_every_type_lands(make: Callable[..., Location], values: pa.Array, kind: pa.DataType) -> None:
    """L31, L33: appended, and as a whole result; the message goes through text, as between machines."""
    location = make(pa.schema([pa.field("c", kind), pa.field("missing", pa.int64())]))
    batches = [pa.record_batch([part], names=["c"]) for part in (values, values.slice(1), values.slice(0, 0))]
    expected = plain(values.to_pylist() + values.slice(1).to_pylist())
    for epoch, replacing in enumerate((False, True)):
        message = TaskMessage.from_json(write_rows(batches, location, Task(0), replacing=replacing).to_json())
        table = land(location, epoch, message, replacing=replacing).to_table()
        assert plain(table["c"].to_pylist()) == expected
        assert table["missing"].null_count == len(expected)
        assert table.schema.field("c").type == kind


def plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {name: plain(value[name]) for name in sorted(value)}
    return value.astimezone(dt.UTC).replace(tzinfo=dt.UTC) if getattr(value, "tzinfo", None) else value


def test_maps_land_where_the_file_format_has_them(make: Callable[..., Location]) -> None:
    """L33"""
    location = make(pa.schema([pa.field("c", pa.map_(pa.string(), pa.int64()))]), data_storage_version="2.2")
    values = pa.array([[("k", 1), ("l", None)], None, []], pa.map_(pa.string(), pa.int32()))
    dataset = land(location, 0, write_rows([pa.record_batch([values], names=["c"])], location, Task(0)))
    assert dataset.to_table()["c"].to_pylist() == values.to_pylist()


def test_blobs_of_the_first_kind_land(make: Callable[..., Location]) -> None:
    """L33: large binaries that are marked by their metadata."""
    field = pa.field("c", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    location = make(pa.schema([pa.field("id", pa.int64()), field]))
    batch = pa.record_batch({"id": [1, 2], "c": [b"x" * 1000, b""]})
    dataset = land(location, 0, write_rows([batch], location, Task(0)))
    assert [blob.readall() for blob in dataset.take_blobs("c", indices=[0, 1])] == [b"x" * 1000, b""]


def test_blobs_of_the_second_kind_land(make: Callable[..., Location]) -> None:
    """L33: from plain binaries, nulls included."""
    location = make(pa.schema([pa.field("id", pa.int64()), lance.blob_field("c")]), data_storage_version="2.2")
    batch = pa.record_batch({"id": [1, 2, 3], "c": pa.array([b"x" * 1000, b"small", None], pa.binary())})
    dataset = land(location, 0, write_rows([batch], location, Task(0)))
    assert dataset.count_rows() == 3
    found = [blob.readall() for blob in dataset.take_blobs("c", indices=[0, 1])]
    assert found == [b"x" * 1000, b"small"]


def test_large_blobs_are_not_lost_with_their_own_files(make: Callable[..., Location]) -> None:
    """L33: what is too large for the data file is put beside it, and lands with it."""
    location = make(pa.schema([pa.field("id", pa.int64()), lance.blob_field("c")]), data_storage_version="2.2")
    content = [bytes([number]) * 5_000_000 for number in range(2)]
    batch = pa.record_batch({"id": [1, 2], "c": pa.array(content, pa.binary())})
    dataset = land(location, 0, write_rows([batch], location, Task(0)))
    assert [blob.readall() for blob in dataset.take_blobs("c", indices=[0, 1])] == content


def test_extension_types_land(make: Callable[..., Location]) -> None:
    """L33"""
    location = make(pa.schema([pa.field("c", pa.uuid())]))
    values = pa.array([b"0123456789abcdef", None], pa.binary(16))
    dataset = land(location, 0, write_rows([pa.record_batch([values], names=["c"])], location, Task(0)))
    assert dataset.to_table()["c"].combine_chunks().storage.to_pylist() == values.to_pylist()


def test_a_column_that_may_not_be_null_lands(make: Callable[..., Location]) -> None:
    """L31: though Spark calls it nullable."""
    location = make(pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())]))
    dataset = land(location, 0, write_rows([pa.record_batch({"id": [1, 2]})], location, Task(0)))
    assert dataset.to_table().to_pydict() == {"id": [1, 2], "v": [None, None]}
