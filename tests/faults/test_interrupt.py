"""F20: Ctrl-C in anything that blocks comes out as KeyboardInterrupt within a second, and everything is closed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest
from rig import batch, run_script

from headrace.channel.channel import Channel
from support.background import Background

# SIGINT is sent, by the operating system, when the main thread is where it cannot go on by itself.
INTERRUPTING = """
# A process started in the background inherits that Ctrl-C is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
sent = []

def interrupt_when(condition):
    def interrupt():
        assert becomes_true(condition), "never blocked"
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    return Background(interrupt)

def report_after(error, sink=None, reader=None):
    seconds = time.monotonic() - sent[0]
    rested = becomes_true(lambda: is_at_rest(session), seconds=3.0)
    report(raised=type(error).__name__, seconds=seconds, rested=rested, left=what_is_left(session))
    if sink is not None:
        try:
            sink.write(batch(1))
        except headrace.HeadraceError as refusal:
            report(write=type(refusal).__name__)
    if reader is not None:
        try:
            reader.read_next_batch()
        except headrace.HeadraceError as refusal:
            report(read=type(refusal).__name__)
    report(works=session.sql("SELECT 1 AS one").collect().read_all().to_pylist() == [{"one": 1}])

session = headrace.SessionContext()
"""


def interrupted(script: str) -> dict[str, object]:
    outcome = run_script(INTERRUPTING + script).require_clean()
    facts = outcome.facts
    assert facts.pop("raised") == "KeyboardInterrupt"
    assert facts.pop("seconds") < 1.0
    assert facts.pop("rested"), facts["left"]
    assert facts.pop("works")
    facts.pop("left")
    return facts


def test_in_a_blocked_write_inside_with() -> None:
    """F20, P15: the sink is failed by its with, so the query that reads it fails too."""
    facts = interrupted(
        """
sink = session.register_streaming_table("pushed", SCHEMA, capacity=1)
interrupt_when(lambda: sink.statistics().waiting_writers)
try:
    with sink:
        write_until_refused(sink)
except KeyboardInterrupt as error:
    report_after(error, sink)
try:
    session.sql("SELECT x FROM pushed").collect()
except BaseException as error:
    report(reader=type(error.__cause__ or error).__name__)
"""
    )
    assert facts == {"write": "ClosedError", "reader": "KeyboardInterrupt"}


def test_in_a_blocked_write_without_with_nothing_is_queued_and_dropping_the_sink_fails_it() -> None:
    """F20, P15: the interrupted batch is not in the stream, which its owner still has to end."""
    facts = interrupted(
        """
import warnings
warnings.simplefilter("ignore", ResourceWarning)
sink = session.register_streaming_table("pushed", SCHEMA, capacity=1)
sink.write(batch(1))
interrupt_when(lambda: sink.statistics().waiting_writers)
try:
    sink.write(batch(2))
except KeyboardInterrupt as error:
    report_after(error)
report(queued=sink.statistics().queued, batches=sink.statistics().batches)
del sink
try:
    session.sql("SELECT x FROM pushed").collect()
except headrace.TableError as error:
    report(reader=type(error.__cause__).__name__)
"""
    )
    assert facts == {"queued": 1, "batches": 1, "reader": "ClosedError"}


def test_in_the_body_of_with_sink_while_a_thread_reads() -> None:
    """F20, P12: the body was doing something else; the reading thread gets an error, never a clean end."""
    facts = interrupted(
        """
sink = session.register_streaming_table("pushed", SCHEMA)
reading = Background(lambda: session.sql("SELECT x FROM pushed").collect())
in_body = threading.Event()
interrupt_when(lambda: in_body.is_set() and waiting_readers())
try:
    with sink:
        sink.write(batch(1))
        in_body.set()
        while True:  # a signal that comes right before a wait of Python's does not end that wait
            threading.Event().wait(0.05)
except KeyboardInterrupt as error:
    raised = reading.outcome()[1]
    report(reader=type(raised.__cause__ or raised).__name__)
    report_after(error, sink)
"""
    )
    assert facts == {"write": "ClosedError", "reader": "KeyboardInterrupt"}


READS = """
READS = {
    "read_next_batch": lambda: session.sql("SELECT x FROM pushed").execute_stream().read_next_batch(),
    "read_all": lambda: session.sql("SELECT x % 3, count(*) FROM pushed GROUP BY 1").execute_stream().read_all(),
    "iteration": lambda: list(session.sql("SELECT x FROM pushed WHERE x % 7 = 3").execute_stream()),
    "collect": lambda: session.sql("SELECT x FROM pushed ORDER BY x").collect(),
    "count": lambda: session.sql("SELECT x FROM pushed").count(),
    "show": lambda: session.sql("SELECT x FROM pushed").show(),
}
"""


def test_in_a_read_over_a_push_table() -> None:
    """F20, S12: whichever way it is read, everything upstream is closed, so the producer's next write raises."""
    outcome = run_script(
        INTERRUPTING
        + READS
        + """
after = {}
for name, read in READS.items():
    sink = session.register_streaming_table("pushed", SCHEMA)
    interrupt_when(waiting_readers)
    try:
        read()
    except KeyboardInterrupt:
        seconds = time.monotonic() - sent.pop()
    try:
        sink.write(batch(1))
    except headrace.ConsumerGoneError:
        after[name] = seconds
    session.deregister_table("pushed")
rested = becomes_true(lambda: is_at_rest(session), seconds=3.0)
report(after=after, expected=list(READS), rested=rested, left=what_is_left(session))
"""
    ).require_clean()
    facts = outcome.facts
    assert list(facts["after"]) == facts["expected"]
    assert max(facts["after"].values()) < 1.0
    assert facts["rested"], facts["left"]


def test_in_a_read_of_a_reader_that_is_kept() -> None:
    """F20, S12: the reader is closed though nobody drops it, and so is the sink behind it."""
    facts = interrupted(
        """
sink = session.register_streaming_table("pushed", SCHEMA)
reader = session.sql("SELECT x FROM pushed").execute_stream()
sink.write(batch(1))
reader.read_next_batch()
interrupt_when(waiting_readers)
try:
    reader.read_next_batch()
except KeyboardInterrupt as error:
    report_after(error, sink, reader)
"""
    )
    assert facts == {"write": "ConsumerGoneError", "read": "ClosedError"}


def test_in_the_body_of_with_reader() -> None:
    """F20: between two reads, while the query waits to hand over the next batch."""
    facts = interrupted(
        """
sink = session.register_streaming_table("pushed", SCHEMA, capacity=1)
producer = Background(write_until_refused, sink)
in_body = threading.Event()
interrupt_when(lambda: in_body.is_set() and sink.statistics().waiting_writers)
try:
    with session.sql("SELECT x FROM pushed").execute_stream() as reader:
        reader.read_next_batch()
        in_body.set()
        while True:  # a signal that comes right before a wait of Python's does not end that wait
            threading.Event().wait(0.05)
except KeyboardInterrupt as error:
    report(producer=type(producer.result()).__name__)
    report_after(error, sink, reader)
"""
    )
    assert facts == {"producer": "ConsumerGoneError", "write": "ConsumerGoneError", "read": "ClosedError"}


COMPUTING = """
QUERIES = [
    "SELECT count(*) FROM generate_series(1, 100000000000)",
    "SELECT count(*) FROM pulled p JOIN generate_series(1, 100000000000) g ON p.x = g.value",
    "SELECT count(*) FROM pulled p, generate_series(1, 100000000000) g WHERE p.x + g.value < 0",
]
session.register_table("pulled", headrace.SimpleTableProvider(SCHEMA, lambda: [batch(*range(1000))]))
"""


def test_in_a_collect_that_computes() -> None:
    """F20: the engine is busy and has nothing to hand over; it is left at once and stops soon after."""
    outcome = run_script(
        INTERRUPTING
        + COMPUTING
        + """
slowest, left = 0.0, {}
for query in QUERIES:
    interrupt_when(waiting_readers)
    try:
        session.sql(query).collect()
    except KeyboardInterrupt:
        slowest = max(slowest, time.monotonic() - sent.pop())
    if not becomes_true(lambda: is_at_rest(session), seconds=3.0):
        left[query] = what_is_left(session)
report(slowest=slowest, left=left)
os._exit(0)
"""
    )
    assert outcome.facts["slowest"] < 1.0
    assert outcome.facts["left"] == {}
    outcome.require_clean()


def test_in_a_read_over_a_slow_provider() -> None:
    """F20: the provider sleeps on a separate thread, which no signal reaches; the read still ends."""
    outcome = run_script(
        INTERRUPTING
        + """
woken = threading.Event()
def scan():
    yield batch(1)
    woken.wait(20)
session.register_table("pulled", headrace.SimpleTableProvider(SCHEMA, scan))
interrupt_when(waiting_readers)
try:
    session.sql("SELECT x FROM pulled").collect()
except KeyboardInterrupt as error:
    report(seconds=time.monotonic() - sent[0], held=becomes_true(lambda: workers.held == 0, seconds=1.0))
    woken.set()
    report_after(error)
"""
    ).require_clean()
    assert outcome.facts["raised"] == "KeyboardInterrupt"
    assert outcome.facts["seconds"] < 1.0
    assert outcome.facts["held"]
    assert outcome.facts["rested"], outcome.facts["left"]


def test_in_a_statement_that_runs_inside_sql() -> None:
    """F20: CREATE TABLE AS runs in the engine, on the calling thread, and is interrupted there."""
    outcome = run_script(
        INTERRUPTING
        + """
began = time.process_time()
interrupt_when(lambda: time.process_time() - began > 0.3)  # it computes
try:
    session.sql("CREATE TABLE t AS SELECT count(*) AS n FROM generate_series(1, 100000000000)")
except KeyboardInterrupt as error:
    report_after(error)
report(exists=session.table_exists("t"))
"""
    ).require_clean()
    assert outcome.facts["raised"] == "KeyboardInterrupt"
    # The engine looks for signals once a second.
    assert outcome.facts["seconds"] < 2.0
    assert outcome.facts["rested"]
    assert not outcome.facts["exists"]


def test_while_the_engine_plans_and_asks_a_table() -> None:
    """F20: it arrives in a call from the engine back into Python, where it must not become the engine's error."""
    outcome = run_script(
        INTERRUPTING
        + """
import pyarrow.dataset

def interrupt_in(name):
    def look(frame, event, argument):
        asks = event == "call" and frame.f_code.co_name == name
        if asks and not sent and isinstance(frame.f_locals.get("self"), pyarrow.dataset.Dataset):
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
    return look

def profile(look):
    threading.setprofile(look)
    sys.setprofile(look)

raised, rows = {}, {}
for name in ("scanner", "get_fragments"):
    sink = session.register_streaming_table("pushed", SCHEMA)
    sink.write(batch(1))
    sink.close()
    frame = session.sql("SELECT x FROM pushed")
    try:
        profile(interrupt_in(name))
        frame.execute_stream()
    except BaseException as error:
        raised[name] = type(error).__name__
    finally:
        profile(None)
    sent.clear()
    rows[name] = session.sql("SELECT x FROM pushed").collect().read_all()["x"].to_pylist()
    session.deregister_table("pushed")
report(raised=raised, rows=rows, rested=becomes_true(lambda: is_at_rest(session)), left=what_is_left(session))
"""
    )
    names = ("scanner", "get_fragments")
    assert outcome.facts["raised"] == dict.fromkeys(names, "KeyboardInterrupt")
    assert outcome.facts["rows"] == {name: [1] for name in names}
    assert outcome.facts["rested"], outcome.facts["left"]
    outcome.require_clean()


CALLS: dict[str, Callable[[Channel], object]] = {
    "read": lambda channel: channel.take(1, 1),
    "collect": Channel.wait_until_over,
    "write": lambda channel: channel.write(batch(2)),
}


def interrupt_once_the_lock_is_given_up(frame: FrameType, event: str, called: object) -> None:
    """A profiler: a wait of Python's gives its lock up by a call of this name."""
    if event == "c_return" and getattr(called, "__name__", "") == "_release_save":
        sys.setprofile(None)
        raise KeyboardInterrupt


@pytest.mark.parametrize("call", CALLS)
def test_at_the_very_beginning_of_a_wait(call: str) -> None:
    """F20: just when the lock was given up, where Python's own wait() would leave it to nobody."""
    channel = Channel("the channel", 1)
    if call == "write":
        channel.write(batch(1))
    sys.setprofile(interrupt_once_the_lock_is_given_up)
    try:
        with pytest.raises(KeyboardInterrupt):
            CALLS[call](channel)
    finally:
        sys.setprofile(None)
    assert Background(channel.close).result(), "the lock is held by nobody who could release it"
