"""The channel under real threads: seeded races, and wake-ups that must not be lost."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random
from types import FrameType
from typing import Any

import pytest
from channel_rig import ENDS, SCHEMA, batch, full_channel, take_one

from headrace.channel.channel import Channel, ChannelState
from headrace.errors import CancelledError, ClosedError, ConsumerGoneError, HeadraceError, WriteTimeoutError
from headrace.session.sink import TableSink
from support.background import SECONDS, Background

WRITES = 25
CHUNKS = range(10)
ROUNDS_PER_CHUNK = 50


@pytest.fixture(autouse=True)
def _switch_threads_often() -> Iterator[None]:
    """With the default interval of 5 ms, two threads are seldom inside the channel at once."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


# -- close, fail, cancel and fail from outside against writers and a reader -------------------------------------


@dataclass
class Round:
    """One seeded race: several writers, one reader, and one thread that ends the channel at a random moment."""

    seed: int
    accepted: list[list[int]] = field(default_factory=list)
    received: list[int] = field(default_factory=list)
    over_the_bound: list[int] = field(default_factory=list)
    reader_saw: object = None

    def __post_init__(self) -> None:
        rng = Random(self.seed)
        self.how = rng.choice([*ENDS, "all writers are done"])
        self.capacity = rng.randint(1, 4)
        self.channel = Channel("the channel", self.capacity, rng.choice([None, None, 8, 24]))
        self.writers = rng.randint(1, 5)
        self.accepted = [[] for _ in range(self.writers)]
        self.end_after = rng.randint(0, WRITES * self.writers)
        self.time_to_end = threading.Event()
        self.writers_left = self.writers
        self.lock = threading.Lock()
        self.barrier = threading.Barrier(self.writers + 2)
        if self.end_after == 0:
            self.time_to_end.set()

    def run(self) -> None:
        threads = [Background(self.write, number) for number in range(self.writers)]
        threads += [Background(self.read), Background(self.end)]
        for thread in threads:
            thread.result()

    def write(self, number: int) -> None:
        rng = Random(f"{self.seed} {number}")
        self.barrier.wait(SECONDS)
        try:
            for step in range(WRITES):
                self.write_one(rng, number * WRITES + step)
                self.accepted[number].append(number * WRITES + step)
        except (ClosedError, ConsumerGoneError):
            return
        finally:
            with self.lock:
                self.writers_left -= 1
                if self.writers_left == 0:
                    self.time_to_end.set()

    def write_one(self, rng: Random, value: int) -> None:
        """Write in one of three ways; repeat those that may find no room."""
        while True:
            match rng.randrange(4):
                case 0:
                    if self.channel.try_write(batch(value)):
                        return
                case 1:
                    try:
                        return self.channel.write(batch(value), rng.choice([0.0, 0.0001, 0.001]))
                    except WriteTimeoutError:
                        pass
                case _:
                    return self.channel.write(batch(value))

    def read(self) -> None:
        rng = Random(f"{self.seed} reader")
        self.barrier.wait(SECONDS)
        while True:
            try:
                taken = self.channel.take(rng.randint(0, 5), 1000)
            except (ValueError, HeadraceError) as error:
                self.reader_saw = error
                return
            if not taken:
                return
            self.received += [value for each in taken for value in each["x"].to_pylist()]
            if len(self.received) >= self.end_after and self.how != "all writers are done":
                self.time_to_end.set()

    def end(self) -> None:
        self.barrier.wait(SECONDS)
        while not self.time_to_end.wait(0.0005):
            queued = self.channel.statistics().queued
            if queued > self.capacity:
                self.over_the_bound.append(queued)
        ENDS.get(self.how, ENDS["close"]).end(self.channel)

    def check(self) -> None:
        accepted = sorted(value for values in self.accepted for value in values)
        assert self.over_the_bound == []
        assert len(set(self.received)) == len(self.received), "something was doubled"
        for number, values in enumerate(self.accepted):
            mine = [value for value in self.received if value // WRITES == number]
            assert mine == values[: len(mine)], "a producer's order was not kept, or what it was refused was read"
        if self.how != "cancel":
            assert sorted(self.received) == accepted, "something accepted was lost"
        expected = ENDS.get(self.how, ENDS["close"])
        assert self.reader_saw is expected.reader_error
        now = self.channel.statistics()
        assert (now.state, now.batches, now.queued) == (expected.state.value, len(accepted), 0)


@pytest.mark.parametrize("chunk", CHUNKS)
def test_no_batch_is_lost_or_duplicated_and_no_thread_blocks_in_races_of_writers_a_reader_and_an_end(
    chunk: int,
) -> None:
    """P3, P5, P7, P10, F21: five hundred seeds; the message names a failing seed."""
    for seed in range(chunk * ROUNDS_PER_CHUNK, (chunk + 1) * ROUNDS_PER_CHUNK):
        race = Round(seed)
        try:
            race.run()
            race.check()
        except BaseException as error:
            error.add_note(f"seed {seed}: {race}")
            raise


@pytest.mark.parametrize("seed", range(5))
def test_exactly_one_of_several_concurrent_ends_wins_and_both_sides_agree_which(seed: int) -> None:
    """P3, F21: close, fail and fail from outside race; each return value says whether its call was first."""
    rng = Random(seed)
    names = ["close", "fail", "fail from outside"]
    for _ in range(40):
        channel = full_channel(2)
        barrier = threading.Barrier(len(names) + 1)

        def end(name: str, channel: Channel = channel, barrier: threading.Barrier = barrier) -> bool:
            barrier.wait(SECONDS)
            return ENDS[name].end(channel)

        writer = Background(channel.write, batch(9))
        racing = {name: Background(end, name) for name in rng.sample(names, len(names))}
        barrier.wait(SECONDS)
        (winner,) = [name for name, thread in racing.items() if thread.result()]
        expected = ENDS[winner]
        with pytest.raises(expected.writer_error, match=expected.writer_message):
            writer.result()
        assert len(channel.take(10, 100)) == 2
        if expected.reader_error is None:
            assert take_one(channel) is None
        else:
            with pytest.raises(type(expected.reader_error)) as caught:
                take_one(channel)
            assert caught.value is expected.reader_error


# -- wake-ups ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait_until_blocked", [True, False], ids=["blocked", "about to block"])
@pytest.mark.parametrize("name", ["close", "fail"])
def test_close_and_fail_wake_a_blocked_write_in_a_hundred_of_a_hundred_rounds(
    name: str, wait_until_blocked: bool
) -> None:
    """P5: each wakes within 5 s, whether the write is already blocked or about to block."""
    for _ in range(100):
        channel = full_channel()
        writer = Background(channel.write, batch(1))
        if wait_until_blocked:
            writer.until_write_blocks(channel)
        assert ENDS[name].end(channel)
        with pytest.raises(ClosedError):
            writer.result()


def test_a_writer_interrupted_as_it_wakes_passes_the_room_on() -> None:
    """P2, P15: if its wake-up were lost, the next writer would wait beside an empty place."""
    for _ in range(20):
        channel = full_channel()
        interrupted = Background(channel.write, batch(1)).until_write_blocks(channel)
        patient = Background(channel.write, batch(2)).until_write_blocks(channel, 2)
        # The signal stays pending while the thread is blocked; the thread raises it as soon as it is woken.
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(interrupted.ident), ctypes.py_object(KeyboardInterrupt)
        )
        take_one(channel)
        with pytest.raises(KeyboardInterrupt):
            interrupted.result()
        patient.result()
        assert take_one(channel)["x"].to_pylist() == [2]


@pytest.mark.parametrize("max_bytes", [None, 8])
def test_a_writer_that_gives_up_passes_the_room_on(max_bytes: int | None) -> None:
    """P2: a timeout and a read at the same moment: the writer that times out leaves the room to the one that waits."""
    rng = Random(21)
    for _ in range(150):
        channel = Channel("the channel", 1, max_bytes)
        channel.write(batch(0))
        hasty = Background(channel.write, batch(1), rng.choice([0.0002, 0.0005, 0.001]))
        patient = Background(channel.write, batch(2))
        take_one(channel)
        try:
            hasty.result()
        except WriteTimeoutError:
            expected = {2}
        else:
            expected = {1, 2}
        assert {take_one(channel)["x"].to_pylist()[0] for _ in expected} == expected
        patient.result()


def test_writers_with_and_without_timeouts_all_succeed_on_a_channel_of_one_batch() -> None:
    """P2, P10: a writer without a timeout needs every single wake-up."""

    def write(number: int) -> None:
        rng = Random(number)
        for step in range(60):
            while True:
                try:
                    channel.write(batch(number * 60 + step), rng.choice([None, None, 0.0, 0.0001, 0.0005]))
                    break
                except WriteTimeoutError:
                    continue

    channel = Channel("the channel", 1)
    writers = [Background(write, number) for number in range(6)]
    received = [Background(take_one, channel).result()["x"].to_pylist()[0] for _ in range(20)]
    reader = Background(lambda: [take_one(channel)["x"].to_pylist()[0] for _ in range(340)])
    for writer in writers:
        writer.result()
    received += reader.result()
    assert sorted(received) == list(range(360))
    for number in range(6):
        mine = [value for value in received if value // 60 == number]
        assert mine == sorted(mine)


def test_every_first_batch_wakes_the_reader() -> None:
    """P11: the reader waits on an empty channel again and again, and each write must wake it."""
    channel = Channel("the channel", 1)
    answers = Channel("the answers", 1)

    def echo() -> None:
        while (received := take_one(channel)) is not None:
            answers.write(received)
        answers.close()

    echoing = Background(echo)

    def play() -> None:
        for number in range(1000):
            channel.write(batch(number))
            assert take_one(answers)["x"].to_pylist() == [number]
        channel.close()
        assert take_one(answers) is None

    Background(play).result()
    echoing.result()


# -- the garbage collector ---------------------------------------------------------------------------

OPERATIONS: dict[str, Callable[[Channel], object]] = {
    "write": lambda channel: channel.write(batch(1)),
    "try_write": lambda channel: channel.try_write(batch(1)),
    "drain": lambda channel: channel.take(10, 100),
    "statistics": Channel.statistics,
    "close": Channel.close,
    "cancel": lambda channel: channel.cancel("nobody reads", CancelledError("the reader left")),
}


def collect_at(moment: int, operation: Callable[[Channel], object]) -> bool:
    """Run an operation, and collect a dropped sink of the same channel as garbage at its nth call or return.

    Returns:
        Whether the operation lasted until that moment.
    """
    channel = Channel("the channel", 4)
    channel.write(batch(0))
    knot: list[Any] = [TableSink("t", SCHEMA, channel)]
    knot.append(knot)
    del knot
    moments = count(1)
    reached = False

    def watch(frame: FrameType, event: str, argument: object) -> None:
        nonlocal reached
        if next(moments) == moment:
            reached = True
            gc.collect(0)

    sys.setprofile(watch)
    try:
        operation(channel)
    except HeadraceError:
        pass
    finally:
        sys.setprofile(None)
    gc.collect(0)
    assert channel.state is not ChannelState.OPEN, "the dropped sink was not collected"
    return reached


def test_a_dropped_sink_can_be_collected_at_any_moment_of_any_operation() -> None:
    """P12: finalisers run wherever memory is allocated, also on a thread that is inside the channel."""

    def moments_of(operation: Callable[[Channel], object]) -> int:
        return next(moment for moment in count(1) if not collect_at(moment, operation))

    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            for name, operation in OPERATIONS.items():
                assert Background(moments_of, operation).result() > 3, name
    finally:
        gc.enable()
