"""Push tables that end early: the consumer or the table goes away, the session closes, the producer drops its sink."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Callable

import pyarrow as pa
import pytest
from test_push_tables import SCHEMA, batch, collect, read

import headrace
from headrace import SessionContext, TableSink
from support.background import SECONDS, Background

PROMPTLY = 1.0


# Enough rows that no operator buffers them.
MANY = batch(*range(1, 10_001))


def write_forever(sink: TableSink) -> None:
    while True:
        sink.write(MANY)


def assert_the_consumer_is_gone(sink: TableSink, writer: Background, reason: str, seconds: float) -> None:
    """Assert that the blocked write, and every later write of any kind, raises ConsumerGoneError with the reason."""
    message = rf"streaming table 't', its consumer is gone: .*{reason}.* Hint: stop producing"
    with pytest.raises(headrace.ConsumerGoneError, match=message):
        writer.result(seconds)
    with pytest.raises(headrace.ConsumerGoneError, match=message):
        sink.write(batch(1))
    with pytest.raises(headrace.ConsumerGoneError, match=message):
        sink.try_write(batch(1))
    with pytest.raises(headrace.ConsumerGoneError, match=message):
        asyncio.run(sink.write_async(batch(1)))
    assert sink.statistics().state == "cancelled"
    sink.close()


# -- the consumer leaves -----------------------------------------------------------------------------

LEAVING: dict[str, tuple[Callable[[headrace.RecordBatchReader], None], str]] = {
    "closed": (headrace.RecordBatchReader.close, "its reader was closed"),
    "cancelled": (headrace.RecordBatchReader.cancel, "it was cancelled"),
}


@pytest.mark.parametrize(("leave", "reason"), LEAVING.values(), ids=LEAVING.keys())
@pytest.mark.parametrize("batches_read", [0, 1])
def test_writes_raise_when_the_reader_is_closed_or_cancelled(
    ctx: SessionContext, leave: Callable[[headrace.RecordBatchReader], None], reason: str, batches_read: int
) -> None:
    """P7: promptly, whether or not it has read a batch, and the message says why."""
    sink = ctx.register_streaming_table("t", SCHEMA, capacity=1)
    writer = Background(write_forever, sink)
    reader = ctx.sql("select x from t").execute_stream()
    for _ in range(batches_read):
        reader.read_next_batch()
    writer.until_write_blocks(sink)
    leave(reader)
    assert_the_consumer_is_gone(sink, writer, reason, PROMPTLY)


def test_a_dropped_reader_makes_writes_raise(ctx: SessionContext) -> None:
    """P7: no thread can read it any more."""
    sink = ctx.register_streaming_table("t", SCHEMA, capacity=1)
    writer = Background(write_forever, sink)
    reader = ctx.sql("select x from t").execute_stream()
    reader.read_next_batch()
    del reader
    gc.collect()
    assert_the_consumer_is_gone(sink, writer, "its reader was dropped", PROMPTLY)


@pytest.mark.parametrize(
    "query",
    [
        "select x from t limit 2",
        "select x from t where x > 1 limit 2",
        "select x from (select x from t limit 5) where x = 1",
        "select sum(x) from (select x from t limit 4)",
    ],
)
def test_a_limit_that_is_reached_makes_writes_raise(ctx: SessionContext, query: str) -> None:
    """P7: the query has all its rows, and the producer would write forever."""
    sink = ctx.register_streaming_table("t", SCHEMA, capacity=1)
    writer = Background(write_forever, sink)
    assert len(Background(collect, ctx, query).result()) >= 1
    assert_the_consumer_is_gone(sink, writer, "", PROMPTLY)


def test_a_query_that_fails_elsewhere_makes_writes_raise(ctx: SessionContext) -> None:
    """P7: a division by zero in the plan ends the query, so the next write raises."""
    sink = ctx.register_streaming_table("t", SCHEMA, capacity=1)
    writer = Background(write_forever, sink)
    with pytest.raises(headrace.ExecutionError, match="Divide by zero"):
        collect(ctx, "select x / (x - 2) from t")
    assert_the_consumer_is_gone(sink, writer, "", PROMPTLY)


def test_a_sink_whose_consumer_is_gone_can_be_closed_and_dropped_without_a_warning(ctx: SessionContext) -> None:
    """P7, P12: close(), the end of its with block and garbage collection are harmless."""
    sink = ctx.register_streaming_table("t", SCHEMA)
    ctx.sql("select x from t").execute_stream().close()
    sink.close()
    with pytest.raises(headrace.ConsumerGoneError), sink:
        sink.write(batch(1))
    del sink
    gc.collect()


# -- the table or the session goes --------------------------------------------------------------------

GOING: dict[str, tuple[Callable[[SessionContext], None], str]] = {
    "session closed": (SessionContext.close, "the session was closed"),
    "table deregistered": (lambda ctx: ctx.deregister_table("T"), "the table was deregistered"),
}


@pytest.mark.parametrize(("go", "reason"), GOING.values(), ids=GOING.keys())
@pytest.mark.parametrize("queried", [False, True], ids=["not queried", "queried"])
def test_a_blocked_write_raises_when_the_table_is_deregistered_or_the_session_closed(
    ctx: SessionContext, go: Callable[[SessionContext], None], reason: str, queried: bool
) -> None:
    """P8: in under 5 s, whether or not a query reads the table."""
    sink = ctx.register_streaming_table("t", SCHEMA, capacity=1)
    writer = Background(write_forever, sink)
    reader = ctx.sql("select x from t").execute_stream() if queried else None
    if reader is not None:
        reader.read_next_batch()
    writer.until_write_blocks(sink)
    go(ctx)
    assert_the_consumer_is_gone(sink, writer, reason, SECONDS)


def test_a_query_over_a_table_deregistered_in_mid_stream_raises_after_the_queued_batches(
    ctx: SessionContext,
) -> None:
    """P8, P12: the stream was not closed, so it is not complete."""
    sink = ctx.register_streaming_table("t", SCHEMA)
    with ctx.sql("select x from t").execute_stream() as reader:
        sink.write(batch(1))
        assert read(reader) == [1]
        sink.write(batch(2))
        ctx.deregister_table("t")
        assert read(reader) == [2]
        with pytest.raises(headrace.TableError, match=r"'t' ended before close\(\): the table was deregistered"):
            reader.read_next_batch()


def test_deregistering_the_table_wakes_a_waiting_reader_with_an_error(ctx: SessionContext) -> None:
    """P8: no more batches can come."""
    sink = ctx.register_streaming_table("t", SCHEMA)
    with ctx.sql("select x from t").execute_stream() as reader:
        reading = Background(read, reader).until_read_blocks()
        ctx.deregister_table("t")
        with pytest.raises(headrace.TableError, match=r"'t' ended before close\(\): the table was deregistered"):
            reading.result()
    sink.close()


def test_a_query_over_a_closed_table_finishes_after_it_is_deregistered(ctx: SessionContext) -> None:
    """P8: a closed stream is complete."""
    sink = ctx.register_streaming_table("t", SCHEMA)
    sink.write(batch(1))
    sink.write(batch(2))
    with ctx.sql("select x from t").execute_stream() as reader:
        sink.close()
        ctx.deregister_table("t")
        assert not ctx.table_exists("t")
        assert reader.read_all()["x"].to_pylist() == [1, 2]


def test_a_name_can_be_used_again_after_the_table_is_deregistered(ctx: SessionContext) -> None:
    """P8: the new table has no rows of the old one."""
    old = ctx.register_streaming_table("t", SCHEMA)
    old.write(batch(1))
    ctx.deregister_table("t")
    new = ctx.register_streaming_table("t", SCHEMA)
    with pytest.raises(headrace.ConsumerGoneError):
        old.write(batch(2))
    new.write(batch(3))
    new.close()
    assert collect(ctx) == [3]


@pytest.mark.parametrize(
    "statement",
    [
        "drop view t",
        "drop table t",
        "create or replace view t as select 1 as x",
        "create or replace table t as select 1 as x",
    ],
)
def test_sql_that_removes_the_tables_name_is_refused_or_makes_writes_raise(ctx: SessionContext, statement: str) -> None:
    """P8: if SQL deregisters the table, a blocked write raises; otherwise the table stays and can be read."""
    sink = ctx.register_streaming_table("t", SCHEMA, capacity=1)
    sink.write(batch(1))
    writer = Background(sink.write, batch(2)).until_write_blocks(sink)
    try:
        ctx.sql(statement)
    except headrace.HeadraceError:
        with ctx.sql("select x from t").execute_stream() as reader:
            assert read(reader) == [1]
            writer.result()
            sink.close()
    else:
        with pytest.raises(headrace.ConsumerGoneError):
            writer.result()


def test_the_queued_batches_of_a_deregistered_table_are_released(ctx: SessionContext) -> None:
    """P8: a long-lived session does not keep deregistered tables."""
    before = pa.total_allocated_bytes()
    for _ in range(4):
        sink = ctx.register_streaming_table("t", SCHEMA)
        sink.write(pa.record_batch([pa.nulls(1_000_000, pa.int64())], schema=SCHEMA))
        ctx.deregister_table("t")
        del sink
    gc.collect()
    assert pa.total_allocated_bytes() - before < 8_000_000


# -- the producer leaves -----------------------------------------------------------------------------


def test_a_with_block_left_cleanly_closes_the_sink(ctx: SessionContext) -> None:
    """P12: the block gets the sink itself."""
    with ctx.register_streaming_table("t", SCHEMA) as sink:
        sink.write(batch(1))
    assert sink.statistics().state == "closed"
    assert collect(ctx) == [1]


def raise_from_with_block(sink: TableSink, error: BaseException) -> None:
    with sink:
        sink.write(batch(1))
        raise error


@pytest.mark.parametrize(
    "error",
    [ValueError("cut off"), StopIteration("cut off"), asyncio.CancelledError("cut off"), GeneratorExit("cut off")],
    ids=lambda error: type(error).__name__,
)
def test_a_with_block_left_by_an_exception_fails_the_sink(ctx: SessionContext, error: BaseException) -> None:
    """P12: the exception leaves the block, and the reader gets it after the written batches: never a clean end."""
    sink = ctx.register_streaming_table("t", SCHEMA)
    assert Background(raise_from_with_block, sink, error).error() is error
    with ctx.sql("select x from t").execute_stream() as reader:
        assert read(reader) == [1]
        with pytest.raises(headrace.TableError, match=f"{type(error).__name__}: cut off") as caught:
            reader.read_next_batch()
    assert caught.value.__cause__ is error


def test_a_with_block_left_by_an_exception_after_close_stays_closed(ctx: SessionContext) -> None:
    """P3, P12: only the first end takes effect."""
    sink = ctx.register_streaming_table("t", SCHEMA)
    sink.close()
    error = ValueError("too late")
    with pytest.raises(ValueError, match="too late"), sink:
        raise error
    assert collect(ctx) == []


DROPPED = "sink of streaming table 't' was dropped without close.. or fail..*Hint: use it as a context manager"


def test_a_sink_dropped_while_open_warns_and_fails_its_reader(ctx: SessionContext) -> None:
    """P12: the reader gets the written batches, then an error that says what happened and what to do."""
    sink = ctx.register_streaming_table("t", SCHEMA)
    sink.write(batch(1))
    with pytest.warns(ResourceWarning, match=DROPPED):
        del sink
    with ctx.sql("select x from t").execute_stream() as reader:
        assert read(reader) == [1]
        with pytest.raises(headrace.TableError, match=DROPPED) as caught:
            reader.read_next_batch()
    assert isinstance(caught.value.__cause__, headrace.ClosedError)


def test_a_producer_that_returns_without_closing_fails_the_waiting_reader(ctx: SessionContext) -> None:
    """P12, F13: the thread and its sink are gone, so the reader must not wait forever."""
    sinks = [ctx.register_streaming_table("t", SCHEMA)]
    reading = Background(collect, ctx)

    def produce_and_forget() -> None:
        sinks.pop().write(batch(1))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        Background(produce_and_forget).result()
        with pytest.raises(headrace.TableError, match=DROPPED):
            reading.result()


@pytest.mark.parametrize("end", ["close", "fail", "deregister"])
def test_a_sink_dropped_after_its_end_does_not_warn(ctx: SessionContext, end: str) -> None:
    """P12: the stream has ended correctly."""
    sink = ctx.register_streaming_table("t", SCHEMA)
    if end == "close":
        sink.close()
    elif end == "fail":
        sink.fail(ValueError("source went away"))
    else:
        ctx.deregister_table("t")
    del sink
    gc.collect()
