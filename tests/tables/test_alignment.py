"""Batches as Spark makes them become batches as the table has them, or an error that names the column."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace import SchemaMismatchError
from headrace.tables.align import Alignment

UTC = dt.UTC
NOON = dt.datetime(2024, 5, 6, 12, tzinfo=UTC)
STRUCT = pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.string())])


def aligned(values: pa.Array, target: pa.DataType | pa.Field) -> pa.Array:
    """A column of a batch as it comes to a table's column of that type."""
    field = target if isinstance(target, pa.Field) else pa.field("c", target)
    table = pa.schema([field])
    batch = pa.record_batch([values], names=[field.name])
    result = Alignment(batch.schema, table).apply(batch)
    result.validate(full=True)
    assert result.schema.equals(table, check_metadata=True)
    return result.column(0)


FITTING: list[tuple[str, pa.Array, pa.DataType]] = [
    ("zone spelling", pa.array([NOON, None], pa.timestamp("us", "Etc/UTC")), pa.timestamp("us", "UTC")),
    ("zone and unit", pa.array([NOON], pa.timestamp("us", "Europe/Berlin")), pa.timestamp("ns", "+00:00")),
    ("local time unit", pa.array([NOON.replace(tzinfo=None)], pa.timestamp("us")), pa.timestamp("ms")),
    ("string width", pa.array(["a", None, "é"], pa.string()), pa.large_string()),
    ("string narrower", pa.array(["a", None], pa.large_string()), pa.string()),
    ("string view", pa.array(["a long enough text", None], pa.string_view()), pa.string()),
    ("binary width", pa.array([b"a", None], pa.binary()), pa.large_binary()),
    ("binary of one size", pa.array([b"ab", None], pa.binary()), pa.binary(2)),
    ("int wider", pa.array([1, None], pa.int32()), pa.int64()),
    ("int narrower", pa.array([127, -128, None], pa.int64()), pa.int8()),
    ("int unsigned", pa.array([0, 255], pa.int64()), pa.uint8()),
    ("int to float", pa.array([1, None], pa.int64()), pa.float64()),
    ("float wider", pa.array([1.5, None], pa.float32()), pa.float64()),
    ("int to decimal", pa.array([1, None], pa.int32()), pa.decimal128(12, 2)),
    ("decimal scale", pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)), pa.decimal128(20, 4)),
    ("decimal narrower", pa.array([Decimal("1.50")], pa.decimal128(38, 2)), pa.decimal128(5, 2)),
    ("date", pa.array([dt.date(2024, 1, 2), None], pa.date32()), pa.date64()),
    ("time", pa.array([dt.time(1, 2), None], pa.time64("us")), pa.time32("s")),
    ("duration", pa.array([dt.timedelta(seconds=3), None], pa.duration("us")), pa.duration("s")),
    ("nulls", pa.nulls(3), pa.string()),
    ("nulls to struct", pa.nulls(2), STRUCT),
    ("nulls to vector", pa.nulls(2), pa.list_(pa.float32(), 3)),
    ("list width", pa.array([[1], None, [], [2, None]], pa.list_(pa.int64())), pa.large_list(pa.int64())),
    ("list narrower", pa.array([[1], None, []], pa.large_list(pa.int64())), pa.list_(pa.int32())),
    ("list of strings", pa.array([["a"], None], pa.list_(pa.string())), pa.list_(pa.large_string())),
    ("vector", pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32())), pa.list_(pa.float32(), 2)),
    ("vector of doubles", pa.array([[1.0, 2.0]], pa.list_(pa.float64())), pa.list_(pa.float32(), 2)),
    ("null vectors", pa.array([None, [1.0, 2.0], None], pa.list_(pa.float32())), pa.list_(pa.float32(), 2)),
    ("only null vectors", pa.array([None, None], pa.list_(pa.float32())), pa.list_(pa.float32(), 2)),
    ("vector with null inside", pa.array([[1.0, None]], pa.list_(pa.float32())), pa.list_(pa.float32(), 2)),
    ("fixed vectors", pa.array([[1.0, 2.0], None], pa.list_(pa.float64(), 2)), pa.list_(pa.float32(), 2)),
    ("vector to list", pa.array([[1, 2], None], pa.list_(pa.int32(), 2)), pa.list_(pa.int64())),
    ("vectors in lists", pa.array([[[1.0, 2.0]], None, []], pa.list_(pa.list_(pa.float32()))),
     pa.list_(pa.list_(pa.float32(), 2))),
    ("map", pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())), pa.map_(pa.string(), pa.int64())),
    ("dictionary to plain", pa.array(["a", "b", None, "a"]).dictionary_encode(), pa.string()),
    ("plain to dictionary", pa.array(["a", None, "a"]), pa.dictionary(pa.int32(), pa.string())),
    ("bool", pa.array([True, None]), pa.bool_()),
]  # fmt: skip


@pytest.mark.parametrize(("values", "target"), [each[1:] for each in FITTING], ids=[each[0] for each in FITTING])
@pytest.mark.parametrize("cut", ["whole", "sliced", "empty"])
def test_what_differs_in_spelling_or_width_only_is_made_equal(values: pa.Array, target: pa.DataType, cut: str) -> None:
    """L31, L33: with the same values, of a slice of something larger too, and of no row at all."""
    expected = values.to_pylist()
    if cut == "sliced":
        values = pa.concat_arrays([values, values, values]).slice(len(values), len(values))
    elif cut == "empty":
        values, expected = values.slice(0, 0), []
    assert plain(aligned(values, target).to_pylist()) == plain(expected)


def plain(value: Any) -> Any:
    """Values without what does not count: the name of a zone, the class of a number."""
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, dt.datetime) and value.tzinfo:
        return value.astimezone(UTC).replace(tzinfo=UTC)
    return value


UNFITTING: list[tuple[str, pa.Array, pa.DataType, str]] = [
    ("text to number", pa.array(["1"]), pa.int64(), "'c' is string in the rows and int64"),
    ("number to text", pa.array([1]), pa.string(), "'c' is int64 .* string"),
    ("zoned to local", pa.array([NOON], pa.timestamp("us", "UTC")), pa.timestamp("us"), "'c'"),
    ("local to zoned", pa.array([NOON.replace(tzinfo=None)], pa.timestamp("us")), pa.timestamp("us", "UTC"), "'c'"),
    ("date to time", pa.array([dt.date(2024, 1, 1)]), pa.timestamp("us"), "'c'"),
    ("float to int", pa.array([1.0]), pa.int64(), "'c'"),
    ("text to bytes", pa.array(["a"]), pa.binary(), "'c'"),
    ("bytes to text", pa.array([b"a"]), pa.string(), "'c'"),
    ("bool to int", pa.array([True]), pa.int8(), "'c'"),
    ("struct to text", pa.array([{"a": 1, "b": "x"}], STRUCT), pa.string(), "'c'"),
    ("list to struct", pa.array([[1]]), STRUCT, "'c'"),
    ("list of text", pa.array([["a"]]), pa.list_(pa.int32()), "'c.item'"),
    ("vector size", pa.array([[1.0]], pa.list_(pa.float32(), 1)), pa.list_(pa.float32(), 2), "'c'"),
    ("map value", pa.array([[("k", "v")]], pa.map_(pa.string(), pa.string())), pa.map_(pa.string(), pa.int64()),
     "'c.value'"),
    ("dictionary of numbers", pa.array([1]).dictionary_encode(), pa.string(), "'c'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "target", "said"), [each[1:] for each in UNFITTING], ids=[each[0] for each in UNFITTING]
)
def test_what_can_never_fit_is_refused_before_any_row(values: pa.Array, target: pa.DataType, said: str) -> None:
    """L31: naming the column, and what to do."""
    rows, table = pa.schema([pa.field("c", values.type)]), pa.schema([pa.field("c", target)])
    with pytest.raises(SchemaMismatchError, match=said):
        Alignment(rows, table)


TOO_MUCH: list[tuple[str, pa.Array, pa.DataType]] = [
    ("int", pa.array([1, 128], pa.int64()), pa.int8()),
    ("negative", pa.array([-1], pa.int64()), pa.uint8()),
    ("decimal", pa.array([Decimal("1234.50")], pa.decimal128(10, 2)), pa.decimal128(5, 2)),
    ("decimal places", pa.array([Decimal("1.55")], pa.decimal128(10, 2)), pa.decimal128(10, 1)),
    ("large int", pa.array([2**60 + 1], pa.int64()), pa.float64()),
    ("microseconds", pa.array([NOON + dt.timedelta(microseconds=1)], pa.timestamp("us", "UTC")),
     pa.timestamp("ms", "UTC")),
    ("year", pa.array([dt.datetime(1, 1, 1)], pa.timestamp("us")), pa.timestamp("ns")),
    ("short list", pa.array([[1.0, 2.0], [1.0]]), pa.list_(pa.float64(), 2)),
    ("long list", pa.array([None, [1.0, 2.0, 3.0]]), pa.list_(pa.float64(), 2)),
    ("empty list", pa.array([[]], pa.list_(pa.float64())), pa.list_(pa.float64(), 2)),
    ("list item", pa.array([[1], [300]]), pa.list_(pa.uint8())),
    ("bytes", pa.array([b"abc"]), pa.binary(2)),
    ("fraction of a second", pa.array([dt.timedelta(milliseconds=1)], pa.duration("us")), pa.duration("s")),
]  # fmt: skip


@pytest.mark.parametrize(("values", "target"), [each[1:] for each in TOO_MUCH], ids=[each[0] for each in TOO_MUCH])
def test_a_value_that_does_not_survive_is_refused(values: pa.Array, target: pa.DataType) -> None:
    """L31: never cut off, wrapped round or rounded."""
    with pytest.raises(SchemaMismatchError, match="'c"):
        aligned(values, target)


def test_a_float_that_would_overflow_or_round_is_still_a_float() -> None:
    """L31: from wide to narrow floats, precision is what the table's type says."""
    assert aligned(pa.array([1.5, None]), pa.float32()).to_pylist() == [1.5, None]


def test_columns_go_by_name_in_any_order() -> None:
    """L31"""
    table = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.bool_())])
    batch = pa.record_batch({"c": [True], "a": [1], "b": ["x"]})
    assert Alignment(batch.schema, table).apply(batch).to_pydict() == {"a": [1], "b": ["x"], "c": [True]}


def test_a_missing_column_that_may_be_null_is_filled() -> None:
    """L32: of every kind."""
    kinds = [pa.int64(), pa.string(), STRUCT, pa.list_(pa.float32(), 3), pa.map_(pa.string(), pa.int64())]
    table = pa.schema([pa.field("id", pa.int64()), *(pa.field(f"c{i}", kind) for i, kind in enumerate(kinds))])
    batch = pa.record_batch({"id": [1, 2]})
    filled = Alignment(batch.schema, table).apply(batch)
    filled.validate(full=True)
    assert all(filled.column(index + 1).null_count == 2 for index in range(len(kinds)))


def test_a_missing_column_is_refused_if_it_may_not_be_null_or_would_erase_values() -> None:
    """L32, L11"""
    rows = pa.schema([("id", pa.int64())])
    with pytest.raises(SchemaMismatchError, match=r"'b'.*may not be null"):
        Alignment(rows, pa.schema([("id", pa.int64()), pa.field("b", pa.string(), nullable=False)]))
    with pytest.raises(SchemaMismatchError, match=r"'b'.*erase"):
        Alignment(rows, pa.schema([("id", pa.int64()), ("b", pa.string())]), fills=False)


def test_a_column_the_table_does_not_have_is_refused() -> None:
    """L32: with the option that would add it."""
    with pytest.raises(SchemaMismatchError, match=r"'new'.*mergeSchema=true"):
        Alignment(pa.schema([("id", pa.int64()), ("new", pa.int64())]), pa.schema([("id", pa.int64())]))


def test_two_columns_of_one_name_are_refused() -> None:
    """L31"""
    with pytest.raises(SchemaMismatchError, match="two columns named 'a'"):
        Alignment(pa.schema([("a", pa.int64()), ("a", pa.int64())]), pa.schema([("a", pa.int64())]))


def test_nulls_are_refused_where_the_table_has_none() -> None:
    """L31: Spark calls everything nullable; only real nulls matter."""
    strict = pa.field("c", pa.int64(), nullable=False)
    assert aligned(pa.array([1, 2]), strict).to_pylist() == [1, 2]
    for values in (pa.array([1, None]), pa.nulls(1)):
        with pytest.raises(SchemaMismatchError, match="'c' holds nulls"):
            aligned(values, strict)


def _strict(inner: str) -> pa.Field:
    """A column in which something nested may not be null."""
    value = pa.field("x", pa.int64(), nullable=False)
    kinds = {
        "struct": pa.struct([value]),
        "struct in struct": pa.struct([pa.field("s", pa.struct([value]))]),
        "list": pa.list_(pa.field("item", pa.int64(), nullable=False)),
        "struct in list": pa.list_(pa.field("item", pa.struct([value]))),
        "vector": pa.list_(pa.field("item", pa.int64(), nullable=False), 1),
        "map value": pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)),
    }
    return pa.field("c", kinds[inner])


NESTED: dict[str, tuple[Any, Any]] = {
    "struct": ([{"x": 1}, None], [{"x": None}]),
    "struct in struct": ([{"s": {"x": 1}}, {"s": None}, None], [{"s": {"x": None}}]),
    "list": ([[1], None, []], [[None]]),
    "struct in list": ([[{"x": 1}, None], None], [[{"x": None}]]),
    "vector": ([[1], None], [[None]]),
    "map value": ([[("k", 1)], None], [[("k", None)]]),
}


def _nullable(kind: pa.DataType) -> pa.DataType:
    """The same type as Spark has it: everything inside may be null."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _nullable(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, pa.field("value", _nullable(kind.item_type)))
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(pa.field("item", _nullable(kind.value_type)))
    return kind


@pytest.mark.parametrize("inner", NESTED)
def test_nulls_inside_are_refused_where_the_table_has_none(inner: str) -> None:
    """L31: nullability counts at every depth; below a null, nothing is looked at."""
    field, (good, bad) = _strict(inner), NESTED[inner]
    kind = _nullable(field.type)
    assert plain(aligned(pa.array(good, kind), field).to_pylist()) == plain(good)
    with pytest.raises(SchemaMismatchError, match=r"'c.*null"):
        aligned(pa.array(bad, kind), field)


def test_structs_are_reordered_and_filled_by_name() -> None:
    """L31, L32: at every depth, with nulls where they were."""
    inner = pa.struct([("b", pa.string()), ("a", pa.int32())])
    values = pa.array([{"b": "x", "a": 1}, None, {"b": None, "a": 2}], inner)
    target = pa.struct([("a", pa.int64()), ("b", pa.large_string()), ("new", STRUCT)])
    expected = [{"a": 1, "b": "x", "new": None}, None, {"a": 2, "b": None, "new": None}]
    assert aligned(values, target).to_pylist() == expected
    listed = pa.array([[{"b": "x", "a": 1}], None], pa.list_(inner))
    assert aligned(listed, pa.list_(target)).to_pylist() == [[expected[0]], None]
    middle = pa.concat_arrays([values, values]).slice(2, 3)
    assert aligned(middle, target).to_pylist() == [expected[2], expected[0], None]


def test_struct_fields_that_are_new_or_required_are_refused_by_path() -> None:
    """L31, L32"""
    extra = pa.array([{"a": 1, "b": "x", "new": 1}])
    with pytest.raises(SchemaMismatchError, match="'new' of column 'c'"):
        aligned(extra, STRUCT)
    required = pa.struct([pa.field("a", pa.int64()), pa.field("z", pa.int64(), nullable=False)])
    with pytest.raises(SchemaMismatchError, match="'z' of column 'c'"):
        aligned(pa.array([{"a": 1}]), required)
    with pytest.raises(SchemaMismatchError, match=r"'c\.b'"):
        aligned(pa.array([{"a": 1, "b": 5}]), STRUCT)


def test_the_tables_metadata_is_kept_and_the_rows_is_not() -> None:
    """L31"""
    table = pa.schema([pa.field("c", pa.int64(), metadata={"k": "v"})], metadata={"t": "1"})
    batch = pa.record_batch([pa.array([1])], schema=pa.schema([("c", pa.int64())], metadata={"other": "2"}))
    result = Alignment(batch.schema, table).apply(batch)
    assert result.schema.equals(table, check_metadata=True)


def test_extension_types_go_by_their_storage() -> None:
    """L33"""
    uuids = [b"0123456789abcdef", None]
    assert aligned(pa.array(uuids, pa.binary(16)), pa.uuid()).storage.to_pylist() == uuids
    extended = pa.ExtensionArray.from_storage(pa.uuid(), pa.array(uuids, pa.binary(16)))
    assert aligned(extended, pa.binary(16)).to_pylist() == uuids
    with pytest.raises(SchemaMismatchError, match="'c'"):
        aligned(pa.array([1]), pa.uuid())


def test_list_views_are_refused_with_what_to_do() -> None:
    """L31: Spark makes none."""
    with pytest.raises(SchemaMismatchError, match=r"'c' is list_view.*cast it"):
        aligned(pa.array([[1], None], pa.list_view(pa.int64())), pa.list_(pa.int64()))
