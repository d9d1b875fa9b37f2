"""F14: a consumer that leaves, again and again: writes raise within a second, and nothing grows."""

from __future__ import annotations

import gc
import weakref

import pytest
from rig import SCHEMA, batch, becomes_true, run_script

import headrace

# A way to leave per round: each of them ends a query whose producer is still writing.
LEAVING = """
def cancels(session):
    reader = session.sql("SELECT x FROM pushed").execute_stream()
    reader.read_next_batch()
    left = time.monotonic()
    reader.cancel()
    return left

def closes(session):
    with session.sql("SELECT x + 1 FROM pushed WHERE x % 2 = 0").execute_stream() as reader:
        reader.read_next_batch()
        left = time.monotonic()
    return left

def drops(session):
    reader = session.sql("SELECT x FROM pushed").execute_stream()
    reader.read_next_batch()
    left = time.monotonic()
    del reader
    return left

def never_reads(session):
    reader = session.sql("SELECT x FROM pushed").execute_stream()
    left = time.monotonic()
    reader.close()
    return left

def limits(session):
    table = session.sql("SELECT x FROM pushed LIMIT 3").collect().read_all()
    assert table["x"].to_pylist() == [0, 1, 2]
    return time.monotonic()

def limits_what_is_filtered(session):
    table = session.sql("SELECT x FROM pushed WHERE x % 7 = 3 LIMIT 2").collect().read_all()
    assert [value % 7 for value in table["x"].to_pylist()] == [3, 3]
    return time.monotonic()

def cancels_from_elsewhere(session):
    reader = session.sql("SELECT count(*) FROM pushed").execute_stream()
    reading = Background(reader.read_next_batch)
    assert becomes_true(waiting_readers)
    left = time.monotonic()
    reader.cancel()
    assert isinstance(reading.outcome()[1], headrace.CancelledError)
    return left

WAYS = [cancels, closes, drops, never_reads, limits, limits_what_is_filtered, cancels_from_elsewhere]
"""

ROUNDS = """
import gc

def round_of(session, leave):
    sink = session.register_streaming_table("pushed", SCHEMA, capacity=4)
    def produce():
        return write_until_refused(sink, rows=10_000), time.monotonic()
    producer = Background(produce)
    left = leave(session)
    refusal, raised = producer.result()
    assert type(refusal) is headrace.ConsumerGoneError, refusal
    session.deregister_table("pushed")
    return raised - left

def count():
    gc.collect()
    pa.default_memory_pool().release_unused()
    return len(os.listdir("/proc/self/task")), pa.total_allocated_bytes(), resident_megabytes()

with headrace.SessionContext() as session:
    for leave in WAYS * 5:
        round_of(session, leave)
    rested_before = becomes_true(lambda: is_at_rest(session))
    threads_before, bytes_before, megabytes_before = count()
    slowest = max(round_of(session, WAYS[number % len(WAYS)]) for number in range({rounds}))
    rested = becomes_true(lambda: is_at_rest(session))
    threads, in_batches, megabytes = count()
    report(slowest=slowest, rested=rested and rested_before, left=what_is_left(session),
           threads=threads - threads_before, in_batches=in_batches - bytes_before,
           megabytes=megabytes - megabytes_before)
"""


@pytest.mark.parametrize("rounds", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_leaving_again_and_again_tells_the_producer_within_a_second_and_nothing_grows(rounds: int) -> None:
    """F14, P7: cancel, close, drop and LIMIT in turn; writes raise within 1 s, no growth of anything."""
    facts = run_script(LEAVING + ROUNDS.format(rounds=rounds)).require_clean().facts
    assert facts["slowest"] < 1.0
    assert facts["rested"], facts["left"]
    # A worker of the engine's pool for blocking calls may come or go.
    assert facts["threads"] <= 2
    # A batch is 80 kB, and none is left; what the allocators of a hundred threads keep levels off.
    assert facts["in_batches"] < 80_000
    assert facts["megabytes"] < 64


ENDLESS = """
class Endless(headrace.TableProvider):
    def schema(self):
        return SCHEMA

    def scan(self):
        while True:
            yield batch(*range(10))

    def partition_count(self):
        return 3

QUERIES = [
    "SELECT x FROM endless LIMIT 3",
    "SELECT x % 3 FROM endless LIMIT 3",
    "SELECT x FROM endless WHERE x % 7 = 3 LIMIT 3",
    "SELECT DISTINCT x FROM endless LIMIT 3",
    "SELECT a.x FROM (SELECT x FROM endless LIMIT 3) a, (SELECT x FROM endless LIMIT 4) b",
]

def to_its_limit(frame):
    frame.collect()

def after_one_batch(frame):
    with frame.execute_stream() as reader:
        reader.read_next_batch()

def unread(frame):
    frame.execute_stream().close()

session = headrace.SessionContext(target_partitions=4)
session.register_table("endless", Endless())
leaks = {}
for sql in QUERIES:
    for leave in (to_its_limit, after_one_batch, unread):
        for _ in range(3):
            leave(session.sql(sql))
        if not becomes_true(lambda: is_at_rest(session), seconds=1.0):
            leaks[leave.__name__ + ": " + sql] = what_is_left(session)
report(leaks=leaks)
"""


def test_leaving_gives_every_worker_back_though_nobody_calls_the_engine_again() -> None:
    """F14, S7: within a second of the end, of a closed and of an unread stream, nothing is held."""
    outcome = run_script(ENDLESS)
    assert outcome.facts["leaks"] == {}
    outcome.require_clean()


COMPUTING = """
ALONE = "SELECT count(*) FROM generate_series(1, 100000000000)"
JOIN = "SELECT count(*) FROM pulled p JOIN generate_series(1, 100000000000) g ON p.x = g.value"
CROSS = "SELECT count(*) FROM pulled p, generate_series(1, 100000000000) g WHERE p.x + g.value < 0"

left = {}
for query, leave in [(ALONE, "cancel"), (JOIN, "close"), (CROSS, "close"), (ALONE, "close the session")]:
    session = headrace.SessionContext()
    session.register_table("pulled", headrace.SimpleTableProvider(SCHEMA, lambda: [batch(*range(1000))]))
    one = "SELECT count(*) FROM generate_series(1, 1)"
    reader = session.sql(one + " UNION ALL " + query).execute_stream()
    reader.read_next_batch()
    {"cancel": reader.cancel, "close": reader.close, "close the session": session.close}[leave]()
    if not becomes_true(lambda: is_at_rest(session), seconds=20.0):
        left[f"{leave}: {query}"] = what_is_left(session)
def busy():
    before = time.process_time()
    threading.Event().wait(0.2)
    return time.process_time() - before
becomes_true(lambda: busy() < 0.1, seconds=10.0)
report(left=left, busy=busy())
os._exit(0)
"""


def test_leaving_a_query_that_computes_stops_it() -> None:
    """F14, S7, S14: the engine has no batch to hand over, and still it stops within seconds."""
    outcome = run_script(COMPUTING)
    assert outcome.facts["left"] == {}
    assert outcome.facts["busy"] < 0.1
    outcome.require_clean()


def test_a_deregistered_table_is_let_go_of_with_all_that_is_queued() -> None:
    """F14: a session that lives long registers and deregisters many tables; none of them stays."""
    with headrace.SessionContext() as session:
        provider = headrace.SimpleTableProvider(SCHEMA, lambda: [batch(1)])
        sink = session.register_streaming_table("pushed", SCHEMA)
        queued = batch(1, 2, 3)
        sink.write(queued)
        sink.close()
        session.register_table("pulled", provider)
        kept = [weakref.ref(provider), weakref.ref(queued)]
        session.deregister_table("pushed")
        session.deregister_table("pulled")
        del provider, queued, sink
        gc.collect()
        # A separate thread releases a removed table.
        assert becomes_true(lambda: [ref() for ref in kept] == [None, None])
