"""Push tables: every written row is read, the channel is bounded, and both sides see each end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import headrace
from headrace import SessionContext, SimpleTableProvider, TableSink
from headrace.channel.channel import Channel
from support.background import Background

SCHEMA = pa.schema([("x", pa.int64())])


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA)


def collect(ctx: SessionContext, query: str = "select x from t") -> list[int]:
    return ctx.sql(query).collect().read_all().column(0).to_pylist()


def read(reader: headrace.RecordBatchReader) -> list[int]:
    return reader.read_next_batch()["x"].to_pylist()


def fill(sink: TableSink, data: pa.RecordBatch) -> int:
    """Write until no write succeeds any more; return the number of batches."""
    for written in range(1000):
        try:
            sink.write(data, timeout=0.3)
        except headrace.WriteTimeoutError:
            return written
        assert sink.statistics().queued <= sink.statistics().capacity
    raise AssertionError("nothing stops the producer")


# -- writing and reading -----------------------------------------------------------------------------


def test_batches_written_before_the_query_are_all_read(ctx: SessionContext) -> None:
    """P1: queued batches can be read after close."""
    sink = ctx.register_streaming_table("t", SCHEMA)
    sink.write(batch(1, 2))
    sink.write(batch(3))
    sink.close()
    assert collect(ctx) == [1, 2, 3]


def test_a_stream_from_another_thread_is_read_to_its_end(ctx: SessionContext) -> None:
    """P1: through a channel much smaller than the stream."""
    sink = ctx.register_streaming_table("t", SCHEMA, capacity=2)

    def produce() -> None:
        with sink:
            for number in range(200):
                sink.write(batch(number))

    producer = Background(produce)
    assert collect(ctx) == list(range(200))
    producer.result()


def test_the_query_may_start_first_and_wait_for_the_first_write(ctx: SessionContext) -> None:
    """P11: the reader waits, and the first batch wakes it, not only the end."""
    sink = ctx.register_streaming_table("t", SCHEMA)
    with ctx.sql("select x from t").execute_stream() as reader:
        reading = Background(read, reader).until_read_blocks()
        assert not reading.is_done_after(0.2)
        sink.write(batch(1))
        assert reading.result() == [1]
        sink.write(batch(2))
        sink.close()
        assert reader.read_all()["x"].to_pylist() == [2]


@pytest.mark.parametrize("together", ["one query", "two queries"])
def test_scan_of_a_provider_may_write_to_a_push_table(ctx: SessionContext, together: str) -> None:
    """P11: also to one that the same query reads, and more than its capacity."""
    sink = ctx.register_streaming_table("pushed", SCHEMA, capacity=1)

    def scan() -> pa.RecordBatchReader:
        with sink:
            for number in range(5):
                sink.write(batch(number))
        return pa.RecordBatchReader.from_batches(SCHEMA, [batch(100)])

    ctx.register_table("pulled", SimpleTableProvider(SCHEMA, scan))
    if together == "one query":
        rows = Background(collect, ctx, "select x from pulled union all select x from pushed").result()
    else:
        pushed = Background(collect, ctx, "select x from pushed")
        rows = Background(collect, ctx, "select x from pulled").result() + pushed.result()
    assert sorted(rows) == [0, 1, 2, 3, 4, 100]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select count(*) from t", [3]),
        ("select 1 from t", [1, 1, 1]),
        ("select x * 2 from t where x > 1", [4, 6]),
        ("select sum(x) from t", [6]),
        ("select x from t order by x desc limit 2", [3, 2]),
    ],
)
def test_a_zero_row_batch_in_the_middle_is_not_the_end(ctx: SessionContext, query: str, expected: list[int]) -> None:
    """P1, P3: only close ends the stream, whatever the query does with the rows."""
    sink = ctx.register_streaming_table("t", SCHEMA)
    for part in (batch(1), batch(), batch(2, 3), batch()):
        sink.write(part)
    sink.close()
    assert collect(ctx, query) == expected


class OnlyArray:
    """Arrow data with only the array interface."""

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return batch(1, 2).__arrow_c_array__(requested_schema)


@pytest.mark.parametrize("how", ["write", "try_write", "write_async"])
@pytest.mark.parametrize(
    "data",
    [
        lambda: batch(1, 2),
        lambda: pa.Table.from_batches([batch(1), batch(2)]),
        lambda: pa.RecordBatchReader.from_batches(SCHEMA, [batch(1), batch(2)]),
        lambda: pl.DataFrame({"x": [1, 2]}),
        OnlyArray,
    ],
    ids=["RecordBatch", "Table", "RecordBatchReader", "polars", "__arrow_c_array__"],
)
def test_any_arrow_data_can_be_written(ctx: SessionContext, how: str, data: Callable[[], Any]) -> None:
    """P1, P15: data of several batches is written completely."""
    sink = ctx.register_streaming_table("t", SCHEMA)
    if how == "write_async":
        asyncio.run(sink.write_async(data()))
    else:
        assert getattr(sink, how)(data()) is (True if how == "try_write" else None)
    sink.close()
    assert collect(ctx) == [1, 2]


# -- backpressure ------------------------------------------------------------------------------------


def test_a_full_channel_blocks_a_write_until_the_query_reads(ctx: SessionContext) -> None:
    """P2: no progress for 200 ms, a timeout raises, try_write returns False; then all rows are read."""
    sink = ctx.register_streaming_table("t", SCHEMA, capacity=2)
    assert sink.try_write(batch(0))
    sink.write(batch(1), timeout=0)
    assert sink.try_write(batch(9)) is False
    with pytest.raises(headrace.WriteTimeoutError, match=r"'t' stayed full for 0.01 s .*Hint: is a query reading it\?"):
        sink.write(batch(9), timeout=0.01)
    writer = Background(sink.write, batch(2)).until_write_blocks(sink)
    assert not writer.is_done_after(0.2)
    assert sink.statistics().queued == 2
    with ctx.sql("select x from t").execute_stream() as reader:
        first = read(reader)
        writer.result()
        sink.close()
        assert first + reader.read_all()["x"].to_pylist() == [0, 1, 2]


def test_a_write_that_times_out_reports_how_many_of_its_batches_were_written(ctx: SessionContext) -> None:
    """P2: a table of three batches, and room for two of them."""
    sink = ctx.register_streaming_table("t", SCHEMA, capacity=2)
    with pytest.raises(headrace.WriteTimeoutError) as caught:
        sink.write(pa.Table.from_batches([batch(0), batch(1), batch(2)]), timeout=0.02)
    assert caught.value.batches_written == 2
    sink.close()
    assert collect(ctx) == [0, 1]


def test_a_timeout_applies_to_the_whole_call() -> None:
    """P2: room every 0.2 s is in time for one batch of the table, but not for all three."""
    channel = Channel("streaming table 't'", 1)
    sink = TableSink("t", SCHEMA, channel)
    sink.write(batch(0))
    writer = Background(sink.write, pa.Table.from_batches([batch(1), batch(2), batch(3)]), 0.3)
    while not writer.is_done_after(0.2):
        channel.take(0, 0)
    with pytest.raises(headrace.WriteTimeoutError):
        writer.result()
    sink.close()


@pytest.mark.parametrize("timeout", [float("inf"), 1e10, 1e300])
@pytest.mark.parametrize("parts", [1, 2])
def test_a_timeout_longer_than_the_platform_can_wait_waits_like_no_timeout(
    ctx: SessionContext, timeout: float, parts: int
) -> None:
    """P2: infinity is a valid number of seconds."""
    sink = ctx.register_streaming_table("t", SCHEMA, capacity=1)
    sink.write(batch(0))
    data = batch(1) if parts == 1 else pa.Table.from_batches([batch(1), batch(2)])
    writer = Background(sink.write, data, timeout).until_write_blocks(sink)
    reading = Background(collect, ctx)
    writer.result()
    sink.close()
    assert reading.result() == list(range(1 + parts))


# Batches outside of the channel: up to 4 MiB in the scan, 2 MiB waiting for the reader, and as many taken by it.
IN_FLIGHT_BYTES = 8 * 1024 * 1024


@pytest.mark.parametrize("target_partitions", [1, 8])
def test_no_more_than_the_capacity_and_the_batches_in_flight_is_ever_buffered(target_partitions: int) -> None:
    """P2: a reader that stops after one batch stops the producer."""
    half_a_mib = batch(*range(64 * 1024))
    with SessionContext(target_partitions=target_partitions) as ctx:
        sink = ctx.register_streaming_table("t", SCHEMA, capacity=16)
        reader = ctx.sql("select x from t").execute_stream()
        assert fill(sink, half_a_mib) == 16, "nothing is taken before the reader reads"
        delivered = reader.read_next_batch()
        assert fill(sink, half_a_mib) >= 1
        now = sink.statistics()
        assert now.queued == 16
        assert now.bytes - now.queued_bytes - delivered.nbytes <= IN_FLIGHT_BYTES
        reader.close()


# -- ends --------------------------------------------------------------------------------------------


def test_close_ends_the_stream_and_can_be_repeated(ctx: SessionContext) -> None:
    """P3: a waiting reader sees the end, and so does a query that starts afterwards."""
    sink = ctx.register_streaming_table("t", SCHEMA)
    reading = Background(collect, ctx)
    sink.close()
    sink.close()
    assert reading.result() == []
    sink.close()


@pytest.mark.parametrize("end", ["close", "fail"])
def test_after_close_or_fail_every_call_except_close_raises(ctx: SessionContext, end: str) -> None:
    """P3: each message names the table and how it ended; only the first end takes effect."""
    sink = ctx.register_streaming_table("t", SCHEMA)
    sink.write(batch(1))
    ended = "it was closed" if end == "close" else "it was failed with ValueError"
    sink.close() if end == "close" else sink.fail(ValueError("first"))
    with pytest.raises(headrace.ClosedError, match=f"streaming table 't': {ended}"):
        sink.write(batch(2))
    with pytest.raises(headrace.ClosedError, match=f"streaming table 't': {ended}"):
        sink.try_write(batch(2))
    with pytest.raises(headrace.ClosedError, match=f"streaming table 't': {ended}"):
        asyncio.run(sink.write_async(batch(2)))
    with pytest.raises(headrace.ClosedError, match=rf"'t' has ended \({end}"):
        sink.fail(ValueError("second"))
    sink.close()
    if end == "close":
        assert collect(ctx) == [1]
    else:
        with pytest.raises(headrace.TableError, match="ValueError: first"):
            collect(ctx)


class OddError(Exception):
    """An exception class of the producer that cannot be reconstructed from a text."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        (ValueError("source went away"), "ValueError: source went away"),
        (RuntimeError(), "RuntimeError: <no message>"),
        (OddError(1, 2), "OddError: 1 and 2"),
        (StopIteration("no more"), "StopIteration: no more"),
        (asyncio.CancelledError("task"), "CancelledError: task"),
        (headrace.ConsumedError("of another session"), "ConsumedError: of another session"),
        (headrace.ResourcesExhaustedError("of another session"), "ResourcesExhaustedError: of another session"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_a_failed_stream_returns_the_queued_batches_and_then_the_error(
    ctx: SessionContext, cause: BaseException, message: str
) -> None:
    """P4: the error has the exception's class and message, and the exception object itself as its cause."""
    sink = ctx.register_streaming_table("t", SCHEMA, capacity=2)
    sink.write(batch(1))
    sink.write(batch(2))
    Background(sink.fail, cause).result()
    with ctx.sql("select x from t").execute_stream() as reader:
        assert read(reader) == [1, 2]
        with pytest.raises(headrace.TableError, match=f"Table 't' failed: {message}") as caught:
            reader.read_next_batch()
    assert caught.value.__cause__ is cause
    assert caught.value.table == "t"


@pytest.mark.parametrize("cause", [KeyboardInterrupt("in the producer"), SystemExit("in the producer")])
def test_an_interrupt_that_ended_the_producers_thread_does_not_end_the_readers_thread(
    ctx: SessionContext, cause: BaseException
) -> None:
    """P4: Ctrl-C and exit() in the producer are a failed table to the reader, like any other."""
    sink = ctx.register_streaming_table("t", SCHEMA)
    sink.fail(cause)
    error = Background(collect, ctx).error()
    assert isinstance(error, headrace.TableError), repr(error)
    assert f"{type(cause).__name__}: in the producer" in str(error)
    assert error.__cause__ is cause


def test_fail_wakes_a_waiting_reader(ctx: SessionContext) -> None:
    """P4: the error does not wait for another batch."""
    sink = ctx.register_streaming_table("t", SCHEMA)
    with ctx.sql("select x from t").execute_stream() as reader:
        reading = Background(read, reader).until_read_blocks()
        sink.fail(ValueError("source went away"))
        with pytest.raises(headrace.TableError, match="source went away"):
            reading.result()


def test_an_aggregate_over_a_failed_stream_returns_no_result(ctx: SessionContext) -> None:
    """P4: the rows before the failure are not a complete answer."""
    sink = ctx.register_streaming_table("t", SCHEMA)
    sink.write(batch(1, 2))
    sink.fail(ValueError("source went away"))
    with pytest.raises(headrace.TableError, match="source went away"):
        collect(ctx, "select sum(x) from t")
