"""F13: a producer that dies in the middle makes its query fail; a truncated result never looks complete."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pyarrow as pa
import pytest
from rig import SCHEMA, batch, values

import headrace
from support.background import Background

SHAPES = ["SELECT x FROM pushed", "SELECT count(*) FROM pushed", "SELECT x % 2, max(x) FROM pushed GROUP BY 1"]

# Writes batches of known integers to its output for as long as it lives, and ends without an end marker.
PRODUCER_PROCESS = """
import sys
import pyarrow as pa
schema = pa.schema([("x", pa.int64())])
with pa.ipc.new_stream(sys.stdout.buffer, schema) as stream:
    for value in range(1_000_000):
        stream.write_batch(pa.record_batch([pa.array([value], pa.int64())], schema=schema))
        sys.stdout.buffer.flush()
"""


@pytest.fixture
def session():
    with headrace.SessionContext() as session:
        yield session


def original_of(failure: BaseException) -> BaseException | None:
    """What the producer raised: chained, or come out as itself where it asks the process to stop."""
    return failure if isinstance(failure, (KeyboardInterrupt, SystemExit)) else failure.__cause__


@pytest.mark.parametrize("sql", SHAPES)
@pytest.mark.parametrize(
    "kind", [ValueError, StopIteration, GeneratorExit, KeyboardInterrupt, SystemExit, headrace.ConsumerGoneError]
)
def test_a_thread_that_raises_inside_with_fails_the_query(session, kind, sql) -> None:
    """F13, P12: whatever the exception is, the query raises, with that very object as the original."""
    error = kind("source went away")
    sink = session.register_streaming_table("pushed", SCHEMA, capacity=2)

    def produce() -> None:
        with sink:
            for value in range(5):
                sink.write(batch(value))
            raise error

    producer = Background(produce)
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - which of them, the next line says
        session.sql(sql).collect()
    assert original_of(caught.value) is error
    assert producer.outcome()[1] is error


@pytest.mark.parametrize("kind", [ValueError, StopIteration, SystemExit])
def test_what_was_written_before_the_death_is_read_then_the_error_once(session, kind) -> None:
    """F13, P4, S9: the batches before the failure, then the failure, then a reader that is closed."""
    error = kind("cut")
    sink = session.register_streaming_table("pushed", SCHEMA)
    sink.write(batch(1, 2))
    sink.write(batch(3))
    sink.fail(error)
    got: list[int] = []
    reader = session.sql("SELECT x FROM pushed").execute_stream()
    with pytest.raises(BaseException) as caught:  # noqa: PT011, PT012 - the loop is what raises
        for each in reader:
            got.extend(values([each]))
    assert got == [1, 2, 3]
    assert original_of(caught.value) is error
    with pytest.raises(headrace.ClosedError):
        reader.read_next_batch()


@pytest.mark.parametrize("sql", SHAPES)
def test_a_thread_that_ends_and_drops_its_sink_fails_the_query(session, sql) -> None:
    """F13, P12: nobody said close, so the stream may be cut off and the query says so."""

    def produce(sink: headrace.TableSink) -> None:
        sink.write(batch(1))

    with pytest.warns(ResourceWarning, match="dropped without close"):
        Background(produce, session.register_streaming_table("pushed", SCHEMA)).result()
    with pytest.raises(headrace.TableError, match="dropped without close") as caught:
        session.sql(sql).collect()
    assert isinstance(caught.value.__cause__, headrace.ClosedError)


class ProducerDiedError(Exception):
    pass


def feed(sink: headrace.TableSink, process: subprocess.Popen[bytes]) -> None:
    """A pipe that ends says nothing about why: only the exit code tells a whole stream from a cut one."""
    with sink, pa.ipc.open_stream(process.stdout) as stream:
        for each in stream:
            sink.write(each)
        if process.wait():
            raise ProducerDiedError(process.returncode)


@pytest.mark.parametrize("sql", SHAPES)
def test_a_process_that_is_killed_fails_the_query_through_the_thread_that_feeds_it(session, sql) -> None:
    """F13: SIGKILL in mid-stream; what was read is a prefix, and the query raises in any case."""
    sink = session.register_streaming_table("pushed", SCHEMA, capacity=2)
    with subprocess.Popen([sys.executable, "-c", PRODUCER_PROCESS], stdout=subprocess.PIPE) as process:
        feeder = Background(feed, sink, process)
        got: list[int] = []
        reader = session.sql(sql).execute_stream()
        killer = Background(kill_after, process, sink, 20)
        with pytest.raises(headrace.TableError) as caught:  # noqa: PT012 - the loop is what raises
            for each in reader:
                got.extend(values([each]))
        killer.result()
    raised = feeder.outcome()[1]
    assert raised is not None
    assert caught.value.__cause__ is raised
    assert got == (list(range(len(got))) if sql == SHAPES[0] else [])


def kill_after(process: subprocess.Popen[bytes], sink: headrace.TableSink, batches: int) -> None:
    """Send SIGKILL after ``batches`` batches were written."""
    while sink.statistics().batches < batches:
        threading.Event().wait(0.001)
    os.kill(process.pid, signal.SIGKILL)
