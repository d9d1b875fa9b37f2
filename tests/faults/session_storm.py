"""A storm: hundreds of seeded rounds in one process, each with a fault, and what is held before, between and after.

A round is a function of `storm_pushes`, `storm_pulls` or `storm_interruptions`. It makes its fault, holds what it sees
against the guarantees, and says what became of the rows. The storm adds that up, and counts threads, descriptors and
memory after a warm-up, after half of the rounds and at the end, each time when everything is at rest: whatever a
round leaves behind, half of the rounds leave many times.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import random
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
from rig import (
    SCHEMA,
    Reader,
    batch,
    becomes_true,
    is_at_rest,
    report,
    resident_megabytes,
    values,
    what_is_left,
    write_until_refused,
)

import headrace
from support.background import Background

# Longer than anything takes that is not stuck, on a machine that has other things to do.
SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Told:
    """What became of the rows of one round.

    Attributes:
        mode: Whether they were pushed or pulled.
        rows: How many had to come, or came all the same.
        lost: How many of those that had to come did not.
        doubled: How many came that were not sent, or more often than they were.
        in_order: Whether they came in the order they were sent in, from the first one on.
    """

    mode: str
    rows: int
    lost: int
    doubled: int
    in_order: bool = True


def judge(mode: str, sent: Sequence[int], got: Sequence[int], *, due: int | None = None, ordered: bool = True) -> Told:
    """Hold the rows that came against those that were sent.

    Args:
        mode: Whether they were pushed or pulled.
        sent: The rows that the sink took, or the provider gave.
        got: The rows that the reader delivered.
        due: How many of them must have come; all if not given.
        ordered: Whether the plan keeps the order.
    """
    must = Counter(sent if due is None else sent[:due])
    came = Counter(got)
    lost, doubled = (must - came).total(), (came - Counter(sent)).total()
    return Told(mode, (must | came).total(), lost, doubled, not ordered or list(got) == list(sent[: len(got)]))


# A round that has no rows to compare says nothing of them, and is not counted.
Way = Callable[["Storm"], Told | None]


class SourceError(Exception):
    """What producers and providers raise when they are to fail."""


def read(frame: headrace.DataFrame) -> tuple[list[int], BaseException | None]:
    """What a query delivers, and what it then raises; None is a clean end."""
    got: list[int] = []
    try:
        for each in frame.execute_stream():
            got.extend(values([each]))
    except BaseException as error:  # noqa: BLE001 - looked at by the round
        return got, error
    return got, None


def write(sink: headrace.TableSink, batches: Iterable[Sequence[int]], accepted: list[int]) -> None:
    """Write batches, noting the rows that the sink took."""
    for each in batches:
        sink.write(batch(*each))
        accepted.extend(each)


def is_written_to(sink: headrace.TableSink) -> bool:
    """Whether a writer waits for room."""
    return sink.statistics().waiting_writers > 0


def original_of(raised: BaseException | None) -> BaseException | None:
    """What a table's own code raised: chained, or come out as itself where it asks the process to stop."""
    return raised.__cause__ if type(raised) is headrace.TableError else raised


@dataclass(slots=True)
class Total:
    """The rounds of one mode, added up."""

    times: int = 0
    rows: int = 0
    lost: int = 0
    doubled: int = 0

    def add(self, told: Told) -> None:
        self.times += 1
        self.rows += told.rows
        self.lost += told.lost
        self.doubled += told.doubled


@dataclass
class Storm:
    """What the rounds of a storm share: the sessions, the chances, and integers that are sent once."""

    seed: int
    sessions: list[headrace.SessionContext]
    slowest: float = 0.0
    dropped: int = 0
    warnings: list[str] = field(default_factory=list)
    accompanied: headrace.SessionContext | None = None
    totals: dict[str, Total] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.session = self.sessions[0]
        self._integers = itertools.count()
        self._tables: list[str] = []
        warnings.simplefilter("always")
        warnings.showwarning = self._warned

    def _warned(self, message: Warning | str, *_: Any) -> None:
        # A dropped sink says so once; nothing else is to be warned of.
        if "dropped without close" in str(message):
            self.dropped += 1
        else:
            self.warnings.append(str(message))

    def push(self, name: str = "pushed", **settings: int) -> headrace.TableSink:
        """Return the sink of a new push table, which is small by default."""
        settings.setdefault("capacity", self.chance.randint(1, 4))
        sink = self.session.register_streaming_table(name, SCHEMA, **settings)
        self._tables.append(name)
        return sink

    def pull(self, scan: Callable[[], Any], name: str = "pulled") -> None:
        """A new table with a provider."""
        self.session.register_table(name, headrace.SimpleTableProvider(SCHEMA, scan))
        self._tables.append(name)

    def sql(self, text: str) -> headrace.DataFrame:
        return self.session.sql(text)

    def batches(self, least: int = 0, most: int = 12) -> list[list[int]]:
        """Integers that no other round sends, in batches of one to forty rows."""
        sizes = [self.chance.randint(1, 40) for _ in range(self.chance.randint(least, most))]
        return [list(itertools.islice(self._integers, size)) for size in sizes]

    # Asked of the session: looking at the frames of a running thread, thousands of times, is not safe in Python 3.11.
    def is_waited_for(self) -> bool:
        """Whether a thread waits for a batch, or for the whole result, of the one query of the round."""
        # The company has one reader, which waits from time to time.
        others = 1 if self.session is self.accompanied else 0
        return self.session.statistics().waiting_readers > others

    def took(self, seconds: float) -> None:
        """Note how long something took that may take a second."""
        self.slowest = max(self.slowest, seconds)

    def play(self, way: Way) -> None:
        """One round."""
        self.session = self.chance.choice(self.sessions)
        sys.setswitchinterval(self.chance.choice([5e-3, 1e-4, 1e-5]))
        try:
            told = way(self)
        except SystemExit:  # the way out of a forked child
            raise
        except BaseException:
            self._clear()
            raise
        self._clear()
        if told is not None:
            self.totals.setdefault(told.mode, Total()).add(told)
            assert not told.lost, f"{told.lost} of {told.rows} rows are lost"
            assert not told.doubled, f"{told.doubled} rows came that were not sent, or twice"
            assert told.in_order, "rows came out of order"
        assert not self.warnings, self.warnings

    def _clear(self) -> None:
        for name in self._tables:
            self.session.deregister_table(name)
        self._tables.clear()
        sys.setswitchinterval(5e-3)

    def _is_at_rest(self) -> bool:
        self.session.statistics()  # frees what the engine has dropped
        return is_at_rest(*self.sessions) and threading.active_count() == 1

    def count(self) -> dict[str, float]:
        """Count the process's resources when everything is at rest."""
        gc.collect()
        assert becomes_true(self._is_at_rest, SECONDS), f"{what_is_left(*self.sessions)}; {threading.enumerate()}"
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
            raise AssertionError("a child process is left")
        gc.collect()
        pa.default_memory_pool().release_unused()
        return {
            "threads": len(os.listdir("/proc/self/task")),
            "descriptors": len(os.listdir("/proc/self/fd")),
            "objects": len(gc.get_objects()),
            "bytes in batches": pa.total_allocated_bytes(),
            "megabytes": resident_megabytes(),
        }


def rage(ways: Sequence[Way], *, rounds: int, seed: int, accompanied: bool = False) -> dict[str, Any]:
    """Play rounds, each in one of the ways; what became of the rows, and what was held on the way.

    Stops at the first round that breaks a guarantee, and says which one it was.
    """
    with headrace.SessionContext() as one, headrace.SessionContext(target_partitions=2) as other:
        storm = Storm(seed, [one, other])
        started = time.monotonic()
        broken, counts, played = "", [], Counter[str]()
        # Every way to warm up, and then in turn, so that both halves are of the same make.
        warm_up = [*ways] if accompanied else [*ways, *ways]
        deck = [*warm_up, *(ways[number % len(ways)] for number in range(rounds))]
        stops = (len(warm_up), len(warm_up) + rounds // 2, len(deck))
        number, way = 0, ways[0]
        try:
            for first, last in zip((0, *stops), stops, strict=False):
                part = deck[first:last]
                storm.chance.shuffle(part)
                with company(storm, other) if accompanied else contextlib.nullcontext():
                    for number, way in enumerate(part, first):  # noqa: B007 - reported if it breaks
                        storm.play(way)
                        played[way.__name__] += 1
                counts.append(storm.count())
        except AssertionError:
            broken = f"seed {seed}, round {number}, {way.__name__}:\n{traceback.format_exc()}"
        return {
            "seed": seed,
            "seconds": time.monotonic() - started,
            "broken": broken,
            "counts": counts,
            "played": played,
            "slowest": storm.slowest,
            "totals": {mode: asdict(total) for mode, total in storm.totals.items()},
        }


@contextlib.contextmanager
def company(storm: Storm, session: headrace.SessionContext) -> Iterator[None]:
    """Sound streams, one after the other, beside whatever goes wrong elsewhere in the session."""
    over = threading.Event()
    storm.accompanied = session
    beside = Background(stream_until, over, session)
    try:
        yield
    finally:
        over.set()
        beside.result(SECONDS)
        storm.accompanied = None


def stream_until(over: threading.Event, session: headrace.SessionContext) -> None:
    for number in itertools.count():
        if over.is_set():
            return
        sink = session.register_streaming_table("sound", SCHEMA, capacity=2)
        sent = range(number, number + 50)
        feeding = Background(feed, sink, sent)
        got = values(session.sql("SELECT x FROM sound").execute_stream())
        feeding.result(SECONDS)
        session.deregister_table("sound")
        assert got == list(sent), f"a sound stream was disturbed: {got}"


def feed(sink: headrace.TableSink, numbers: Sequence[int]) -> None:
    with sink:
        for number in numbers:
            sink.write(batch(number))


def leave_everything_open() -> list[Any]:
    """Sinks, waiting producers and parked scans, for the interpreter to exit with."""
    session = headrace.SessionContext()
    sinks = [session.register_streaming_table(f"left_{number}", SCHEMA, capacity=1) for number in range(8)]
    readers = [session.sql(f"SELECT x FROM left_{number}").execute_stream() for number in range(4)]
    parked = [Background(reader.read_all) for reader in readers]
    waiting = [Background(write_until_refused, sink) for sink in sinks[4:]]
    session.register_table("pulled", headrace.SimpleTableProvider(SCHEMA, lambda: Reader(*[batch(1)] * 10_000)))
    half_read = session.sql("SELECT x FROM pulled").execute_stream()
    half_read.read_next_batch()
    assert becomes_true(lambda: session.statistics().waiting_readers == len(parked), SECONDS)
    assert becomes_true(lambda: all(map(is_written_to, sinks[4:])), SECONDS)
    return [session, sinks, readers, half_read, parked, waiting]


def main(rounds: dict[str, int], seed: int) -> None:
    """Storms one after the other, as a script plays them; a report of each."""
    import storm_interruptions
    import storm_pulls
    import storm_pushes

    parts = (storm_pushes, storm_pulls, storm_interruptions)
    ways_of = {fault: [way for part in parts for way in part.WAYS.get(fault, [])] for fault in rounds}
    # A process started in the background inherits that Ctrl-C is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    everything = [way for part in parts for ways in part.WAYS.values() for way in ways]
    for name, times in rounds.items():
        ways = ways_of[name]
        facts = rage(ways or everything, rounds=times, seed=seed, accompanied=not ways)
        report(**{name: facts})
        if facts["broken"]:
            break
