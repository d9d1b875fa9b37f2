"""Push tables refuse a second scan and invalid input, and each message says what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from test_push_tables import SCHEMA, batch, collect, read

import headrace
from headrace import InvalidArgumentError, SchemaMismatchError, SessionContext, SimpleTableProvider, TableSink
from support.background import Background

# -- one scan ----------------------------------------------------------------------------------------

CONSUMED = r"Streaming table 't' can be scanned once.*Hint: .*register_table or register_arrow"


@pytest.mark.parametrize("how", ["collect", "execute_stream", "execute_stream_partitioned", "count", "show"])
def test_a_second_query_after_the_first_is_refused(ctx: SessionContext, how: str) -> None:
    """P6: the error says why and what to use instead; never an empty result, never a hang."""
    sink = ctx.register_streaming_table("t", SCHEMA)
    sink.write(batch(1))
    sink.close()
    assert collect(ctx) == [1]
    frame = ctx.sql("select x from t")
    with pytest.raises(headrace.ConsumedError, match=CONSUMED):
        Background(getattr(frame, how)).result()


def test_a_second_query_beside_a_running_one_is_refused_and_does_not_affect_it(ctx: SessionContext) -> None:
    """P6: the first query reads to its end."""
    sink = ctx.register_streaming_table("t", SCHEMA)
    with ctx.sql("select x from t").execute_stream() as reader:
        sink.write(batch(1))
        assert read(reader) == [1]
        with pytest.raises(headrace.ConsumedError, match=CONSUMED):
            Background(collect, ctx).result()
        sink.write(batch(2))
        sink.close()
        assert reader.read_all()["x"].to_pylist() == [2]


def test_a_query_after_one_that_was_cancelled_or_failed_is_refused(ctx: SessionContext) -> None:
    """P6: rows may be lost, so no complete table is left to read."""
    ended = ctx.register_streaming_table("t", SCHEMA)
    ended.write(batch(0))
    ended.close()
    with pytest.raises(headrace.ExecutionError, match="Divide by zero"):
        collect(ctx, "select 1 / x from t")
    with pytest.raises(headrace.ConsumedError, match=CONSUMED):
        collect(ctx)


@pytest.mark.parametrize(
    "query",
    [
        "select * from t union all select * from t",
        "select * from t a join t b on a.x = b.x",
        "select * from t where x in (select x from t)",
        "with both as (select x from t) select * from both a, both b",
        "select * from v union all select * from t",
    ],
)
@pytest.mark.parametrize("target_partitions", [1, 8])
def test_a_query_that_scans_the_table_twice_is_refused_and_consumes_nothing(query: str, target_partitions: int) -> None:
    """P6: the refusal comes before any read, so a query that scans the table once still gets every row."""
    with SessionContext(target_partitions=target_partitions) as ctx:
        sink = ctx.register_streaming_table("t", SCHEMA)
        sink.write(batch(1))
        ctx.sql("create view v as select x from t")
        frame = ctx.sql(query)
        with pytest.raises(headrace.ConsumedError, match=CONSUMED):
            Background(frame.execute_stream).result()
        sink.close()
        assert collect(ctx) == [1]


def test_inspecting_the_table_and_failing_to_plan_do_not_consume_it(ctx: SessionContext) -> None:
    """P6: EXPLAIN, schema(), explain(), table_exists, a repr, a wrong query, a frame that is never executed."""
    sink = ctx.register_streaming_table("t", SCHEMA)
    sink.write(batch(1))
    sink.close()
    assert ctx.table_exists("t")
    frame = ctx.sql("select x from t")
    assert frame.schema() == SCHEMA
    assert "t" in frame.explain()
    assert repr(frame)
    assert frame._repr_html_()
    frame.filter("x > 0").close()
    assert ctx.sql("explain select x from t").collect().read_all().num_rows > 0
    assert ctx.sql("explain verbose select x from t").collect().read_all().num_rows > 0
    assert ctx.sql("describe t").collect().read_all().num_rows == 1
    for wrong in ("select nope from t", "select x from t, nowhere", "select x frm t", "select sum(x), x from t"):
        with pytest.raises(headrace.PlanError):
            ctx.sql(wrong).execute_stream()
    assert frame.collect().read_all()["x"].to_pylist() == [1]


# -- registration ------------------------------------------------------------------------------------

NAME = r"A table name must be non-empty text, not {}"
NO_SCHEMA = r"schema of streaming table 'u' must be a pyarrow.Schema, not {}\. Hint: build one with pyarrow\.schema"
COUNT = r"{} must be a whole number of at least 1, not {}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": None}, NAME.format("None")),
        ({"name": ""}, NAME.format("''")),
        ({"name": " \t"}, NAME.format("")),
        ({"name": 5}, NAME.format("5")),
        ({"schema": None}, NO_SCHEMA.format("None")),
        ({"schema": [("x", pa.int64())]}, NO_SCHEMA.format("a list")),
        ({"schema": pa.schema([])}, r"streaming table 'u' has no column\. Hint: give the table at least one field"),
        ({"schema": pa.schema([("x", pa.int8())] * 2)}, r"more than one column named 'x'\. Hint: rename"),
        *[({"capacity": value}, COUNT.format("capacity", repr(value))) for value in (0, -1, True, 1.5, None, "4")],
        *[({"max_bytes": value}, COUNT.format("max_bytes", repr(value))) for value in (0, -1, True, 1.5, "4")],
    ],
    ids=str,
)
def test_an_invalid_table_is_not_registered(ctx: SessionContext, arguments: dict[str, Any], message: str) -> None:
    """P9: wrong names, schemas and bounds; the message has the given value and the allowed ones."""
    with pytest.raises(InvalidArgumentError, match=message):
        ctx.register_streaming_table(**{"name": "u", "schema": SCHEMA, "capacity": 1, **arguments})
    assert not ctx.table_exists("u")


@pytest.mark.parametrize("name", ["t", "T", "pulled", "held"])
def test_a_duplicate_name_is_refused_and_the_earlier_table_is_unchanged(ctx: SessionContext, name: str) -> None:
    """P9: for a table of any kind, in upper or lower case."""
    sink = ctx.register_streaming_table("t", SCHEMA)
    ctx.register_table("pulled", SimpleTableProvider(SCHEMA, lambda: [batch(1)]))
    ctx.register_arrow("held", batch(1))
    with pytest.raises(headrace.TableExistsError, match=rf"table '{name.lower()}' already\. Hint: deregister it first"):
        ctx.register_streaming_table(name, SCHEMA)
    sink.write(batch(1))
    sink.close()
    assert collect(ctx, f"select x from {name}") == [1]


def test_a_closed_session_registers_nothing() -> None:
    """P9: no sink is returned, since no query could read it."""
    ctx = SessionContext()
    ctx.close()
    with pytest.raises(headrace.ClosedError, match=r"session is closed\. Hint: make a new SessionContext"):
        ctx.register_streaming_table("t", SCHEMA)


# -- batches -----------------------------------------------------------------------------------------

WIDE = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
GOOD = pa.record_batch([pa.array([1]), pa.array(["a"])], schema=WIDE)
BOTH_SCHEMAS = r".*Table: \(id int64 not null, name string\); given: \(.+\)\. Hint: cast it to the table's schema"


def wide(*fields: pa.Field, rows: int = 1) -> pa.RecordBatch:
    columns = [pa.array([1] * rows).cast(field.type) for field in fields]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


ID, MAYBE_ID = pa.field("id", pa.int64(), nullable=False), pa.field("id", pa.int64())
NAMED = pa.field("name", pa.string())
WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "None": (None, InvalidArgumentError, r"must be a RecordBatch, a Table.*not None\. Hint: pyarrow\.record_batch"),
    "a dict": ({"id": [1]}, InvalidArgumentError, r"must be a RecordBatch.*not a dict\. Hint: pyarrow\.record_batch"),
    "text": ("rows", InvalidArgumentError, r"must be a RecordBatch.*not a str\. Hint: pyarrow\.record_batch"),
    "a number": (5, InvalidArgumentError, r"must be a RecordBatch.*not a int\. Hint: pyarrow\.record_batch"),
    "a missing column": (wide(ID), SchemaMismatchError, f"missing column 'name'{BOTH_SCHEMAS}"),
    "an extra column": (
        wide(ID, NAMED, pa.field("more", pa.int8())),
        SchemaMismatchError,
        f"extra column 'more'{BOTH_SCHEMAS}",
    ),
    "another name": (
        wide(ID, pa.field("title", pa.string())),
        SchemaMismatchError,
        f"missing column 'name', extra column 'title'{BOTH_SCHEMAS}",
    ),
    "another type": (
        wide(pa.field("id", pa.int32(), nullable=False), NAMED),
        SchemaMismatchError,
        f"column 'id' is int32 instead of int64{BOTH_SCHEMAS}",
    ),
    "another order": (wide(NAMED, ID), SchemaMismatchError, f"the columns are in another order{BOTH_SCHEMAS}"),
    "another nullability": (
        wide(MAYBE_ID, NAMED),
        SchemaMismatchError,
        f"column 'id' is nullable instead of not null{BOTH_SCHEMAS}",
    ),
    "another schema and no rows": (
        wide(ID, rows=0),
        SchemaMismatchError,
        f"missing column 'name'{BOTH_SCHEMAS}",
    ),
    "a table of another schema": (
        pa.table({"id": [1]}),
        SchemaMismatchError,
        f"missing column 'name'{BOTH_SCHEMAS}",
    ),
    "nulls where there may be none": (
        pa.RecordBatch.from_arrays([pa.array([None], pa.int64()), pa.array(["a"])], schema=WIDE),
        SchemaMismatchError,
        "holds nulls in column 'id', which is declared not null. Hint: drop those rows",
    ),
    "nulls in a later part of a table": (
        pa.Table.from_batches(
            [GOOD, pa.RecordBatch.from_arrays([pa.array([None], pa.int64()), pa.array(["b"])], schema=WIDE)]
        ),
        SchemaMismatchError,
        "holds nulls in column 'id', which is declared not null. Hint: drop those rows",
    ),
}


def write_async(sink: TableSink, data: Any) -> None:
    asyncio.run(sink.write_async(data))


@pytest.mark.parametrize("write", [TableSink.write, TableSink.try_write, write_async])
@pytest.mark.parametrize(("data", "error", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_batch_is_refused_uses_no_capacity_and_leaves_the_sink_usable(
    ctx: SessionContext, write: Callable[[TableSink, Any], Any], data: Any, error: type[Exception], message: str
) -> None:
    """P9: at once even if the channel is full; the message has both schemas and the first difference."""
    sink = ctx.register_streaming_table("t", WIDE, capacity=3)
    sink.write(GOOD)
    with pytest.raises(error, match=message):
        write(sink, data)
    assert sink.statistics().batches == 1
    assert sink.try_write(GOOD)
    assert sink.try_write(GOOD)
    with pytest.raises(error, match=message):
        Background(write, sink, data).result()
    assert sink.statistics().batches == 3
    sink.close()
    assert collect(ctx, "select id from t") == [1, 1, 1]


def test_batches_may_differ_in_metadata(ctx: SessionContext) -> None:
    """P9: only fields are compared; the rows are returned with the table's schema."""
    tagged = pa.schema([pa.field("x", pa.int64(), metadata={"unit": "m"})], metadata={"made": "here"})
    sink = ctx.register_streaming_table("t", tagged)
    sink.write(batch(1))
    other = pa.schema([pa.field("x", pa.int64(), metadata={"unit": "km"})], metadata={"made": "there"})
    sink.write(pa.record_batch([pa.array([2])], schema=other))
    sink.write(pa.Table.from_batches([batch(3)]).replace_schema_metadata({"more": "words"}))
    sink.close()
    result = ctx.sql("select x from t").collect().read_all()
    assert result["x"].to_pylist() == [1, 2, 3]
    assert result.schema.field("x").metadata == {b"unit": b"m"}


@pytest.mark.parametrize("cause", [None, "source went away", ValueError])
def test_fail_requires_an_exception_and_the_sink_stays_usable_without_one(ctx: SessionContext, cause: Any) -> None:
    """P9: an exception class is not an exception; the hint shows how to make one."""
    sink = ctx.register_streaming_table("t", SCHEMA)
    with pytest.raises(InvalidArgumentError, match=r"fail\(\) needs the exception .*Hint: .*RuntimeError\("):
        sink.fail(cause)
    sink.write(batch(1))
    sink.close()
    assert collect(ctx) == [1]


@pytest.mark.parametrize("timeout", [-1, float("nan"), True, "1", object()])
def test_a_timeout_that_is_not_a_number_of_seconds_is_refused(ctx: SessionContext, timeout: Any) -> None:
    """P9: before a batch is queued."""
    sink = ctx.register_streaming_table("t", SCHEMA)
    with pytest.raises(InvalidArgumentError, match="timeout must be a number of seconds of at least 0, or None, not "):
        sink.write(batch(1), timeout=timeout)
    assert sink.statistics().batches == 0
    sink.close()
