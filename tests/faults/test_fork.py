"""F18: in a child forked after use every call says so at once, and the child can still exit cleanly."""

from __future__ import annotations

import pytest
from rig import run_script

# Everything a program may have in hand when it forks: a session, frames, readers and sinks, used and parked.
USED = """
def in_child(body):
    # The exit code of a fork that runs body; None if it hung.
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        body()
        os._exit(0)
    if becomes_true(lambda: (ended := os.waitpid(child, os.WNOHANG))[0] and codes.append(ended[1]) is None):
        return os.waitstatus_to_exitcode(codes.pop())
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None

codes = []
session = headrace.SessionContext(target_partitions=4)
session.register_arrow("base", pa.table({"x": range(100_000)}))
session.register_table("pulled", headrace.SimpleTableProvider(SCHEMA, lambda: [batch(1)]))
session.sql("SELECT x % 3, count(*) FROM base GROUP BY 1").collect()
sink = session.register_streaming_table("pushed", SCHEMA, capacity=1)
reader = session.sql("SELECT x FROM pushed").execute_stream()
sink.write(batch(1))
reader.read_next_batch()
unread = session.sql("SELECT x % 3, count(*) FROM base GROUP BY 1").execute_stream()
parked = Background(reader.read_all)
assert becomes_true(waiting_readers)
frame = session.sql("SELECT x FROM base")
"""

# As they would be called: none of them may do anything, wait for anything, or fail in another way.
CALLS = """
import asyncio

def attempt(call):
    try:
        result = call()
        return asyncio.run(result) if asyncio.iscoroutine(result) else result
    except headrace.ForkedError as error:
        assert "spawn" in str(error)
        return "refused"

CALLS = {
    "SessionContext()": headrace.SessionContext,
    "session.sql": lambda: session.sql("SELECT 1"),
    "session.table": lambda: session.table("base"),
    "session.table_exists": lambda: session.table_exists("base"),
    "session.register_table": lambda: session.register_table("t", headrace.SimpleTableProvider(SCHEMA, list)),
    "session.register_streaming_table": lambda: session.register_streaming_table("t", SCHEMA),
    "session.register_arrow": lambda: session.register_arrow("t", pa.table({"x": [1]})),
    "session.register_parquet": lambda: session.register_parquet("t", "/nowhere"),
    "session.register_csv": lambda: session.register_csv("t", "/nowhere"),
    "session.register_json": lambda: session.register_json("t", "/nowhere"),
    "session.register_lance": lambda: session.register_lance("t", "/nowhere"),
    "session.deregister_table": lambda: session.deregister_table("base"),
    "session.statistics": session.statistics,
    "session.close": session.close,
    "frame.collect": frame.collect,
    "frame.execute_stream": frame.execute_stream,
    "frame.execute_stream_partitioned": frame.execute_stream_partitioned,
    "frame.count": frame.count,
    "frame.show": frame.show,
    "frame.schema": frame.schema,
    "frame.explain": frame.explain,
    "frame.select": lambda: frame.select("x"),
    "frame.filter": lambda: frame.filter("x > 1"),
    "frame.sort": lambda: frame.sort("x"),
    "frame.limit": lambda: frame.limit(1),
    "frame.distinct": frame.distinct,
    "frame.union": lambda: frame.union(frame),
    "frame.__arrow_c_stream__": frame.__arrow_c_stream__,
    "reader.read_next_batch": reader.read_next_batch,
    "reader.read_all": reader.read_all,
    "reader.read_pandas": reader.read_pandas,
    "reader.__next__": lambda: next(reader),
    "reader.__anext__": reader.__anext__,
    "reader.__arrow_c_stream__": unread.__arrow_c_stream__,
    "reader.cancel": reader.cancel,
    "reader.close": reader.close,
    "sink.write": lambda: sink.write(batch(1)),
    "sink.write with a timeout": lambda: sink.write(batch(1), timeout=0),
    "sink.try_write": lambda: sink.try_write(batch(1)),
    "sink.write_async": lambda: sink.write_async(batch(1)),
    "sink.close": sink.close,
    "sink.fail": lambda: sink.fail(ValueError("in the child")),
    "sink.statistics": sink.statistics,
}

def call_everything():
    started = time.monotonic()
    accepted = [name for name, call in CALLS.items() if attempt(call) != "refused"]
    report(accepted=accepted, seconds=time.monotonic() - started)

code = in_child(call_everything)
sink.write(batch(2))
sink.close()
report(code=code, parent=parked.result()["x"].to_pylist())
"""


def test_every_call_in_a_fork_is_refused_at_once_and_the_parent_continues() -> None:
    """F18, P15: session, frames, readers and sinks alike, a new session too; the parent notices nothing."""
    facts = run_script(USED + CALLS).require_clean().facts
    assert facts["accepted"] == []
    assert facts["seconds"] < 1.0
    assert facts["code"] == 0
    assert facts["parent"] == [2]


def test_a_fork_taken_while_a_thread_is_inside_a_channel_does_not_hang_on_its_lock() -> None:
    """F18: that thread does not exist in the child and will never let go, so nothing there may wait for it."""
    script = (
        USED
        + """
def let_go():
    for call in (reader.close, reader.cancel, reader.__repr__, sink.close, sink.statistics, sink.__repr__):
        try:
            call()
        except headrace.ForkedError:
            pass
    globals().pop("reader")
    globals().pop("sink")

import contextlib, gc
from headrace.channel.channel import Channel

LOCKS = (type(threading.Lock()), type(threading.RLock()))

def locks_of(thing):
    return [each for each in vars(thing).values() if isinstance(each, LOCKS)]

with contextlib.ExitStack() as held:
    for thing in (session, *(thing for thing in gc.get_objects() if isinstance(thing, Channel))):
        assert locks_of(thing)
        for lock in locks_of(thing):
            held.enter_context(lock)
    code = in_child(let_go)
report(code=code)
sink.close()
"""
    )
    assert run_script(script).require_clean().facts == {"code": 0}


WAYS_OUT = """
def within(handle):
    def leave():
        with handle:
            sys.exit(0)
    return leave

ways = {
    "os._exit": lambda: os._exit(0),
    "sys.exit": lambda: sys.exit(0),
    "inside with session": within(session),
    "inside with frame": within(frame),
    "inside with reader": within(reader),
    "inside with sink": within(sink),
}
report(codes={name: in_child(leave) for name, leave in ways.items()})
sink.close()
"""


def test_a_fork_exits_cleanly_whichever_way_it_leaves() -> None:
    """F18, F19: by os._exit and by sys.exit, with everything in hand, and from inside a with of each."""
    outcome = run_script(USED + WAYS_OUT).require_clean()
    assert {name: code for name, code in outcome.facts["codes"].items() if code != 0} == {}
    assert "Traceback" not in outcome.stderr


def test_a_fork_that_runs_to_the_end_of_the_program_exits_cleanly() -> None:
    """F18: the child falls through to the end of the main module, as fork users often let it."""
    script = (
        USED
        + """
child = os.fork()
if child:
    report(code=os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    sink.close()
"""
    )
    outcome = run_script(script).require_clean()
    assert outcome.facts["code"] == 0
    assert "Traceback" not in outcome.stderr


@pytest.mark.parametrize("parent_first", [False, True])
def test_a_fork_before_the_first_use_works_in_both(parent_first: bool) -> None:
    """F18: importing headrace starts nothing, so a process that forks first may use it everywhere."""
    facts = (
        run_script(
            f"""
            def use():
                with headrace.SessionContext() as session:
                    sink = session.register_streaming_table("pushed", SCHEMA)
                    producer = Background(lambda: [sink.write(batch(n)) for n in range(10)] and sink.close())
                    total = session.sql("SELECT sum(x) AS total FROM pushed").collect().read_all()["total"]
                    producer.result()
                    return total.to_pylist()

            go, gone = os.pipe()
            child = os.fork()
            if child == 0:
                os.read(go, 1)
                report(child=use())
                sys.exit(0)
            if {parent_first}:
                report(parent=use())
            os.write(gone, b"!")
            report(code=os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            if not {parent_first}:
                report(parent=use())
            """
        )
        .require_clean()
        .facts
    )
    assert facts == {"child": [45], "parent": [45], "code": 0}


def test_a_multiprocessing_pool_by_fork_is_refused_and_by_spawn_works(tmp_path) -> None:
    """F18: the error travels from the worker to the parent, and what its hint says to do does work."""
    (tmp_path / "work.py").write_text(
        "import headrace\n"
        "def use(_):\n"
        "    with headrace.SessionContext() as session:\n"
        "        return session.sql('SELECT 1 AS one').collect().read_all().to_pylist()\n"
    )
    facts = (
        run_script(
            f"""
            import multiprocessing
            sys.path.insert(0, {str(tmp_path)!r})
            import work

            if __name__ == "__main__":
                expected = work.use(None)
                with multiprocessing.get_context("fork").Pool(1) as pool:
                    try:
                        pool.apply_async(work.use, (None,)).get(timeout=10)
                    except headrace.ForkedError as error:
                        report(by_fork=str(error))
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    report(by_spawn=pool.apply_async(work.use, (None,)).get(timeout=20) == expected)
            """
        )
        .require_clean()
        .facts
    )
    assert "spawn" in facts["by_fork"]
    assert facts["by_spawn"]
