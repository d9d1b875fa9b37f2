"""Rounds of a storm with push tables: producers that die, consumers that leave, slow sides, many tables at once."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow as pa
from rig import SCHEMA, batch, becomes_true, values, write_until_refused
from session_storm import SECONDS, SourceError, Storm, Told, Way, judge, original_of, read, write

import headrace
from support.background import Background

ALL = "SELECT x FROM pushed"
SHAPES = [ALL, ALL, "SELECT count(*) FROM pushed", "SELECT x % 2, max(x) FROM pushed GROUP BY 1"]

# -- the producer dies -------------------------------------------------------------------------------


def judge_failed(sql: str, accepted: list[int], got: list[int]) -> Told | None:
    """What was accepted before the failure comes first; an aggregate of it never does."""
    if sql == ALL:
        return judge("push", accepted, got)
    assert got == [], f"a result of a stream that was cut off: {got}"
    return None


def a_producer_raises_inside_with(storm: Storm) -> Told | None:
    kinds = [SourceError, StopIteration, GeneratorExit, KeyboardInterrupt, SystemExit, headrace.ConsumerGoneError]
    error = storm.chance.choice(kinds)("source went away")
    sink, batches, accepted = storm.push(), storm.batches(), list[int]()

    def produce() -> None:
        with sink:
            write(sink, batches, accepted)
            raise error

    producer = Background(produce)
    sql = storm.chance.choice(SHAPES)
    got, raised = read(storm.sql(sql))
    assert original_of(raised) is error, repr(raised)
    assert producer.outcome(SECONDS)[1] is error
    return judge_failed(sql, accepted, got)


def a_producer_drops_its_sink(storm: Storm) -> Told | None:
    dropped, accepted = storm.dropped, list[int]()
    # The thread is the only one that holds the sink.
    producer = Background(write, storm.push(), storm.batches(), accepted)
    sql = storm.chance.choice(SHAPES)
    got, raised = read(storm.sql(sql))
    producer.result(SECONDS)
    assert type(raised) is headrace.TableError, repr(raised)
    assert type(raised.__cause__) is headrace.ClosedError
    assert storm.dropped == dropped + 1, "nobody was warned"
    return judge_failed(sql, accepted, got)


PROCESS_ROWS = 500
PROCESS_BATCHES = 64


@cache
def stream_file() -> Path:
    """A stream of known integers without its end marker, several times what a pipe holds."""
    path = Path(tempfile.mkdtemp(), "stream")
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, SCHEMA) as stream:
        for number in range(PROCESS_BATCHES):
            stream.write_batch(batch(*range(number * PROCESS_ROWS, (number + 1) * PROCESS_ROWS)))
    os.truncate(path, path.stat().st_size - 8)
    return path


def a_process_that_produces_is_killed(storm: Storm) -> Told | None:
    kill_at = storm.chance.randrange(PROCESS_BATCHES)
    reached = threading.Event()
    sink = storm.push()

    def produce(process: subprocess.Popen[bytes]) -> None:
        with sink, pa.ipc.open_stream(process.stdout) as stream:
            for number, each in enumerate(stream):
                sink.write(each)
                if number == kill_at:
                    reached.set()
            if process.wait():
                raise SourceError(process.returncode)

    def kill(process: subprocess.Popen[bytes]) -> None:
        assert reached.wait(SECONDS)
        process.kill()

    # When it has written the file it waits for input, so that it never ends by itself.
    command = ["cat", str(stream_file()), "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        producer, killer = Background(produce, process), Background(kill, process)
        sql = storm.chance.choice(SHAPES)
        got, raised = read(storm.sql(sql))
        killer.result(SECONDS)
        died = producer.outcome(SECONDS)[1]
    assert died is not None
    assert original_of(raised) is died, repr(raised)
    return judge_failed(sql, list(range(sink.statistics().rows)), got)


# -- the consumer leaves -----------------------------------------------------------------------------

ROWS = 1000


def while_it_is_written(storm: Storm, leave: Callable[[], tuple[list[int], float]], *, due: int) -> Told:
    """A consumer that leaves, at a moment that it tells, a producer that would never stop."""
    sink = storm.push()

    def produce() -> tuple[headrace.HeadraceError, float]:
        return write_until_refused(sink, rows=ROWS), time.monotonic()

    producer = Background(produce)
    got, left = leave()
    refusal, told = producer.result(SECONDS)
    assert type(refusal) is headrace.ConsumerGoneError, repr(refusal)
    storm.took(told - left)
    return judge("push", range(sink.statistics().rows), got, due=due)


def a_consumer_cancels(storm: Storm) -> Told:
    def leave() -> tuple[list[int], float]:
        reader = storm.sql(ALL).execute_stream()
        got = values([reader.read_next_batch()])
        left = time.monotonic()
        reader.cancel()
        return got, left

    return while_it_is_written(storm, leave, due=ROWS)


def a_consumer_closes_its_reader(storm: Storm) -> Told:
    def leave() -> tuple[list[int], float]:
        with storm.sql(ALL).execute_stream() as reader:
            got = values([reader.read_next_batch()])
            left = time.monotonic()
        return got, left

    return while_it_is_written(storm, leave, due=ROWS)


def a_consumer_drops_its_reader(storm: Storm) -> Told:
    def leave() -> tuple[list[int], float]:
        got = values([storm.sql(ALL).execute_stream().read_next_batch()])
        return got, time.monotonic()

    return while_it_is_written(storm, leave, due=ROWS)


def a_consumer_never_reads(storm: Storm) -> Told:
    def leave() -> tuple[list[int], float]:
        reader = storm.sql(ALL).execute_stream()
        left = time.monotonic()
        reader.close()
        return [], left

    return while_it_is_written(storm, leave, due=0)


def a_limit_ends_the_query(storm: Storm) -> Told:
    limit = storm.chance.randint(1, 3 * ROWS)

    def leave() -> tuple[list[int], float]:
        got = storm.sql(f"{ALL} LIMIT {limit}").collect().read_all()["x"].to_pylist()
        assert len(got) == limit, f"{len(got)} rows of {limit}"
        return got, time.monotonic()

    return while_it_is_written(storm, leave, due=limit)


def a_consumer_cancels_from_elsewhere(storm: Storm) -> Told:
    def leave() -> tuple[list[int], float]:
        reader = storm.sql("SELECT count(*) FROM pushed").execute_stream()
        reading = Background(reader.read_next_batch)
        assert becomes_true(storm.is_waited_for, SECONDS)
        left = time.monotonic()
        reader.cancel()
        assert type(reading.outcome(SECONDS)[1]) is headrace.CancelledError
        return [], left

    return while_it_is_written(storm, leave, due=0)


# -- slow sides --------------------------------------------------------------------------------------


def a_slow_consumer(storm: Storm) -> Told:
    sink, batches, accepted = storm.push(), storm.batches(least=4, most=30), list[int]()
    # Set while the producer cannot go on: at a full queue, and when it is done.
    held_back = threading.Event()
    most_queued = 0

    def produce() -> None:
        nonlocal most_queued
        with sink:
            for each in batches:
                if not sink.try_write(batch(*each)):
                    held_back.set()
                    sink.write(batch(*each))
                    held_back.clear()
                accepted.extend(each)
                most_queued = max(most_queued, sink.statistics().queued)
        held_back.set()

    producer = Background(produce)
    got: list[int] = []
    assert held_back.wait(SECONDS)
    for each in storm.sql(ALL).execute_stream():
        assert held_back.wait(SECONDS), "neither held back nor done"
        got.extend(values([each]))
    producer.result(SECONDS)
    assert most_queued <= sink.statistics().capacity
    return judge("push", accepted, got)


def a_slow_producer(storm: Storm) -> Told:
    sink, batches, accepted = storm.push(), storm.batches(least=4), list[int]()
    arrived = threading.Semaphore(0)

    def produce() -> None:
        with sink:
            for each in batches:
                write(sink, [each], accepted)
                for _ in each:
                    assert arrived.acquire(timeout=SECONDS), "a batch was held back"

    producer = Background(produce)
    got: list[int] = []
    for each in storm.sql(ALL).execute_stream():
        got.extend(values([each]))
        arrived.release(each.num_rows)
    producer.result(SECONDS)
    assert sink.statistics().seconds_blocked == 0
    return judge("push", accepted, got)


# -- many tables -------------------------------------------------------------------------------------


def many_tables_at_once(storm: Storm) -> Told:
    """One producer feeds them in turn through a capacity of 1; in some rounds it fails the last one at its end."""
    names = [f"pushed_{number}" for number in range(storm.chance.randint(8, 16))]
    sinks = [storm.push(name, capacity=1) for name in names]
    rounds = storm.chance.randint(1, 4)
    error = storm.chance.choice([None, None, SourceError("the last of them")])

    def produce() -> None:
        for turn in range(rounds):
            for number, sink in enumerate(sinks):
                sink.write(batch(turn * len(sinks) + number))
        for sink in sinks[:-1]:
            sink.close()
        if error is None:
            sinks[-1].close()
        else:
            sinks[-1].fail(error)

    producer = Background(produce)
    got, raised = read(storm.sql(" UNION ALL ".join(f"SELECT x FROM {name}" for name in names)))
    producer.result(SECONDS)
    assert original_of(raised) is error, repr(raised)
    for number in range(len(names)):
        of_one = [value for value in got if value % len(names) == number]
        assert of_one == sorted(of_one), "rows of one table came out of order"
    # When one of many fails, the others end with it, wherever they are.
    return judge("push", range(rounds * len(names)), got, due=None if error is None else 0, ordered=False)


WAYS: dict[str, list[Way]] = {
    "F13": [a_producer_raises_inside_with, a_producer_drops_its_sink, a_process_that_produces_is_killed],
    "F14": [
        a_consumer_cancels,
        a_consumer_closes_its_reader,
        a_consumer_drops_its_reader,
        a_consumer_never_reads,
        a_limit_ends_the_query,
        a_consumer_cancels_from_elsewhere,
    ],
    "F15": [a_slow_consumer, a_slow_producer],
    "F17": [many_tables_at_once],
}
