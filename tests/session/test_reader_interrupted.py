"""Readers in a separate process: interrupted with Ctrl-C, and collected as garbage at any moment."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from support.deadlines import PROGRAM_SECONDS

DEADLINE = 30.0

READS = {
    "a read": "reader.read_next_batch()",
    "collect": "frame.collect()",
    "asyncio": "asyncio.run(read_async(reader))",
    "an aggregate of a pull table": "aggregate.read_all()",
}

# Each read prints a line and then blocks forever. After Ctrl-C, the next write must raise and the session be usable.
INTERRUPTED = """
import asyncio, sys, threading
import pyarrow as pa
import headrace

schema = pa.schema([("k", pa.int64())])
one = pa.record_batch([pa.array([1])], schema=schema)
let_go = threading.Event()

async def read_async(reader):
    async with reader:
        async for _ in reader:
            pass

def silent():
    yield one
    let_go.wait()

for read in sys.argv[1:]:
    with headrace.SessionContext() as ctx:
        sink = ctx.register_streaming_table("t", schema)
        sink.write(one)
        ctx.register_table("silent", headrace.SimpleTableProvider(schema, silent))
        frame = ctx.sql("select * from t")
        if "frame" not in read:
            reader = frame.execute_stream()
            reader.read_next_batch()
        aggregate = ctx.sql("select count(*) from silent").execute_stream()
        blocking_read = eval("lambda: " + read)
        try:
            print("reading", flush=True)
            blocking_read()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        if "aggregate" in read:
            reader.close()
        try:
            while True:
                sink.write(one, timeout=1)
        except headrace.ConsumerGoneError:
            print("write raised", flush=True)
        assert ctx.sql("select 1 as one").count() == 1
let_go.set()
print("done", flush=True)
"""


@pytest.fixture
def interrupted() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", INTERRUPTED, *READS.values()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_ctrl_c_in_a_blocked_read_raises_within_two_seconds(interrupted: subprocess.Popen[str]) -> None:
    """S12: for every way to read; the producer's next write raises, and the session stays usable."""
    assert interrupted.stdout is not None
    for name in READS:
        assert interrupted.stdout.readline() == "reading\n", interrupted.stderr.read()
        # The line is printed just before the read: give the read time to block.
        time.sleep(0.2)
        sent = time.monotonic()
        interrupted.send_signal(signal.SIGINT)
        assert interrupted.stdout.readline() == "interrupted\n", name
        assert time.monotonic() - sent < 2.0, name
        assert interrupted.stdout.readline() == "write raised\n", name
    # communicate() would not return what was buffered with the line before.
    assert (interrupted.stdout.read(), interrupted.stderr.read()) == ("done\n", "")
    assert interrupted.wait(DEADLINE) == 0


LATE = """
import signal
import pyarrow as pa
import headrace

class LateError(Exception):
    pass

def too_late(*_):
    raise LateError("too late")

schema = pa.schema([("k", pa.int64())])
signal.signal(signal.SIGALRM, too_late)
in_cpp = pa.ipc.RecordBatchStreamReader.read_next_batch
with headrace.SessionContext() as ctx:
    sink = ctx.register_streaming_table("t", schema)
    reader = ctx.sql("select * from t").execute_stream()
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    for read in (reader.read_next_batch, reader.read_next_batch, lambda: in_cpp(reader)):
        try:
            read()
        except Exception as error:
            print(f"{type(error).__name__}: {error}")
    try:
        sink.write(pa.record_batch([[1]], schema=schema))
    except headrace.ConsumerGoneError:
        print("write raised")
"""


def test_a_blocked_read_raises_what_a_signal_handler_raises_and_is_closed() -> None:
    """S12: like Ctrl-C, for an exception of any type."""
    done = subprocess.run(
        [sys.executable, "-c", LATE], capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False
    )
    closed = "ClosedError: The reader is closed."
    assert done.stdout.splitlines() == ["LateError: too late", closed, closed, "write raised"], done.stderr


# Garbage collection runs on any thread at any moment: also on the thread that is passing a batch to the reader
# that is garbage.
GARBAGE = """
import faulthandler, gc, os, sys, threading
import pyarrow as pa
import headrace

faulthandler.dump_traceback_later(15, exit=True)
schema = pa.schema([("k", pa.int64())])
one = pa.record_batch([pa.array([1])], schema=schema)

def collect(frame, event, argument):
    files = [os.path.basename(each.f_code.co_filename) for each in (frame, frame.f_back) if each is not None]
    if event == "call" and files == [sys.argv[1], "channel.py"] and frame.f_code.co_name.endswith(sys.argv[2]):
        gc.collect()

class Cycle:
    pass

with headrace.SessionContext() as ctx:
    sink = ctx.register_streaming_table("t", schema, capacity=1000)
    gc.disable()
    before = set(threading.enumerate())
    threading.setprofile(collect)
    cycle = Cycle()
    cycle.itself = cycle
    cycle.reader = ctx.sql("select * from t").execute_stream()
    sink.write(one)
    cycle.reader.read_next_batch()
    reading = set(threading.enumerate()) - before
    assert reading
    del cycle
    try:
        while True:
            sink.write(one, timeout=1)
    except headrace.ConsumerGoneError:
        print("write raised", flush=True)
    for thread in reading:
        thread.join(5)
        assert not thread.is_alive(), thread.name
"""


@pytest.mark.parametrize("moment", [("channel.py", ""), ("threading.py", "wait")], ids=["in a lock", "before a wait"])
def test_a_reader_that_is_garbage_is_released_on_any_thread_that_collects_it(moment: tuple[str, str]) -> None:
    """S7: a reader in a reference cycle releases everything, causes no deadlock, and leaves no thread waiting."""
    command = [sys.executable, "-c", GARBAGE, *moment]
    run = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    assert (run.returncode, run.stdout, run.stderr) == (0, "write raised\n", ""), run.stderr
