"""Batches passed to the engine and returned by it: copied only if necessary, and never cast."""

import pyarrow as pa
import pytest

from headrace import EngineError
from headrace.arrow.layout import importable, relabelled

INNER = pa.struct([("b", pa.int64())])
FRAGILE = {
    "a struct in a struct": pa.array([{"a": {"b": n}} for n in range(9)], pa.struct([("a", INNER)])),
    "structs in a fixed-size list": pa.array([[{"b": n}, None] for n in range(9)], pa.list_(INNER, 2)),
    "both in a list": pa.array([[{"a": {"b": n}}] for n in range(9)], pa.list_(pa.struct([("a", INNER)]))),
}


@pytest.mark.parametrize("kind", FRAGILE)
def test_a_nested_slice_is_copied_and_a_whole_batch_is_not(kind):
    """T13: the engine's importer fails on an offset in these types."""
    whole = pa.record_batch({"s": FRAGILE[kind], "x": pa.array(range(9))})
    assert importable(whole) is whole
    part = whole.slice(2, 5)
    copied = importable(part)
    assert copied.equals(part)
    assert copied.column(0).offset == 0
    assert copied.column(1).offset == part.column(1).offset


def test_a_child_array_with_an_offset_is_copied():
    """T13: the outer array alone does not show the offset."""
    child = FRAGILE["a struct in a struct"].slice(3)
    batch = pa.record_batch({"s": pa.StructArray.from_arrays([child], names=["c"])})
    assert importable(batch) is not batch
    assert importable(batch).equals(batch)


def field(kind, *, nullable=True, name="c"):
    return pa.field(name, kind, nullable=nullable)


LIST = pa.list_(pa.field("item", pa.int64()))
OTHER_LIST = pa.list_(pa.field("element", pa.int64(), nullable=False))


@pytest.mark.parametrize(
    ("rows", "given", "planned"),
    [
        ([1, 2], field(pa.int64(), nullable=False), field(pa.int64())),
        ([1, 2], field(pa.int64(), name="x"), field(pa.int64(), nullable=False)),
        ([[1], [2]], field(LIST), field(OTHER_LIST)),
        ([{"a": None}], field(pa.struct([("a", pa.null())])), field(pa.struct([pa.field("z", pa.null())]))),
        ([[("a", 1)]], field(pa.map_(pa.string(), pa.int64())), field(pa.map_(pa.string(), pa.int64()))),
    ],
)
def test_relabelling_changes_labels_without_a_cast(rows, given, planned):
    """S1: names, nullability and metadata, also inside nested types; the buffers stay the same."""
    batch = pa.record_batch([pa.array(rows, given.type)], schema=pa.schema([given]))
    schema = pa.schema([planned.with_metadata({"unit": "K"})], {"made": "here"})
    result = relabelled(batch, schema)
    assert result.schema.equals(schema, check_metadata=True)
    assert [list(row.values()) if isinstance(row, dict) else row for row in result.column(0).to_pylist()] == [
        list(row.values()) if isinstance(row, dict) else row for row in rows
    ]
    addresses = [
        [buffer.address for buffer in each.column(0).buffers() if buffer is not None] for each in (batch, result)
    ]
    assert addresses[0] == addresses[1]


@pytest.mark.parametrize(
    ("kind", "planned"),
    [
        (pa.int64(), pa.int32()),
        (pa.string(), pa.string_view()),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.list_(pa.int64(), 2), pa.list_(pa.int64(), 1)),
        (pa.struct([("a", pa.int64())]), pa.struct([("a", pa.int64()), ("b", pa.int64())])),
        (pa.decimal128(5, 2), pa.decimal128(5, 3)),
    ],
    ids=str,
)
def test_relabelling_to_another_type_raises_and_does_not_cast(kind, planned):
    """S1, S10: no value may change between the engine and the reader."""
    batch = pa.record_batch({"c": pa.nulls(2, kind)})
    with pytest.raises(EngineError, match="planned column 'c' as"):
        relabelled(batch, pa.schema([("c", planned)]))


def test_nulls_in_a_column_planned_as_not_null_raise():
    """S1, S10: a result's schema is true."""
    batch = pa.record_batch({"c": pa.array([1, None])})
    with pytest.raises(EngineError, match="not null and produced nulls"):
        relabelled(batch, pa.schema([field(pa.int64(), nullable=False)]))
