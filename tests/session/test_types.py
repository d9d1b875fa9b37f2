"""Every Arrow type goes in and comes out as itself, pulled and pushed, metadata and nullability included."""

from decimal import Decimal

import pyarrow as pa
import pytest
from providers import scanning

import headrace
from headrace import SessionContext, TableProvider

NAN = float("nan")
DAY_MS = 86_400_000


def dictionary(values, index_type=None, value_type=None, ordered=False):
    index_type, known = index_type or pa.int32(), list(dict.fromkeys(v for v in values if v is not None))
    indices = pa.array([None if v is None else known.index(v) for v in values], index_type)
    return pa.DictionaryArray.from_arrays(indices, pa.array(known, value_type), ordered=ordered)


def vectors(value_type, nullable=True):
    return pa.list_(pa.field("item", value_type, nullable=nullable), 3)


VECTORS = vectors(pa.float32())
ARRAYS = {
    **{str(t): pa.array([1, None, 100], t) for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{str(t): pa.array([1, None, 200], t) for t in (pa.uint8(), pa.uint16(), pa.uint32())},
    "uint64": pa.array([1, None, 2**64 - 1], pa.uint64()),
    **{str(t): pa.array([-0.0, None, NAN], t) for t in (pa.float16(), pa.float32(), pa.float64())},
    "bool": pa.array([True, None, False]),
    "null": pa.nulls(3),
    **{str(t): pa.array(["", None, "é" * 40], t) for t in (pa.string(), pa.large_string(), pa.string_view())},
    **{str(t): pa.array([b"", None, b"\x00" * 40], t) for t in (pa.binary(), pa.large_binary(), pa.binary_view())},
    "fixed_size_binary": pa.array([b"aa", None, b"\xff\x00"], pa.binary(2)),
    **{
        str(t): pa.array([Decimal("1.5"), None, Decimal("-99.9")], t)
        for t in (pa.decimal32(5, 1), pa.decimal64(15, 2), pa.decimal128(38, 10), pa.decimal256(76, 10))
    },
    "decimal128(5, -2)": pa.array([Decimal(100), None, Decimal(-200)], pa.decimal128(5, -2)),
    **{
        str(t): pa.array([-1, None, 10**9], t)
        for unit in ("s", "ms", "us", "ns")
        for t in (
            pa.timestamp(unit),
            pa.timestamp(unit, "UTC"),
            pa.timestamp(unit, "Etc/UTC"),
            pa.timestamp(unit, "+05:30"),
            pa.timestamp(unit, "America/New_York"),
            pa.duration(unit),
        )
    },
    **{
        str(t): pa.array([0, None, 86_399], t)
        for t in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
    },
    "date32": pa.array([-1, None, 20_000], pa.date32()),
    "date64": pa.array([-DAY_MS, None, 20_000 * DAY_MS], pa.date64()),
    "month_day_nano_interval": pa.array([(1, 2, 3), None, (-4, 5, 6)], pa.month_day_nano_interval()),
    "dictionary": dictionary(["a", None, "b"]),
    "dictionary<int8>": dictionary(["a", None, "b"], pa.int8()),
    "dictionary<uint64>": dictionary(["a", None, "b"], pa.uint64()),
    "dictionary of large strings": dictionary(["a", None, "b"], value_type=pa.large_string()),
    "dictionary of numbers": dictionary([5, None, 6], value_type=pa.int64()),
    "list": pa.array([[1, None], None, []], pa.list_(pa.int64())),
    "large_list": pa.array([[1, None], None, []], pa.large_list(pa.int64())),
    "list of not null": pa.array([[1], None, []], pa.list_(pa.field("item", pa.int64(), nullable=False))),
    "list of another item name": pa.array([[1], None, []], pa.list_(pa.field("element", pa.int64()))),
    "list with metadata": pa.array([[1], None, []], pa.list_(pa.field("item", pa.int64(), metadata={"k": "v"}))),
    "vector of float32": pa.array([[1.0, 2.0, 3.0], None, [0.5, None, -1.0]], vectors(pa.float32())),
    "vector of float16": pa.array([[1.0, 2.0, 3.0], None, [0.5, None, -1.0]], vectors(pa.float16())),
    "vector of not null": pa.array([[1.0, 2.0, 3.0]] * 3, vectors(pa.float32(), nullable=False)),
    "struct": pa.array(
        [{"a": 1, "b": "x"}, None, {"a": None, "b": None}], pa.struct({"a": pa.int8(), "b": pa.string()})
    ),
    "struct of not null": pa.array(
        [{"a": 1}, {"a": 2}, {"a": 3}], pa.struct([pa.field("a", pa.int64(), nullable=False)])
    ),
    "struct with metadata": pa.array([{"a": 1}, None, {}], pa.struct([pa.field("a", pa.int64(), metadata={"k": "v"})])),
    "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "list of lists": pa.array([[[1], None], None, [[], [None]]], pa.list_(pa.list_(pa.int64()))),
    "list of structs of views": pa.array([[{"a": "x"}], None, []], pa.list_(pa.struct({"a": pa.string_view()}))),
    "struct of dictionaries": pa.StructArray.from_arrays([dictionary(["a", None, "b"])], ["d"]),
    "list of dictionaries": pa.ListArray.from_arrays([0, 1, 2, 3], dictionary(["a", None, "b"])),
    "map of vectors": pa.array([[("a", [1.0, 2.0, 3.0])], None, []], pa.map_(pa.string(), vectors(pa.float32()))),
    "uuid": pa.array([b"1" * 16, None, b"2" * 16], pa.uuid()),
    "tensor": pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.float32(), [3]),
        pa.array([[1.0, 2.0, 3.0], None, [4.0, 5.0, 6.0]], VECTORS),
    ),
}


def batches_of(array):
    """The same three values whole, cut off at the front, empty, and once more, each row numbered."""
    schema = pa.schema(
        [pa.field("c", array.type, metadata={"unit": "m"}), pa.field("id", pa.int64(), nullable=False)],
        metadata={"owner": "tests"},
    )
    whole = pa.record_batch([array, pa.array([0, 1, 2])], schema=schema)
    more = pa.record_batch([array, pa.array([2, 3, 4])], schema=schema)
    return schema, [
        whole,
        more.slice(1),
        whole.slice(0, 0),
        pa.record_batch([array, pa.array([5, 6, 7])], schema=schema),
    ]


def register(ctx, kind, schema, batches):
    if kind == "pull":
        ctx.register_table("t", scanning(lambda: list(batches), schema))
    else:
        with ctx.register_streaming_table("t", schema) as sink:
            for batch in batches:
                sink.write(batch)


def assert_same(result, expected):
    assert result.schema.equals(expected.schema, check_metadata=True), result.schema
    result.validate(full=True)
    if "nan" in repr(expected["c"].to_pylist()):
        assert repr(result.to_pylist()) == repr(expected.to_pylist())
    else:
        assert result.equals(expected)


@pytest.mark.parametrize("kind", ["pull", "push"])
@pytest.mark.parametrize("name", ARRAYS)
def test_a_type_comes_out_as_it_went_in(name, kind):
    """T13: types, values, field and schema metadata, nullability; gathered, sliced and empty batches."""
    schema, batches = batches_of(ARRAYS[name])
    for settings in ({}, {"batch_size": 2}, {"ordered": False, "target_partitions": 1}):
        with SessionContext(**settings) as ctx:
            register(ctx, kind, schema, batches)
            frame = ctx.sql("select * from t")
            assert frame.schema().equals(schema, check_metadata=True)
            assert_same(frame.collect().read_all(), pa.Table.from_batches(batches))


@pytest.mark.parametrize("kind", ["pull", "push"])
@pytest.mark.parametrize("name", ARRAYS)
def test_a_type_survives_the_engines_operators(name, kind):
    """T13: through a filter and a sort, which copy values."""
    schema, batches = batches_of(ARRAYS[name])
    with SessionContext() as ctx:
        register(ctx, kind, schema, batches)
        result = ctx.sql("select c, id from t where id % 2 = 1 order by id desc").collect().read_all()
    odd = [7, 5, 3, 1]
    rows = pa.Table.from_batches(batches)
    expected = pa.concat_tables(rows.slice(rows["id"].to_pylist().index(number), 1) for number in odd)
    assert_same(result, expected.combine_chunks())


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("name", [name for name in ARRAYS if name != "null"])
def test_a_column_of_any_type_may_be_left_out_when_the_query_does_not_read_it(name, nullable):
    """T13, T11: a provider that gives only the columns asked for, in batches some of which are empty."""
    array = ARRAYS[name]
    schema = pa.schema([pa.field("c", array.type, nullable=nullable), pa.field("id", pa.int64(), nullable=False)])
    ids = pa.schema([schema.field("id")])

    class OnlyIds(TableProvider):
        def schema(self):
            return schema

        def scan(self):
            raise AssertionError("scan_with is called instead")

        def scan_with(self, request):
            assert request.columns == ("id",)
            return [pa.record_batch([pa.array(part, pa.int64())], schema=ids) for part in ([], [0, 1], [], [2], [3, 4])]

    with SessionContext() as ctx:
        ctx.register_table("t", OnlyIds())
        result = ctx.sql("select id from t where id <> 1 order by id").collect().read_all()
    assert result["id"].to_pylist() == [0, 2, 3, 4]


@pytest.mark.parametrize("kind", ["pull", "push"])
@pytest.mark.parametrize("nullable", [True, False])
def test_nullability_of_a_column_is_kept(kind, nullable):
    """T13: a column declared not null stays so in the result's schema, and a nullable one nullable."""
    schema = pa.schema([pa.field("x", pa.int64(), nullable=nullable)])
    with SessionContext() as ctx:
        register(ctx, kind, schema, [pa.record_batch([pa.array([1, 2])], schema=schema)])
        result = ctx.sql("select x from t").collect().read_all()
    assert result.schema.field("x").nullable is nullable


@pytest.mark.parametrize("kind", ["pull", "push"])
def test_metadata_of_projected_columns_is_kept(kind):
    """T13: field metadata goes with its column, also to another name."""
    schema, batches = batches_of(ARRAYS["vector of float32"])
    with SessionContext() as ctx:
        register(ctx, kind, schema, batches)
        result = ctx.sql("select id, c as vector from t where id > 1").execute_stream()
        assert result.schema.field("vector").metadata == {b"unit": b"m"}
        assert result.schema.field("vector").type == schema.field("c").type
        result.close()


@pytest.mark.parametrize("kind", ["pull", "push"])
def test_dictionaries_that_differ_from_batch_to_batch_are_put_together(kind):
    """T13: each batch may have its own dictionary."""
    schema = pa.schema([("c", pa.dictionary(pa.int32(), pa.string()))])
    batches = [pa.record_batch([dictionary([f"only {i}", None, "shared"])], schema=schema) for i in range(5)]
    with SessionContext() as ctx:
        register(ctx, kind, schema, batches)
        result = ctx.sql("select * from t").collect().read_all()
    assert result.schema.equals(schema)
    assert result["c"].to_pylist() == [value for i in range(5) for value in (f"only {i}", None, "shared")]


@pytest.mark.parametrize("kind", ["pull", "push"])
@pytest.mark.parametrize(
    "arrays",
    [
        [dictionary([f"{i}-{j}" for j in range(100)], pa.int8()) for i in range(3)],
        [pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array([[i], [i, i]])) for i in range(3)],
    ],
    ids=["too many values for one index", "values that are lists"],
)
def test_dictionaries_that_cannot_be_put_together_are_handed_on_apart(kind, arrays):
    """T13: gathering small batches is an economy, and never a reason to fail."""
    schema = pa.schema([("c", arrays[0].type)])
    batches = [pa.record_batch([array], schema=schema) for array in arrays]
    with SessionContext() as ctx:
        register(ctx, kind, schema, batches)
        result = ctx.sql("select * from t").collect().read_all()
    assert result["c"].to_pylist() == [value for array in arrays for value in array.to_pylist()]


@pytest.mark.parametrize("kind", ["pull", "push"])
@pytest.mark.parametrize(
    ("array", "kept"),
    [
        (dictionary(["a", None, "b"], ordered=True), pa.dictionary(pa.int32(), pa.string())),
        (
            pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64(), keys_sorted=True)),
            pa.map_(pa.string(), pa.int64()),
        ),
    ],
    ids=["an ordered dictionary", "a map with sorted keys"],
)
def test_a_type_with_a_mark_the_engine_does_not_know_keeps_its_values(kind, array, kept):
    """T13: 'ordered' of a dictionary and 'sorted' of a map are lost in the engine, and nothing else is."""
    schema, batches = batches_of(array)
    with SessionContext() as ctx:
        register(ctx, kind, schema, batches)
        result = ctx.sql("select * from t").collect().read_all()
    assert result.schema.field("c").type == kept
    assert result.to_pylist() == pa.Table.from_batches(batches).to_pylist()


@pytest.mark.parametrize("kind", ["pull", "push"])
@pytest.mark.parametrize(
    "array",
    [
        pa.UnionArray.from_sparse(pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), pa.array(["a", "b", "c"])]),
        pa.UnionArray.from_dense(
            pa.array([0, 1, 0], pa.int8()), pa.array([0, 0, 1], pa.int32()), [pa.array([1, 3]), pa.array(["b"])]
        ),
    ],
    ids=["sparse", "dense"],
)
def test_a_union_comes_out_right_or_is_refused(kind, array):
    """T13: what the engine cannot carry is an error, never other values."""
    schema, batches = batches_of(array)
    with SessionContext(batch_size=2) as ctx:
        try:
            register(ctx, kind, schema, batches)
            result = ctx.sql("select * from t").collect().read_all()
        except headrace.HeadraceError:
            return
    assert result.to_pylist() == pa.Table.from_batches(batches).to_pylist()


def test_the_names_inside_a_nested_type_are_the_tables():
    """T13, T3: a list whose item is called otherwise is the same type, and takes the table's name for it."""
    ours, theirs = (pa.list_(pa.field(name, pa.int64())) for name in ("item", "element"))
    schema = pa.schema([("l", ours)])
    batch = pa.record_batch([pa.array([[1, 2], None, []], theirs)], schema=pa.schema([("l", theirs)]))
    with SessionContext() as ctx:
        ctx.register_table("t", scanning(lambda: [batch], schema))
        for query in ("select * from t", "select * from t where l[1] = 1", "select l from t order by l"):
            result = ctx.sql(query).collect().read_all()
            assert result.schema.field("l").type.value_field.name == "item"
            assert [1, 2] in result["l"].to_pylist()
