"""What a session counts: its running queries, the readers that wait, and the worker threads that are held."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from headrace import DataFrame, RecordBatchReader, SessionContext, SessionStatistics, TableSink
from headrace.engine.runtime import workers
from support.background import SECONDS, Background

SCHEMA = pa.schema([("x", pa.int64())])
NOTHING = SessionStatistics(running_queries=0, waiting_readers=0, held_workers=0)


@pytest.fixture
def sink(ctx: SessionContext) -> Iterator[TableSink]:
    with ctx.register_streaming_table("events", SCHEMA) as sink:
        yield sink


def until(ctx: SessionContext, expected: SessionStatistics) -> None:
    """Wait until the session counts this: a pump thread lets go a moment after the reader has ended."""
    deadline = time.monotonic() + SECONDS
    while (now := ctx.statistics()) != expected:
        assert time.monotonic() < deadline, now
        time.sleep(0.0005)


def test_a_session_without_queries_counts_nothing(ctx: SessionContext, sink: TableSink) -> None:
    """S16: neither tables nor frames that were not executed nor statements that have ended are counted."""
    frame = ctx.sql("SELECT x FROM events")
    ctx.sql("CREATE TABLE two AS SELECT 2 AS n")
    assert ctx.statistics() == NOTHING
    frame.close()


def test_a_query_is_counted_from_its_start_to_its_release(ctx: SessionContext, sink: TableSink) -> None:
    """S16: with a worker for each scan, and before anything is read."""
    reader = ctx.sql("SELECT x FROM events").execute_stream()
    assert ctx.statistics() == SessionStatistics(1, 0, 1)
    ctx.register_arrow("numbers", pa.table({"x": [1]}))
    other = ctx.sql("SELECT x FROM numbers").execute_stream()
    assert ctx.statistics() == SessionStatistics(2, 0, 1)
    other.close()
    until(ctx, SessionStatistics(1, 0, 1))
    reader.close()
    until(ctx, NOTHING)


def test_each_scan_of_each_session_holds_a_worker(ctx: SessionContext) -> None:
    """S16, P13: a session counts its own, and together they are what the process has reserved."""
    before = workers.held
    with SessionContext() as other:
        readers = []
        for session, tables in ((ctx, 3), (other, 2)):
            for number in range(tables):
                session.register_streaming_table(f"t{number}", SCHEMA).close()
            sql = " UNION ALL ".join(f"SELECT x FROM t{number}" for number in range(tables))
            readers.append(session.sql(sql).execute_stream())
        assert (ctx.statistics().held_workers, other.statistics().held_workers) == (3, 2)
        assert workers.held - before == 5
        for reader in readers:
            reader.close()


@pytest.mark.parametrize("read", [lambda frame: frame.execute_stream().read_all(), DataFrame.collect, DataFrame.count])
def test_a_reader_that_waits_is_counted(
    ctx: SessionContext, sink: TableSink, read: Callable[[DataFrame], object]
) -> None:
    """S16: for a batch, and for the whole result."""
    reading = Background(read, ctx.sql("SELECT x FROM events"))
    until(ctx, SessionStatistics(1, 1, 1))
    sink.close()
    reading.result()
    until(ctx, NOTHING)


def test_a_coroutine_that_waits_is_counted(ctx: SessionContext, sink: TableSink) -> None:
    """S16"""

    async def read() -> SessionStatistics:
        reader = ctx.sql("SELECT x FROM events").execute_stream()
        reading = asyncio.create_task(anext(reader, None))
        while not (now := ctx.statistics()).waiting_readers:
            await asyncio.sleep(0)
        sink.close()
        await reading
        return now

    assert asyncio.run(read()) == SessionStatistics(1, 1, 1)


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_readers_of_all_partitions_are_counted(partitions: int) -> None:
    """S16, S13: each of them waits by itself, in one query; each partition of a push table holds a worker."""
    with SessionContext(target_partitions=partitions) as ctx:
        sinks = [ctx.register_streaming_table(name, SCHEMA) for name in ("a", "b")]
        readers = ctx.sql("SELECT x FROM a UNION ALL SELECT x FROM b").execute_stream_partitioned()
        reading = [Background(reader.read_all) for reader in readers]
        until(ctx, SessionStatistics(1, 2 * partitions, 2 * partitions))
        for sink in sinks:
            sink.close()
        for each in reading:
            each.result()


def test_a_closed_session_counts_what_its_queries_still_hold(ctx: SessionContext, sink: TableSink) -> None:
    """S16, S14: nothing, soon after; the call is none that a closed session refuses."""
    reading = Background(ctx.sql("SELECT x FROM events").execute_stream().read_all)
    until(ctx, SessionStatistics(1, 1, 1))
    ctx.close()
    reading.outcome()
    until(ctx, NOTHING)


def test_a_reader_that_was_dropped_is_counted_no_more(ctx: SessionContext, sink: TableSink) -> None:
    """S16, S7: also where only garbage collection finds it, during any call."""
    cycle: list[list[object] | RecordBatchReader] = [ctx.sql("SELECT x FROM events").execute_stream()]
    cycle.append(cycle)  # type: ignore[arg-type]
    assert ctx.statistics().running_queries == 1
    del cycle
    gc.collect()
    until(ctx, NOTHING)
