"""Invalid pull tables are refused, and the message says what to do instead."""

import threading

import pyarrow as pa
import pytest
from providers import SCHEMA, Provider, rows, scanning

import headrace
from headrace import SessionContext, SimpleTableProvider, TableProvider


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, r"scan\(\) of table 't' returned None\. Hint: return a new reader"),
        (5, r"The return value of scan\(\) of table 't' must be .*, not a int\. Hint: pyarrow\.record_batch"),
        ("rows", r"The return value of scan\(\) of table 't' must be .*, not a str\. Hint: "),
        ({"x": [1]}, r"The return value of scan\(\) of table 't' must be .*, not a dict\. Hint: "),
    ],
    ids=repr,
)
def test_scan_must_return_an_object_that_contains_batches(ctx, returned, message):
    """T6: scan() returning None (or no Arrow data) is a clear error that says what to return."""
    ctx.register_table("t", scanning(lambda: returned))
    with pytest.raises(headrace.TableError, match=message) as caught:
        ctx.sql("select * from t").collect()
    assert isinstance(caught.value.__cause__, headrace.InvalidArgumentError)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (None, r"schema\(\) of table 't' must be a pyarrow\.Schema, not None\. Hint: .*pyarrow\.schema"),
        ([("x", pa.int64())], r"must be a pyarrow\.Schema, not a list\. Hint: .*pyarrow\.schema"),
        (pa.schema([]), r"has no column\. Hint: give the table at least one"),
        (pa.schema([("x", pa.int8()), ("x", pa.int8())]), r"more than one column named 'x'\. Hint: rename"),
    ],
    ids=["None", "a list", "no column", "twice the same"],
)
def test_schema_must_return_a_schema_that_a_table_can_have(ctx, schema, message):
    """T1, T6: schema() returning None is a clear error, and no table is registered."""

    class Odd(Provider):
        def schema(self):
            return schema

    with pytest.raises(headrace.InvalidArgumentError, match=message):
        ctx.register_table("t", Odd())
    assert not ctx.table_exists("t")


@pytest.mark.parametrize("name", [None, "", "  ", 5, b"t"], ids=repr)
def test_a_name_must_be_a_non_empty_string(ctx, name):
    """T6: a None or empty name is a clear error in every method that takes a name."""
    provider = Provider()
    calls = [
        lambda: ctx.register_table(name, provider),
        lambda: ctx.table_exists(name),
        lambda: ctx.deregister_table(name),
        lambda: ctx.table(name),
        lambda: ctx.register_arrow(name, rows(0)),
        lambda: ctx.register_lance(name, "nowhere"),
        lambda: ctx.register_parquet(name, "nowhere"),
        lambda: ctx.register_csv(name, "nowhere"),
        lambda: ctx.register_json(name, "nowhere"),
    ]
    for call in calls:
        with pytest.raises(headrace.InvalidArgumentError) as caught:
            call()
        assert str(caught.value) == f"A table name must be non-empty text, not {name!r}."
    assert provider.schema_threads == []


@pytest.mark.parametrize("provider", [None, 5, SCHEMA, object(), pa.table({"x": [1]})], ids=lambda p: type(p).__name__)
def test_a_provider_must_have_schema_and_scan(ctx, provider):
    """T6: any other object is refused, and the message says what to use instead."""
    with pytest.raises(
        headrace.InvalidArgumentError, match=r"(?s)schema\(\) and scan\(\).*Hint: .*TableProvider.*register_arrow"
    ):
        ctx.register_table("t", provider)
    assert not ctx.table_exists("t")


def test_a_provider_class_in_place_of_a_provider_is_refused_clearly(ctx):
    """T6: missing parentheses are a clear error, not a TypeError about a missing argument."""
    with pytest.raises(headrace.InvalidArgumentError, match="Provider"):
        ctx.register_table("t", Provider)
    assert not ctx.table_exists("t")


def test_a_closed_session_refuses_every_call_and_says_what_to_do():
    """T6: the error is clear, and no method of the provider is called."""
    ctx = SessionContext()
    ctx.register_table("t", Provider())
    frame = ctx.sql("select * from t")
    ctx.close()
    ctx.close()
    provider = Provider()
    calls = [
        lambda: ctx.register_table("u", provider),
        lambda: ctx.table_exists("t"),
        lambda: ctx.deregister_table("t"),
        lambda: ctx.table("t"),
        lambda: ctx.sql("select * from t"),
        lambda: ctx.register_streaming_table("u", SCHEMA),
        lambda: ctx.register_arrow("u", rows(0)),
        frame.collect,
        frame.execute_stream,
        frame.count,
        frame.schema,
        frame.explain,
    ]
    for call in calls:
        with pytest.raises(headrace.ClosedError, match=r"session is closed\. Hint: make a new SessionContext"):
            call()
    assert provider.schema_threads == []


def test_a_simple_provider_works_without_subclassing(ctx):
    """T7: SimpleTableProvider(schema, scan) is a complete table."""
    calls = []

    def scan():
        calls.append(threading.current_thread())
        return pa.RecordBatchReader.from_batches(SCHEMA, [rows(0), rows(3)])

    provider = SimpleTableProvider(SCHEMA, scan)
    assert isinstance(provider, TableProvider)
    assert calls == []
    ctx.register_table("t", provider)
    assert ctx.sql("select s from t where x = 4").collect().read_all().to_pydict() == {"s": ["r4"]}
    assert ctx.table("t").count() == 6
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("schema", "scan", "message"),
    [
        (None, lambda: None, r"schema .*must be a pyarrow\.Schema, not None\. Hint: .*pyarrow\.schema"),
        (SCHEMA, None, r"scan .*must be callable, not None\. Hint: pass a function"),
        (None, None, "must be"),
        (SCHEMA, rows(0), r"(?s)scan .*must be callable.*Hint: pass a function"),
        (["x"], lambda: None, r"schema .*must be a pyarrow\.Schema"),
        (pa.schema([]), lambda: None, "no column"),
    ],
    ids=["no schema", "no scan", "neither", "a batch for scan", "a list for schema", "an empty schema"],
)
def test_a_simple_provider_refuses_none_at_construction(schema, scan, message):
    """T7: None arguments are refused at construction."""
    with pytest.raises(headrace.InvalidArgumentError, match=message):
        SimpleTableProvider(schema, scan)


def test_a_provider_class_without_scan_cannot_be_instantiated():
    """T7, T11: schema and scan must be implemented; the other methods have defaults."""

    class OnlySchema(TableProvider):
        def schema(self):
            return SCHEMA

    with pytest.raises(TypeError, match="scan"):
        OnlySchema()
