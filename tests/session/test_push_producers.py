"""Producers of push tables: many threads, many tables, small batches, Ctrl-C and fork."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from random import Random
from statistics import median
from typing import Any

import pyarrow as pa
import pytest
from test_push_tables import SCHEMA, batch, collect, read

import headrace
from headrace import ConsumerGoneError, SessionContext, SimpleTableProvider, TableSink
from support.background import SECONDS, Background
from support.deadlines import PROGRAM_SECONDS

# -- many producers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [TableSink.close, lambda sink: sink.fail(ValueError("stop"))], ids=["close", "fail"])
def test_close_and_fail_wake_a_blocked_write_in_a_hundred_of_a_hundred_rounds(
    ctx: SessionContext, end: Callable[[TableSink], None]
) -> None:
    """P5: from another thread, in under 5 s; every other write is only about to block."""
    for repetition in range(100):
        sink = ctx.register_streaming_table("t", SCHEMA, capacity=1)
        sink.write(batch(0))
        writer = Background(sink.write, batch(1))
        if repetition % 2:
            writer.until_write_blocks(sink)
        Background(end, sink).result()
        with pytest.raises(headrace.ClosedError):
            writer.result()
        ctx.deregister_table("t")


ROW_WISE = {
    "all columns": "select * from t",
    "a filter that keeps all rows": "select x from t where x >= 0",
    "a projection of a filter": "select y - 1 as x from (select x + 1 as y from t where x % 1000 < 999) where y > 0",
    "a function": "select abs(x) as x from t where length(cast(x as varchar)) < 9",
}


@pytest.mark.parametrize("query", ROW_WISE.values(), ids=ROW_WISE)
@pytest.mark.parametrize("target_partitions", [1, 4, 8])
def test_many_producers_lose_and_duplicate_no_row_and_each_keeps_its_order(target_partitions: int, query: str) -> None:
    """P10: eight threads, a channel of two batches, and every way to write."""
    rows = rows_of_eight_producers(query, target_partitions=target_partitions)
    assert sorted(rows) == list(range(800))
    for number in range(8):
        mine = [row for row in rows if row // 100 == number]
        assert mine == sorted(mine)


@pytest.mark.parametrize("query", ROW_WISE.values(), ids=ROW_WISE)
def test_many_producers_lose_and_duplicate_no_row_without_an_order(query: str) -> None:
    """P10: `ordered=False` gives up the order, and nothing else."""
    assert sorted(rows_of_eight_producers(query, target_partitions=4, ordered=False)) == list(range(800))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select sum(x) as s from (select x from t limit 1000)", 499_500),
        ("select max(abs(x + 1 - n)) as s from (select x, row_number() over () as n from t)", 0),
    ],
)
def test_a_limit_and_a_window_see_the_rows_in_the_order_of_the_writes(query: str, expected: int) -> None:
    """P10: on several partitions, and although other queries share a table's batches among scans."""
    with SessionContext(target_partitions=4) as ctx:
        sink = ctx.register_streaming_table("t", SCHEMA, capacity=2)

        def produce() -> None:
            with contextlib.suppress(ConsumerGoneError), sink:
                for first in range(0, 20_000, 50):
                    sink.write(batch(*range(first, first + 50)))

        producer = Background(produce)
        assert ctx.sql(query).collect().read_all()["s"].to_pylist() == [expected]
        producer.result()


def test_a_long_stream_through_a_filter_on_four_partitions_stays_in_order() -> None:
    """P10: large and small batches, so that some are combined and some are sliced."""
    with SessionContext(target_partitions=4) as ctx:
        sink = ctx.register_streaming_table("t", SCHEMA, capacity=16)

        def produce() -> None:
            first = 0
            for step in range(300):
                count = 30_000 if step % 10 == 0 else 50
                sink.write(batch(*range(first, first + count)))
                first += count
            sink.close()

        producer = Background(produce)
        rows = collect(ctx, "select x from t where x % 3 <> 1")
        producer.result()
    assert rows == [x for x in range(30 * 30_000 + 270 * 50) if x % 3 != 1]


def rows_of_eight_producers(query: str, **settings: Any) -> list[int]:
    """Return the rows of a query over a table of two batches, to which eight threads write in every way."""

    def produce(number: int) -> None:
        rng = Random(number)
        for step in range(100):
            part = batch(number * 100 + step)
            match rng.randrange(3):
                case 0:
                    sink.write(part)
                case 1:
                    while not sink.try_write(part):
                        sink.write(batch(), timeout=SECONDS)
                case _:
                    asyncio.run(sink.write_async(part))

    with SessionContext(**settings) as ctx:
        sink = ctx.register_streaming_table("t", SCHEMA, capacity=2)
        reading = Background(collect, ctx, query)
        producers = [Background(produce, number) for number in range(8)]
        for producer in producers:
            producer.result()
        sink.close()
        return reading.result()


def test_the_owner_of_a_batchs_memory_may_be_dropped_as_soon_as_write_returns(ctx: SessionContext) -> None:
    """P10: the sink keeps a reference to the memory; the documentation says not to change it until it is read."""
    assert "must not be changed until a query has read it" in " ".join((TableSink.__doc__ or "").split())
    memory = bytearray(8 * 1000)
    memory[:8] = (7).to_bytes(8, "little")
    column = pa.Array.from_buffers(pa.int64(), 1000, [None, pa.py_buffer(memory)])
    sink = ctx.register_streaming_table("t", SCHEMA)
    sink.write(pa.record_batch([column], schema=SCHEMA))
    sink.close()
    del memory, column
    gc.collect()
    assert collect(ctx, "select sum(x) from t") == [7]


def test_a_join_of_two_push_tables_needs_a_producer_thread_each(ctx: SessionContext) -> None:
    """P10, P13: a hash join reads one side to its end first, and either side may be that one."""
    left = ctx.register_streaming_table("a", SCHEMA, capacity=1)
    right = ctx.register_streaming_table("b", SCHEMA, capacity=1)

    def produce(sink: TableSink, step: int) -> None:
        with sink:
            for number in range(0, 300, step):
                sink.write(batch(number))

    producers = [Background(produce, left, 2), Background(produce, right, 3)]
    rows = Background(collect, ctx, "select a.x from a join b on a.x = b.x").result()
    assert sorted(rows) == list(range(0, 300, 6))
    for producer in producers:
        producer.result()


# -- many tables -------------------------------------------------------------------------------------

TABLES = 64
ROUNDS = 4
UNION = " union all ".join(f"select x from t{number}" for number in range(TABLES))


def feed_round_robin(sinks: list[TableSink]) -> None:
    """Write one row per table and round, on one thread: one table that is not read blocks them all."""
    for step in range(ROUNDS):
        for number, sink in enumerate(sinks):
            sink.write(batch(number * ROUNDS + step))
    for sink in sinks:
        sink.close()


@pytest.mark.parametrize("target_partitions", [1, 2, 8])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (UNION, list(range(TABLES * ROUNDS))),
        (f"select sum(x) from ({UNION})", [sum(range(TABLES * ROUNDS))]),
        (f"select count(*) from ({UNION}) group by x % 4", [TABLES] * 4),
        (f"select x from ({UNION}) where x % 2 = 0", list(range(0, TABLES * ROUNDS, 2))),
        (f"select x from ({UNION}) order by x", list(range(TABLES * ROUNDS))),
        (f"select u.x from small join ({UNION}) u on small.y = u.x", list(range(8))),
        (f"select count(*) from small join ({UNION}) u on small.y = u.x", [8]),
        (f"select x from ({UNION}) where x > (select max(y) from small)", list(range(8, TABLES * ROUNDS))),
    ],
    ids=["union", "sum", "group by", "filter", "order by", "join", "count of a join", "scalar subquery"],
)
def test_sixty_four_tables_of_capacity_one_are_fed_round_robin(
    query: str, expected: list[int], target_partitions: int
) -> None:
    """P13, F17: many more open tables than cores, and no deadlock."""
    small = pa.table({"y": range(8)})
    with SessionContext(target_partitions=target_partitions) as ctx:
        ctx.register_table("small", SimpleTableProvider(small.schema, lambda: small))
        sinks = [ctx.register_streaming_table(f"t{number}", SCHEMA, capacity=1) for number in range(TABLES)]
        producer = Background(feed_round_robin, sinks)
        rows = Background(collect, ctx, query).result(20.0)
        producer.result()
    assert sorted(rows) == expected


def run_python(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a separate interpreter, with the helpers at its start; return its result with its output."""
    start = (
        "import os, signal, sys, threading, time\n"
        "import pyarrow as pa\n"
        "import headrace\n"
        "SCHEMA = pa.schema([('x', pa.int64())])\n"
        "def batch(*values): return pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA)\n"
    )
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", start + program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
    )


MANY_TABLES = """
count = 6
ctx = headrace.SessionContext()
sinks = [ctx.register_streaming_table(f"t{n}", SCHEMA, capacity=1) for n in range(count)]
for n, sink in enumerate(sinks):
    sink.write(batch(n))
    sink.close()
try:
    rows = ctx.sql(" union all ".join(f"select x from t{n}" for n in range(count))).collect().read_all()
    print("rows", rows.num_rows)
except headrace.ResourcesExhaustedError as error:
    print("refused", error)
    first = ctx.sql("select x from t0 union all select x from t1 union all select x from t2")
    print("three of them", first.collect().read_all().num_rows)
    print("another", ctx.sql("select x from t3").collect().read_all().num_rows)
ctx.close()
"""


def test_more_tables_than_workers_is_an_error_at_the_start_that_names_the_setting() -> None:
    """P13, F17: the failed query consumes no table and keeps no worker, and raising the setting helps."""
    refused = run_python(MANY_TABLES, TOKIO_WORKER_THREADS="4")
    assert refused.stderr == ""
    first, *others = refused.stdout.splitlines()
    assert first.startswith("refused The query scans more tables at once than there are free worker threads")
    assert "Hint: set the environment variable TOKIO_WORKER_THREADS (now 4) to more than the number of tables" in first
    assert others == ["three of them 3", "another 1"]
    raised = run_python(MANY_TABLES, TOKIO_WORKER_THREADS="7")
    assert (raised.stdout, raised.stderr) == ("rows 6\n", "")


# -- small batches -----------------------------------------------------------------------------------


def test_small_batches_are_combined_before_the_engine_gets_them(ctx: SessionContext) -> None:
    """P14: a thousand queued batches become a few, in order."""
    sink = ctx.register_streaming_table("t", SCHEMA, capacity=1000)
    for number in range(1000):
        sink.write(batch(number))
    sink.close()
    batches = list(ctx.sql("select x from t").execute_stream())
    assert len(batches) <= 3
    assert [value for part in batches for value in part["x"].to_pylist()] == list(range(1000))


def test_the_size_of_combined_batches_is_bounded(ctx: SessionContext) -> None:
    """P14: small batches with many rows in total do not become one large batch."""
    sink = ctx.register_streaming_table("t", SCHEMA, capacity=400)
    for _ in range(400):
        sink.write(batch(*range(1000)))
    sink.close()
    sizes = [part.num_rows for part in ctx.sql("select x from t").execute_stream()]
    assert sum(sizes) == 400_000
    assert max(sizes) <= 65_536
    assert len(sizes) <= 40


@pytest.mark.parametrize("query", ["select x from t", "select x + 1 as x from t where x >= 0"])
def test_a_single_batch_is_not_held_back(query: str) -> None:
    """P14: with no other batch queued, a row reaches the reader within 50 ms (median of twenty)."""
    with SessionContext() as ctx:
        sink = ctx.register_streaming_table("t", SCHEMA)
        with ctx.sql(query).execute_stream() as reader:
            waits = []
            for number in range(20):
                reading = Background(read, reader).until_read_blocks()
                started = time.monotonic()
                sink.write(batch(number))
                assert len(reading.result()) == 1
                waits.append(time.monotonic() - started)
            sink.close()
    assert median(waits) < 0.05


def test_the_bound_in_bytes_applies_together_with_the_bound_in_batches(ctx: SessionContext) -> None:
    """P14: one larger batch may be queued alone."""
    sink = ctx.register_streaming_table("t", SCHEMA, capacity=100, max_bytes=1000)
    for _ in range(12):
        assert sink.try_write(batch(*range(10)))
    assert not sink.try_write(batch(*range(10)))
    assert sink.try_write(batch(*range(5)))
    now = sink.statistics()
    assert (now.queued, now.queued_bytes, now.max_bytes) == (13, 1000, 1000)
    large = Background(sink.write, batch(*range(1000))).until_write_blocks(sink)
    reading = Background(collect, ctx, "select count(*) from t")
    large.result()
    sink.close()
    assert reading.result() == [1125]


# -- statistics, Ctrl-C, fork -------------------------------------------------------------------------


def test_statistics_count_written_batches_and_the_time_writers_waited(ctx: SessionContext) -> None:
    """P15: batches, rows, bytes, queued and seconds blocked, before and after a query has read them."""
    sink = ctx.register_streaming_table("t", SCHEMA, capacity=2, max_bytes=1_000_000)
    sink.write(batch(1, 2))
    sink.write(batch(3))
    with pytest.raises(headrace.WriteTimeoutError):
        sink.write(batch(4), timeout=0.05)
    now = sink.statistics()
    assert (now.batches, now.rows, now.bytes) == (2, 3, 24)
    assert (now.queued, now.queued_rows, now.queued_bytes) == (2, 3, 24)
    assert (now.capacity, now.max_bytes, now.state) == (2, 1_000_000, "open")
    assert now.seconds_blocked >= 0.05
    assert "'t' open, 2 of 2 batches queued" in repr(sink)
    sink.close()
    assert collect(ctx) == [1, 2, 3]
    after = sink.statistics()
    assert (after.batches, after.rows, after.queued, after.queued_bytes, after.state) == (2, 3, 0, 0, "closed")
    assert isinstance(after, headrace.SinkStatistics)


INTERRUPTED = """
ctx = headrace.SessionContext()
sink = ctx.register_streaming_table("t", SCHEMA, capacity=1)
sink.write(batch(1))
sent = []
def interrupt():
    while not sink.statistics().waiting_writers:
        time.sleep(0.001)
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
thread = threading.Thread(target=interrupt)
thread.start()
try:
    sink.write(batch(2))
except KeyboardInterrupt:
    print(time.monotonic() - sent[0])
thread.join()
print(sink.statistics().batches, sink.statistics().state)
sink.close()
print(ctx.sql("select x from t").collect().read_all()["x"].to_pylist())
"""


def test_ctrl_c_in_a_blocked_write_raises_at_once_and_queues_nothing() -> None:
    """P15, F20: within a second, and the sink can still be closed and read."""
    done = run_python(INTERRUPTED)
    assert done.stderr == ""
    seconds, state, rows = done.stdout.splitlines()
    assert float(seconds) < 1.0
    assert (state, json.loads(rows)) == ("1 open", [1])


FORKED = """
import asyncio, warnings
ctx = headrace.SessionContext()
sink = ctx.register_streaming_table("t", SCHEMA)
sink.write(batch(1))
def outcome(call):
    try:
        call()
    except headrace.ForkedError as error:
        return "spawn" in str(error)
    return False
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    child = os.fork()
if child == 0:
    calls = [
        lambda: sink.write(batch(2)),
        lambda: sink.try_write(batch(2)),
        lambda: asyncio.run(sink.write_async(batch(2))),
        lambda: sink.fail(ValueError()),
        sink.close,
        sink.statistics,
        lambda: ctx.register_streaming_table("u", SCHEMA),
    ]
    print([outcome(call) for call in calls].count(True), "of", len(calls), flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1])
sink.close()
print(ctx.sql("select x from t").collect().read_all()["x"].to_pylist())
"""


def test_use_after_fork_raises_and_the_parent_continues() -> None:
    """P15, F18: every method of the sink raises, with the hint to spawn instead."""
    done = run_python(FORKED)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["7 of 7", "0", "[1]"]
