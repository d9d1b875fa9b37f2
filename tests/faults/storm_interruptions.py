"""Rounds of a storm with forks, Ctrl-C, and several threads that end the same stream."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

import pyarrow as pa
from rig import SCHEMA, Reader, batch, becomes_true, refusal_of, values
from session_storm import SECONDS, Storm, Told, Way, is_written_to, judge, original_of, read, write
from storm_pulls import flat, require_closed_once
from test_races import QUERIES, Round, read_all

import headrace
from support.background import Background

ALL = "SELECT x FROM pushed"

# -- forks -------------------------------------------------------------------------------------------


def refused(calls: list[Callable[[], object]]) -> bool:
    """Whether each call is refused for being made in a fork, all of them within a second."""
    started = time.monotonic()
    for call in calls:
        try:
            call()
        except headrace.ForkedError:
            continue
        return False
    return time.monotonic() - started < 1.0


def code_of(child: int) -> int | None:
    """The exit code of a child, None if it hangs; then it is aborted, with its stack on stderr."""
    status: list[int] = []

    def has_ended() -> bool:
        ended, code = os.waitpid(child, os.WNOHANG)
        status.extend([code] if ended else [])
        return bool(ended)

    if becomes_true(has_ended, SECONDS):
        return os.waitstatus_to_exitcode(status[0])
    os.kill(child, signal.SIGABRT)
    os.waitpid(child, 0)
    return None


def a_fork_after_use(storm: Storm) -> Told:
    session, sink = storm.session, storm.push()
    reader = storm.sql(ALL).execute_stream()
    batches, accepted = storm.batches(least=2), list[int]()
    write(sink, batches[:1], accepted)
    got = values([reader.read_next_batch()])
    frame = storm.sql("SELECT 1")
    calls: list[Callable[[], object]] = [
        headrace.SessionContext,
        lambda: session.sql("SELECT 1"),
        lambda: session.register_arrow("t", pa.table({"x": [1]})),
        lambda: session.register_streaming_table("t", SCHEMA),
        session.close,
        frame.collect,
        frame.execute_stream,
        reader.read_next_batch,
        reader.cancel,
        lambda: sink.write(batch(1)),
        lambda: sink.try_write(batch(1)),
        sink.close,
        sink.statistics,
    ]
    storm.chance.shuffle(calls)
    # The interpreter's own way out takes much longer than the other.
    leave = storm.chance.choice([sys.exit, *[os._exit] * 4])
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        leave(0 if refused(calls) else 1)
    feeding = Background(close_after, sink, batches[1:], accepted)
    got += values(reader)
    feeding.result(SECONDS)
    code = code_of(child)
    assert code == 0, f"the child ended with {code} by {leave.__name__}"
    return judge("push", accepted, got)


def close_after(sink: headrace.TableSink, batches: list[list[int]], accepted: list[int]) -> None:
    with sink:
        write(sink, batches, accepted)


# -- Ctrl-C ------------------------------------------------------------------------------------------


def interrupt(storm: Storm, call: Callable[[], object], when: Callable[[], object]) -> None:
    """Send Ctrl-C to this thread, the main one, in the midst of a call."""
    main = threading.get_ident()
    sent: list[float] = []

    def send() -> None:
        assert becomes_true(when, SECONDS), "the moment never came"
        sent.append(time.monotonic())
        signal.pthread_kill(main, signal.SIGINT)

    sender = Background(send)
    try:
        returned = call()
    except KeyboardInterrupt:
        storm.took(time.monotonic() - sent[0])
        sender.result(SECONDS)
        return
    raise AssertionError(f"no KeyboardInterrupt: {returned!r}")


def ctrl_c_in_a_write_inside_with(storm: Storm) -> Told:
    sink, batches, accepted = storm.push(), storm.batches(least=6), list[int]()

    def body() -> None:
        with sink:
            write(sink, batches, accepted)

    interrupt(storm, body, lambda: is_written_to(sink))
    assert type(refusal_of(sink)) is headrace.ClosedError
    got, raised = read(storm.sql(ALL))
    assert type(original_of(raised)) is KeyboardInterrupt, repr(raised)
    return judge("push", accepted, got)


def ctrl_c_in_a_write_without_with(storm: Storm) -> Told:
    sink, batches, accepted = storm.push(), storm.batches(least=6), list[int]()
    interrupt(storm, lambda: write(sink, batches, accepted), lambda: is_written_to(sink))
    sink.close()
    got, raised = read(storm.sql(ALL))
    assert raised is None, repr(raised)
    return judge("push", accepted, got)


def ctrl_c_in_a_read(storm: Storm) -> Told:
    sink, batches = storm.push(capacity=20), storm.batches()
    accepted, got = list[int](), list[int]()
    write(sink, batches, accepted)
    reader = storm.sql(ALL).execute_stream()

    def body() -> None:
        for each in reader:
            got.extend(values([each]))

    # With nothing more to come: a read that gets a batch just then is not interrupted, but what comes after it.
    interrupt(storm, body, lambda: len(got) == len(accepted) and storm.is_waited_for())
    assert type(refusal_of(sink)) is headrace.ConsumerGoneError
    assert type(read_all(reader).end) is headrace.ClosedError
    return judge("push", accepted, got)


def ctrl_c_in_a_collect(storm: Storm) -> None:
    sink, batches, accepted = storm.push(capacity=20), storm.batches(), list[int]()
    write(sink, batches, accepted)
    sql = storm.chance.choice([ALL, f"{ALL} ORDER BY x", "SELECT x % 3, count(*) FROM pushed GROUP BY 1"])
    frame = storm.sql(sql)
    interrupt(storm, storm.chance.choice([frame.collect, frame.count]), storm.is_waited_for)
    assert type(refusal_of(sink)) is headrace.ConsumerGoneError


def ctrl_c_while_batches_come(storm: Storm) -> Told:
    """At any moment, and not only while the reader waits; inside of with, which closes it."""
    sink, batches, accepted, got = storm.push(), storm.batches(least=200, most=300), list[int](), list[int]()
    # More than the queue holds: the query has begun.
    at = storm.chance.randint(20, 150)

    def produce() -> headrace.HeadraceError | None:
        try:
            write(sink, batches, accepted)
        except headrace.HeadraceError as error:
            return error
        return None

    def body() -> None:
        with storm.sql(ALL).execute_stream() as reader:
            for each in reader:
                got.extend(values([each]))

    producer = Background(produce)
    # An exception in a finalizer is lost, and nobody can do anything about that.
    gc.disable()
    try:
        interrupt(storm, body, lambda: sink.statistics().batches > at)
    finally:
        gc.enable()
    refusal = producer.result(SECONDS) or refusal_of(sink)
    assert type(refusal) is headrace.ConsumerGoneError, repr(refusal)
    return judge("push", accepted, got, due=0)


# -- races -------------------------------------------------------------------------------------------


def several_end_a_stream(storm: Storm) -> Told:
    """Two or three of close, fail, cancel and the rest, with a writer and a reader, in a separate session."""
    game = Round(storm.chance.randrange(10**9))
    try:
        written, seen = game.play()
        told = judge(
            "push", written.rows, seen.rows, due=None if seen.end is None else 0, ordered=game.query == QUERIES[0]
        )
        game.check(written, seen)
    finally:
        game.session.close()
    return told


def several_leave_a_provider(storm: Storm) -> Told:
    batches = storm.batches(least=50, most=80)
    source = Reader(*(batch(*each) for each in batches))
    storm.pull(lambda: source)
    reader = storm.sql("SELECT x FROM pulled").execute_stream()
    go = threading.Event()
    reading = Background(read_all, reader, go, storm.chance.randrange(5))
    start = threading.Barrier(2)

    def leave(how: Callable[[], None]) -> None:
        start.wait(SECONDS)
        how()

    assert go.wait(SECONDS)
    leaving = [Background(leave, how) for how in (reader.cancel, reader.close)]
    for thread in leaving:
        thread.result(SECONDS)
    seen = reading.result(SECONDS)
    require_closed_once(source)
    if seen.end is not None:
        assert type(seen.end) in (headrace.CancelledError, headrace.ClosedError), repr(seen.end)
        assert type(seen.again) is type(seen.end), repr(seen.again)
    return judge("pull", flat(batches), seen.rows, due=None if seen.end is None else 0)


WAYS: dict[str, list[Way]] = {
    "F18": [a_fork_after_use],
    "F20": [
        ctrl_c_in_a_write_inside_with,
        ctrl_c_in_a_write_without_with,
        ctrl_c_in_a_read,
        ctrl_c_in_a_collect,
        ctrl_c_while_batches_come,
    ],
    "F21": [several_end_a_stream, several_leave_a_provider],
}
