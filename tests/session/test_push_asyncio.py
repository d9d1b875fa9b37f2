"""Push tables that event loops write to."""

from __future__ import annotations

import asyncio

import pytest
from test_push_tables import SCHEMA, batch, collect

from headrace import SessionContext, TableSink


def test_write_async_feeds_a_query_without_blocking_the_loop(ctx: SessionContext) -> None:
    """P15: two coroutines write through a channel of one batch, and a third coroutine keeps running."""

    async def produce(sink: TableSink, first: int) -> None:
        for number in range(100):
            await sink.write_async(batch(first + number))

    async def main() -> list[int]:
        with ctx.register_streaming_table("t", SCHEMA, capacity=1) as sink:
            writing = asyncio.gather(produce(sink, 0), produce(sink, 100))
            while sink.statistics().queued == 0:
                await asyncio.sleep(0)
            done, _ = await asyncio.wait([writing], timeout=0.1)
            assert not done, "nobody reads yet"
            reading = asyncio.create_task(asyncio.to_thread(collect, ctx))
            await writing
        return await reading

    rows = asyncio.run(asyncio.wait_for(main(), 20.0))
    assert [row for row in rows if row < 100] == list(range(100))
    assert [row for row in rows if row >= 100] == list(range(100, 200))


def test_one_event_loop_can_write_to_a_query_and_read_it(ctx: SessionContext) -> None:
    """P15: neither side blocks the other."""

    async def produce(sink: TableSink) -> None:
        with sink:
            for number in range(100):
                await sink.write_async(batch(number))

    async def main() -> list[int]:
        sink = ctx.register_streaming_table("t", SCHEMA, capacity=1)
        producer = asyncio.create_task(produce(sink))
        async with ctx.sql("select x from t").execute_stream() as reader:
            rows = [value async for part in reader for value in part["x"].to_pylist()]
        await producer
        return rows

    assert asyncio.run(asyncio.wait_for(main(), 20.0)) == list(range(100))


def test_a_cancelled_write_async_queues_nothing(ctx: SessionContext) -> None:
    """P15: the query gets only the batches that were written."""

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sink.write_async(batch(2)), 0.02)

    sink = ctx.register_streaming_table("t", SCHEMA, capacity=1)
    sink.write(batch(1))
    asyncio.run(main())
    sink.close()
    assert collect(ctx) == [1]
