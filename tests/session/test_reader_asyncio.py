"""The reader of a result in asyncio: awaited without blocking the loop, with the same ends as on a thread."""

from __future__ import annotations

import asyncio
import threading

import pyarrow as pa
import pytest

import headrace
from headrace import CancelledError, ClosedError, RecordBatchReader, SessionContext, SimpleTableProvider, TableSink

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
ONE = pa.record_batch([pa.array([1]), pa.array(["x"])], schema=SCHEMA)
NOT_YET = 0.2
DEADLINE = 10.0


@pytest.fixture
def sink(ctx: SessionContext) -> TableSink:
    return ctx.register_streaming_table("t", SCHEMA, capacity=4)


@pytest.fixture
def reader(ctx: SessionContext, sink: TableSink) -> RecordBatchReader:
    """A reader over a push table that stays open, so that it waits once the queue is empty."""
    return ctx.sql("select * from t").execute_stream()


def test_a_reader_is_iterated_from_asyncio_without_blocking_the_loop(ctx: SessionContext, sink: TableSink) -> None:
    """S1, S12: the producer is a coroutine of the same loop, so a blocked loop would hang."""

    async def produce() -> None:
        with sink:
            for _ in range(20):
                await sink.write_async(ONE)

    async def consume() -> int:
        async with ctx.sql("select * from t").execute_stream() as reader:
            return sum([batch.num_rows async for batch in reader])

    async def both_together() -> int:
        rows, _ = await asyncio.wait_for(asyncio.gather(consume(), produce()), DEADLINE)
        return rows

    assert asyncio.run(both_together()) == 20


def test_a_cancelled_async_read_loses_no_batch(reader: RecordBatchReader, sink: TableSink) -> None:
    """S12: cancelling the coroutine cancels the wait, not the stream."""

    async def give_up_then_read() -> list[int]:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(reader), 0.01)
        sink.write(ONE)
        sink.close()
        return [batch.num_rows async for batch in reader]

    assert asyncio.run(asyncio.wait_for(give_up_then_read(), DEADLINE)) == [1]


@pytest.mark.parametrize(("end", "kind"), [("cancel", CancelledError), ("close", ClosedError)])
def test_cancel_and_close_from_another_thread_end_an_async_read(
    reader: RecordBatchReader, end: str, kind: type[headrace.HeadraceError]
) -> None:
    """S11: as they end a blocking read."""

    async def read() -> None:
        ended = asyncio.to_thread(lambda: (threading.Event().wait(NOT_YET), getattr(reader, end)()))
        await asyncio.wait_for(asyncio.gather(anext(reader), ended), DEADLINE)

    with pytest.raises(kind):
        asyncio.run(read())


def test_an_async_reader_gets_the_same_ends_as_a_thread(ctx: SessionContext, sink: TableSink) -> None:
    """S9: a failed producer raises, an ended stream ends again and again, and a closed reader refuses."""

    async def check() -> None:
        failing = ctx.sql("select * from t").execute_stream()
        sink.write(ONE)
        sink.fail(ValueError("the source went away"))
        assert (await anext(failing)).num_rows == 1
        with pytest.raises(headrace.TableError, match="the source went away"):
            await anext(failing)
        with pytest.raises(ClosedError, match="failed before"):
            await anext(failing)

        ctx.register_table("whole", SimpleTableProvider(SCHEMA, lambda: [ONE] * 3))
        ended = ctx.sql("select * from whole").execute_stream()
        assert sum([batch.num_rows async for batch in ended]) == 3
        for _ in range(2):
            with pytest.raises(StopAsyncIteration):
                await anext(ended)
        ended.close()
        with pytest.raises(ClosedError):
            await anext(ended)

    asyncio.run(asyncio.wait_for(check(), DEADLINE))
