"""F21: close, fail, write, cancel and the rest racing on live queries; the first terminal state wins.

The seed of a failing round is in its message. ``HEADRACE_SEED=17`` runs that round and no other.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest
from rig import SCHEMA, batch, becomes_true, refusal_of, running, values, what_is_left

import headrace
from headrace.engine.runtime import workers
from support.background import Background

ROUNDS = 300
CHUNKS = 6

QUERIES = [
    "SELECT x FROM pushed",
    "SELECT x FROM pushed WHERE x >= 0",
    "SELECT x + 0 AS x FROM pushed",
    "SELECT p.x FROM pushed p JOIN base b ON p.x % 1 = b.zero",
]

SECONDS = 10.0


class ProducerError(Exception):
    pass


@dataclass
class Seen:
    """What one side of a stream saw of it: the rows, how it ended, and what it said when asked again."""

    rows: list[int]
    end: BaseException | None
    again: BaseException | None


def write_all(sink: headrace.TableSink, batches: list[list[int]]) -> Seen:
    """The writing side; its end is None if all of it was accepted."""
    accepted: list[int] = []
    try:
        for each in batches:
            sink.write(batch(*each))
            accepted.extend(each)
    except headrace.HeadraceError as error:
        return Seen(accepted, error, refusal_of(sink))
    return Seen(accepted, None, None)


def read_all(reader: headrace.RecordBatchReader, go: threading.Event | None = None, after: int = 0) -> Seen:
    """The reading side; its end is None at the end of the stream. Sets ``go`` after ``after`` batches."""
    batches: list[pa.RecordBatch] = []
    end = again = None
    try:
        for each in reader:
            batches.append(each)
            if go is not None and len(batches) > after:
                go.set()
    except headrace.HeadraceError as error:
        end = error
    try:
        reader.read_next_batch()
        raise AssertionError("a batch after the end")
    except StopIteration:
        pass
    except headrace.HeadraceError as error:
        again = error
    return Seen(values(batches), end, again)


class Round:
    """One stream, a writer, a reader, and two or three who end it, each when it likes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.session = headrace.SessionContext(target_partitions=self.random.choice([1, 2]))
        self.session.register_arrow("base", pa.table({"zero": [0]}))
        self.sink = self.session.register_streaming_table("pushed", SCHEMA, capacity=self.random.randint(1, 3))
        self.query = self.random.choice(QUERIES)
        self.reader = self.session.sql(self.query).execute_stream()
        self.failure = ProducerError(seed)
        size = self.random.randint(1, 3)
        self.batches = [list(range(n * size, (n + 1) * size)) for n in range(self.random.randint(0, 40))]
        enders: dict[str, Callable[[], object]] = {
            "close": self.sink.close,
            "fail": lambda: self.sink.fail(self.failure),
            "cancel": self.reader.cancel,
            "close the reader": self.reader.close,
            "close the session": self.session.close,
            "deregister": lambda: self.session.deregister_table("pushed"),
        }
        self.enders = {name: enders[name] for name in self.random.sample(sorted(enders), self.random.randint(2, 3))}
        if not {"close", "fail"} & self.enders.keys():
            self.enders["close"] = self.sink.close

    def play(self) -> tuple[Seen, Seen]:
        delays = {name: self.random.choice([0.0, self.random.random() * 0.003]) for name in self.enders}
        start = threading.Barrier(len(self.enders) + 2)

        def end(name: str) -> None:
            start.wait(SECONDS)
            time.sleep(delays[name])
            try:
                self.enders[name]()
            except (headrace.StateError, headrace.PlanError):
                # Failing what has ended, or deregistering from a closed session, is refused.
                return

        def run(side: Callable[..., Seen], *arguments: object) -> Seen:
            start.wait(SECONDS)
            return side(*arguments)

        ending = [Background(end, name) for name in self.enders]
        writing = Background(run, write_all, self.sink, self.batches)
        reading = Background(run, read_all, self.reader)
        for thread in ending:
            thread.result(SECONDS)
        return writing.result(SECONDS), reading.result(SECONDS)

    def check(self, written: Seen, read: Seen) -> None:
        """Check that both sides saw the same end, in any order."""
        # Several partitions hand rows on in any order, and what one of them gathers is late.
        prefix = written.rows[: len(read.rows)]
        assert read.rows == prefix if self.query == QUERIES[0] else set(read.rows) <= set(written.rows)
        assert len(set(read.rows)) == len(read.rows), "a row came twice"
        state = self.sink.statistics().state
        assert state in ("closed", "failed", "cancelled")
        refusal = refusal_of(self.sink)
        gone = state == "cancelled"
        assert type(refusal) is (headrace.ConsumerGoneError if gone else headrace.ClosedError)
        if written.end is not None:
            assert type(written.end) is type(refusal), "the writer got another end than the final one"
            assert type(written.again) is type(refusal)
        if read.end is None:
            assert state == "closed", "a clean end of a stream that nobody closed"
            assert sorted(read.rows) == written.rows, "a clean end before the end"
            assert read.again is None or isinstance(read.again, headrace.ClosedError)
            return
        assert read.again is not None, "an end after an error"
        if isinstance(read.end, headrace.TableError):
            # Rows that the engine was still gathering for a larger batch go down with the query.
            gathers = self.query != QUERIES[0]
            assert gathers or read.rows == written.rows, "the error came before what was written before it"
            by_fail = read.end.__cause__ is self.failure
            assert state == ("failed" if by_fail else "cancelled")
            assert by_fail or "deregister" in self.enders or "close the session" in self.enders
        elif isinstance(read.end, headrace.CancelledError):
            assert "cancel" in self.enders
        else:
            assert type(read.end) is headrace.ClosedError
            assert {"close the reader", "close the session"} & self.enders.keys()


def seeds(chunk: int) -> Iterator[int]:
    one = os.environ.get("HEADRACE_SEED")
    return iter([int(one)] if one else range(chunk * ROUNDS // CHUNKS, (chunk + 1) * ROUNDS // CHUNKS))


@pytest.fixture
def switches_after() -> Iterator[Callable[[float], None]]:
    """How long a thread runs before another one may."""
    before = sys.getswitchinterval()
    yield sys.setswitchinterval
    sys.setswitchinterval(before)


@pytest.fixture
def hasty_threads(switches_after: Callable[[float], None]) -> None:
    """Threads that are switched as often as can be, so that short rounds meet many orders of events."""
    switches_after(1e-5)


@pytest.mark.usefixtures("hasty_threads")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_both_sides_of_a_stream_see_its_first_end_and_no_other(chunk: int) -> None:
    """F21, S9, S11, S14, P5, P7, P8: each stream ends in exactly one of end, error and cancel."""
    for seed in seeds(chunk):
        held = workers.held
        game = Round(seed)
        told = f"seed {seed}: {game.query}, ended by {', '.join(game.enders)}"
        try:
            game.check(*game.play())
        except BaseException as error:
            raise AssertionError(told) from error
        session = game.session
        session.close()
        del game
        at_rest = becomes_true(lambda: workers.held <= held and not running(session), seconds=2.0)  # noqa: B023
        assert at_rest, f"{told}: {what_is_left(session)}"


@pytest.mark.parametrize(("leave", "kind"), [("cancel", headrace.CancelledError), ("close", headrace.ClosedError)])
def test_leaving_a_reader_while_another_thread_reads_it_ends_it_in_one_way(switches_after, leave: str, kind) -> None:
    """F21, S11: the read in flight gets a batch, the end or the reason, and so does every later one."""
    # Long enough to leave without a switch, once the reading thread was stopped anywhere.
    switches_after(2e-4)
    with headrace.SessionContext(batch_size=1) as session:
        for seed in range(100):
            reader = session.sql("SELECT value FROM generate_series(1, 300)").collect()
            go = threading.Event()
            reading = Background(read_all, reader, go, random.Random(seed).randrange(250))
            assert go.wait(SECONDS)
            getattr(reader, leave)()
            seen = reading.result(SECONDS)
            assert seen.rows == list(range(1, len(seen.rows) + 1)), f"seed {seed}"
            if seen.end is None:
                assert len(seen.rows) == 300, f"seed {seed}"
                # What has ended can still be closed; to cancel it changes nothing.
                assert seen.again is None or (leave == "close" and type(seen.again) is kind), f"seed {seed}: {seen}"
            else:
                assert (type(seen.end), type(seen.again)) == (kind, kind), f"seed {seed}: {seen}"


@pytest.mark.usefixtures("hasty_threads")
def test_many_readers_racing_with_the_close_of_their_session_all_get_an_end() -> None:
    """F21, S14: whichever query is starting, running or ending when the session closes, none hangs."""
    for seed in range(20):
        chance = random.Random(seed)
        held = workers.held
        session = headrace.SessionContext()
        session.register_table("pulled", headrace.SimpleTableProvider(SCHEMA, lambda: (batch(n) for n in range(2000))))

        def query(session: headrace.SessionContext = session) -> int | headrace.HeadraceError:
            try:
                return session.sql("SELECT x FROM pulled").collect().read_all().num_rows
            except headrace.HeadraceError as error:
                return error

        threads = [Background(query) for _ in range(4)]
        time.sleep(chance.random() * 0.02)
        session.close()
        for outcome in (thread.result(SECONDS) for thread in threads):
            assert outcome == 2000 or type(outcome) is headrace.ClosedError, f"seed {seed}: {outcome!r}"
        at_rest = becomes_true(lambda: workers.held <= held and not running(session), seconds=2.0)  # noqa: B023
        assert at_rest, f"seed {seed}: {what_is_left(session)}"
