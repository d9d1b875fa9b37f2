"""Several readers of one channel, and readers that wait for more than one batch."""

from __future__ import annotations

import asyncio
import threading
from random import Random

import pytest
from channel_rig import End, batch, each_end, full_channel, values

from headrace.channel.channel import Channel
from headrace.errors import HeadraceError
from support.background import SECONDS, Background

ALL = 2**63


def gathering(channel: Channel, max_rows: int = ALL, max_bytes: int = ALL) -> Background:
    """Gather on a thread that gives up only after the deadline of the tests."""
    return Background(channel.gather, max_rows, max_bytes, SECONDS)


@pytest.mark.parametrize(("capacity", "enough"), [(1, 1), (2, 1), (5, 3), (8, 4)])
def test_a_reader_that_gathers_is_woken_when_half_of_the_capacity_is_queued(capacity: int, enough: int) -> None:
    """P14: one wake-up for many writes."""
    channel = Channel("the channel", capacity)
    reading = gathering(channel)
    for number in range(enough):
        assert not reading.is_done_after(0.02)
        channel.write(batch(number))
    reading.result()


@pytest.mark.parametrize(("max_rows", "max_bytes"), [(4, ALL), (ALL, 32)])
def test_a_reader_that_gathers_waits_for_no_more_than_it_will_take(max_rows: int, max_bytes: int) -> None:
    """P14: the sizes of the batches so far are the best guess."""
    channel = Channel("the channel", 100)
    channel.write(batch(0, 1))
    channel.take(ALL, ALL)
    reading = gathering(channel, max_rows, max_bytes)
    channel.write(batch(2, 3))
    assert not reading.is_done_after(0.02)
    channel.write(batch(4, 5))
    reading.result()


def test_a_reader_that_gathers_gives_up_after_some_time() -> None:
    """P14: a batch is not held back while no other comes."""
    channel = Channel("the channel", 100)
    channel.write(batch(1))
    channel.gather(ALL, ALL, 0.01)
    assert values(channel.take(ALL, ALL)) == [[1]]


@pytest.mark.parametrize("write", ["write", "write_async"])
def test_a_writer_that_must_wait_wakes_a_reader_that_gathers(write: str) -> None:
    """P14: the queue is full in bytes long before half of the capacity is queued."""
    channel = Channel("the channel", 100, max_bytes=24)
    channel.write(batch(1))
    channel.take(ALL, ALL)
    reading = gathering(channel)
    channel.write(batch(1))
    large = batch(2, 3, 4)
    if write == "write":
        writer = Background(channel.write, large)
    else:
        writer = Background(lambda: asyncio.run(channel.write_async(large)))
    reading.result()
    assert values(channel.take(ALL, ALL)) == [[1]]
    writer.result()


@each_end
def test_the_end_wakes_a_reader_that_gathers(end: End) -> None:
    """P5: gather never raises; the take that follows does."""
    channel = full_channel()
    channel.take(ALL, ALL)
    reading = gathering(channel)
    end.end(channel)
    reading.result()


@pytest.mark.parametrize("seed", range(60))
def test_every_batch_goes_to_exactly_one_of_several_readers_and_all_see_the_end(seed: int) -> None:
    """P10, P13: whether they gather or take at once; each reader gets each producer's batches in order."""
    rng = Random(seed)
    channel = Channel("the channel", rng.choice([1, 2, 7, 64]), rng.choice([None, None, 40]))
    writers, readers = rng.randint(1, 3), rng.randint(2, 4)
    count = 200
    limits = [(rng.choice([1, 5, ALL]), rng.choice([8, 40, ALL]), rng.random() < 0.5) for _ in range(readers)]
    start = threading.Barrier(writers + readers)

    def write(writer: int) -> None:
        start.wait(SECONDS)
        for number in range(count):
            channel.write(batch(writer * count + number), SECONDS)

    def read(max_rows: int, max_bytes: int, gathers: bool) -> list[int]:
        start.wait(SECONDS)
        taken: list[int] = []
        while True:
            if gathers:
                channel.gather(max_rows, max_bytes, 0.001)
            batches = channel.take(max_rows, max_bytes)
            if not batches:
                return taken
            taken += [value for each in values(batches) for value in each]

    reading = [Background(read, *each) for each in limits]
    writing = [Background(write, writer) for writer in range(writers)]
    for each in writing:
        each.result()
    channel.close()
    taken = [each.result() for each in reading]
    assert sorted(value for each in taken for value in each) == list(range(writers * count))
    for each in taken:
        for writer in range(writers):
            mine = [value for value in each if value // count == writer]
            assert mine == sorted(mine)


@each_end
def test_every_waiting_reader_sees_the_end(end: End) -> None:
    """P5: none stays behind."""
    channel = Channel("the channel", 4)
    reading = [Background(channel.take, ALL, ALL) for _ in range(3)]
    while channel.statistics().waiting_readers < 3:
        threading.Event().wait(0.001)
    end.end(channel)
    for each in reading:
        if end.reader_error is None:
            assert each.result() == []
        else:
            with pytest.raises((HeadraceError, ValueError)):
                each.result()
