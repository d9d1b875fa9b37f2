"""The channel by itself: its bounds, its four ends, and which calls wake which waiters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from channel_rig import ENDS, FAILURE, End, batch, each_end, full_channel, take_one, values

from headrace.channel.channel import Channel
from headrace.errors import ClosedError, ConsumerGoneError, HeadraceError, InvalidArgumentError, WriteTimeoutError
from support.background import Background

# -- what goes in comes out --------------------------------------------------------------------------


def test_batches_are_taken_in_the_order_they_were_written() -> None:
    """P10: taken one by one or all at once."""
    channel = Channel("the channel", 8)
    for number in range(6):
        channel.write(batch(number))
    assert values([take_one(channel), take_one(channel)]) == [[0], [1]]
    assert values(channel.take(100, 100)) == [[2], [3], [4], [5]]


def test_the_reader_takes_the_same_batch_object_that_was_written() -> None:
    """P10: a channel keeps batches by reference, as documented."""
    channel = Channel("the channel", 2)
    first, second = batch(1), batch(2)
    channel.write(first)
    channel.write(second)
    assert take_one(channel) is first
    assert channel.take(10, 100)[0] is second


@pytest.mark.parametrize("limit", [0, 1000])
def test_a_zero_row_batch_is_a_batch_and_not_the_end(limit: int) -> None:
    """P2, P3: it has a place in the queue, and only close ends the stream."""
    channel = Channel("the channel", 1)
    channel.write(batch())
    assert not channel.try_write(batch(1))
    assert values(channel.take(limit, limit)) == [[]]
    channel.write(batch(1))
    assert values(channel.take(limit, limit)) == [[1]]


@pytest.mark.parametrize("value", [0, -1, True, False, 1.5, 1.0, "1", float("inf")])
@pytest.mark.parametrize("bound", ["capacity", "max_bytes"])
def test_a_bound_that_is_not_a_whole_number_of_at_least_one_is_refused(bound: str, value: object) -> None:
    """P9: the message names the bound, the allowed values and the given value."""
    with pytest.raises(InvalidArgumentError, match=rf"{bound} must be a whole number of at least 1, not {value!r}"):
        Channel("the channel", **{"capacity": 1, bound: value})


# -- bounds ------------------------------------------------------------------------------------------


def test_a_full_channel_accepts_no_batch_until_one_is_taken() -> None:
    """P2: try_write returns False, write waits, and the queue never exceeds its bound."""
    channel = full_channel(2)
    assert not channel.try_write(batch(9))
    writer = Background(channel.write, batch(2)).until_write_blocks(channel)
    assert not writer.is_done_after(0.2)
    assert channel.statistics().queued == 2
    assert values([take_one(channel)]) == [[0]]
    writer.result()
    assert values(channel.take(10, 100)) == [[1], [2]]


@pytest.mark.parametrize("timeout", [0, 0.0, 0.02])
def test_a_write_that_times_out_queues_nothing_and_leaves_the_channel_usable(timeout: float) -> None:
    """P2: the error is also a TimeoutError; it says how full the channel is and what to do."""
    channel = full_channel(2)
    with pytest.raises(WriteTimeoutError, match=r"the channel stayed full .*2 batches, 16 bytes.*Hint: ") as caught:
        channel.write(batch(2), timeout)
    assert isinstance(caught.value, TimeoutError)
    assert channel.statistics().batches == 2
    take_one(channel)
    channel.write(batch(3), timeout)
    assert values(channel.take(10, 100)) == [[1], [3]]


def test_the_bound_in_bytes_is_exact() -> None:
    """P14: a batch that fits exactly is accepted; a batch with one more row is not."""
    channel = Channel("the channel", 100, max_bytes=40)
    channel.write(batch(1, 2))
    assert not channel.try_write(batch(3, 4, 5, 6))
    assert channel.try_write(batch(3, 4, 5))
    assert not channel.try_write(batch(6))
    assert channel.try_write(batch()), "what is empty always fits"
    assert channel.statistics().queued_bytes == 40


def test_a_batch_larger_than_the_bound_in_bytes_waits_until_it_is_alone() -> None:
    """P14: it would never fit otherwise; no other batch is queued beside it."""
    channel = Channel("the channel", 100, max_bytes=16)
    large = batch(*range(50))
    assert channel.try_write(large)
    assert not channel.try_write(batch(1))
    assert take_one(channel) is large
    channel.write(batch(1))
    assert not channel.try_write(large)
    writer = Background(channel.write, large).until_write_blocks(channel)
    assert values([take_one(channel)]) == [[1]]
    writer.result()
    assert take_one(channel) is large


def test_room_that_is_too_small_for_one_writer_goes_to_another() -> None:
    """P14: the large batch started to wait first, but the small batch fits first."""
    channel = Channel("the channel", 100, max_bytes=32)
    channel.write(batch(1))
    channel.write(batch(2, 3, 4))
    large = Background(channel.write, batch(5, 6, 7)).until_write_blocks(channel)
    small = Background(channel.write, batch(8)).until_write_blocks(channel, 2)
    assert values([take_one(channel)]) == [[1]]
    small.result()
    assert not large.is_done_after(0.05)
    assert values(channel.take(3, 24)) == [[2, 3, 4]]
    large.result()
    assert values(channel.take(10, 100)) == [[8], [5, 6, 7]]


def test_a_slice_of_something_large_counts_only_its_own_part() -> None:
    """P14: otherwise each slice would count as the whole table."""
    channel = Channel("the channel", 100, max_bytes=100_000)
    whole = batch(*range(100_000))
    assert channel.try_write(whole.slice(0, 5_000))
    assert channel.try_write(whole.slice(5_000, 5_000))
    assert channel.statistics().queued_bytes == 80_000


# -- drain -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("max_rows", "max_bytes", "expected"),
    [
        (100, 1000, [[0], [1, 2], [3, 4, 5], [6]]),
        (7, 56, [[0], [1, 2], [3, 4, 5], [6]]),
        (6, 1000, [[0], [1, 2], [3, 4, 5]]),
        (5, 1000, [[0], [1, 2]]),
        (100, 24, [[0], [1, 2]]),
        (100, 23, [[0]]),
        (0, 0, [[0]]),
    ],
)
def test_take_returns_whole_batches_within_its_limits_and_always_at_least_one(
    max_rows: int, max_bytes: int, expected: list[list[int]]
) -> None:
    """P14: one take is bounded in rows and bytes, and returns batches in order."""
    channel = Channel("the channel", 8)
    for part in (batch(0), batch(1, 2), batch(3, 4, 5), batch(6)):
        channel.write(part)
    assert values(channel.take(max_rows, max_bytes)) == expected
    assert channel.statistics().queued == 4 - len(expected)


def test_take_does_not_wait_for_a_second_batch() -> None:
    """P14: a single queued batch is returned at once."""
    channel = Channel("the channel", 8)
    reader = Background(channel.take, 100, 1000).until_read_blocks(channel)
    channel.write(batch(1))
    assert values(reader.result()) == [[1]]


def test_take_wakes_one_writer_per_batch_that_it_removes() -> None:
    """P2: every writer that now has room is woken."""
    channel = full_channel(3)
    writers = [
        Background(channel.write, batch(10 + number)).until_write_blocks(channel, number + 1) for number in range(3)
    ]
    assert len(channel.take(100, 1000)) == 3
    for writer in writers:
        writer.result()
    assert sorted(values(channel.take(100, 1000))) == [[10], [11], [12]]


# -- statistics --------------------------------------------------------------------------------------


def test_statistics_count_what_was_accepted_and_what_is_queued() -> None:
    """P15: the statistics are a frozen snapshot."""
    channel = Channel("the channel", 4, max_bytes=1000)
    before = channel.statistics()
    for part in (batch(1, 2), batch(), batch(3)):
        channel.write(part)
    take_one(channel)
    now = channel.statistics()
    assert (before.batches, before.queued, before.state) == (0, 0, "open")
    assert (now.batches, now.rows, now.bytes) == (3, 3, 24)
    assert (now.queued, now.queued_rows, now.queued_bytes) == (2, 1, 8)
    assert (now.capacity, now.max_bytes, now.seconds_blocked, now.state) == (4, 1000, 0.0, "open")
    with pytest.raises(dataclasses.FrozenInstanceError):
        now.batches = 7


def waiting(channel: Channel) -> tuple[int, int]:
    now = channel.statistics()
    return now.waiting_readers, now.waiting_writers


def test_statistics_count_waiting_readers_and_writers() -> None:
    """P15: a waiter for a batch, for the end or for room counts until its wait ends."""
    channel = Channel("the channel", 1)
    assert waiting(channel) == (0, 0)
    reader = Background(take_one, channel).until_read_blocks(channel)
    assert waiting(channel) == (1, 0)
    channel.write(batch(0))
    reader.result()
    assert waiting(channel) == (0, 0)
    over = Background(channel.wait_until_over).until_read_blocks(channel)
    channel.write(batch(1))
    writers = [Background(channel.write, batch(2)).until_write_blocks(channel, number) for number in (1, 2)]
    assert waiting(channel) == (1, 2)
    channel.cancel("nobody reads")
    for thread in (over, *writers):
        assert isinstance(thread.error(), HeadraceError)
    assert waiting(channel) == (0, 0)


def test_seconds_blocked_sum_the_waits_of_all_writers_with_or_without_success() -> None:
    """P15: two writers that wait 0.05 s at the same time add 0.1 s."""
    channel = full_channel()
    writers = [Background(channel.write, batch(1), 0.05) for _ in range(2)]
    for writer in writers:
        with pytest.raises(WriteTimeoutError):
            writer.result()
    blocked = channel.statistics().seconds_blocked
    assert blocked >= 0.1
    writer = Background(channel.write, batch(1)).until_write_blocks(channel)
    take_one(channel)
    writer.result()
    assert channel.statistics().seconds_blocked > blocked


# -- the four ends: who ends it, who is blocked, and is it still true afterwards ----------------------

each_take = pytest.mark.parametrize(
    "take", [take_one, lambda channel: channel.take(1000, 1000)], ids=["one by one", "all at once"]
)


def assert_writers_are_refused(channel: Channel, end: End) -> None:
    for write in (channel.write, channel.try_write, lambda batch: channel.write(batch, 0.0)):
        with pytest.raises(end.writer_error, match=f"written to the channel.*{end.writer_message}"):
            write(batch(99))


def assert_the_reader_is_at_the_end(take: Callable[[Channel], Any], channel: Channel, end: End) -> None:
    if end.reader_error is None:
        assert not take(channel)
        return
    with pytest.raises(type(end.reader_error)) as caught:
        take(channel)
    assert caught.value is end.reader_error


@each_end
def test_every_blocked_writer_is_woken_and_its_batch_is_not_queued(end: End) -> None:
    """P3, P5, P7: each write raises the error that names who ended the channel, and so does every later write."""
    channel = full_channel(2)
    writers = [
        Background(channel.write, batch(10), timeout).until_write_blocks(channel, number)
        for number, timeout in enumerate((None, 60.0, None), 1)
    ]
    assert end.end(channel)
    for writer in writers:
        with pytest.raises(end.writer_error, match=f"written to the channel.*{end.writer_message}"):
            writer.result()
    assert_writers_are_refused(channel, end)
    assert_writers_are_refused(channel, end)
    assert channel.state is end.state
    now = channel.statistics()
    assert (now.batches, now.queued, now.state) == (2, 2 if end.keeps_queued else 0, end.state.value)


@each_end
@each_take
def test_a_blocked_reader_wakes_at_the_end_and_every_later_take_gets_the_same_end(
    end: End, take: Callable[[Channel], Any]
) -> None:
    """P3, P4: each take returns the end, or raises the same exception object."""
    channel = Channel("the channel", 2)
    reader = Background(take, channel).until_read_blocks(channel)
    assert end.end(channel)
    assert_the_reader_is_at_the_end(lambda _: reader.result(), channel, end)
    assert_the_reader_is_at_the_end(take, channel, end)
    assert_the_reader_is_at_the_end(take, channel, end)
    assert_writers_are_refused(channel, end)


@each_end
@each_take
def test_queued_batches_can_be_taken_after_every_end_except_cancel(end: End, take: Callable[[Channel], Any]) -> None:
    """P1, P4: take returns the queued batches first, then the end or the error."""
    channel = full_channel(3)
    assert end.end(channel)
    if end.keeps_queued:
        taken = take(channel)
        taken = taken if isinstance(taken, list) else [taken, take(channel), take(channel)]
        assert values(taken) == [[0], [1], [2]]
    assert_the_reader_is_at_the_end(take, channel, end)
    now = channel.statistics()
    assert (now.batches, now.rows, now.queued, now.queued_rows, now.queued_bytes) == (3, 3, 0, 0, 0)


@each_end
def test_waiting_for_the_end_takes_no_batch_and_wakes_at_the_end(end: End) -> None:
    """P3, P4: it returns at the end, or raises the same exception object, while batches are still queued."""
    channel = full_channel(2)
    waiting = Background(channel.wait_until_over).until_read_blocks(channel)
    assert end.end(channel)
    assert_the_reader_is_at_the_end(lambda _: waiting.result(), channel, end)
    assert_the_reader_is_at_the_end(lambda channel: channel.wait_until_over(), channel, end)
    assert channel.statistics().queued == (2 if end.keeps_queued else 0)


@pytest.mark.parametrize("second", ENDS)
@pytest.mark.parametrize("first", ENDS)
def test_only_the_first_end_takes_effect(first: str, second: str) -> None:
    """P3, F21: a second end changes nothing, except that a reader may still cancel a channel that its writers ended."""
    channel = full_channel(2)
    assert ENDS[first].end(channel)
    reader_leaves = second == "cancel" and first != "cancel"
    assert ENDS[second].end(channel) is reader_leaves
    assert channel.state is ENDS[first].state
    assert_writers_are_refused(channel, ENDS[first])
    if not reader_leaves and ENDS[first].keeps_queued:
        assert len(channel.take(10, 100)) == 2
    assert_the_reader_is_at_the_end(take_one, channel, ENDS["cancel" if reader_leaves else first])


def test_a_reader_that_cancelled_without_an_error_gets_a_closed_error() -> None:
    """P7: the error has the reason that was passed to cancel."""
    channel = full_channel()
    channel.cancel("nobody reads")
    with pytest.raises(ClosedError, match="the channel was closed: nobody reads"):
        take_one(channel)


def test_the_writers_hint_says_to_stop_producing() -> None:
    """P7: a channel does not get a second consumer."""
    channel = Channel("the channel", 1)
    channel.cancel("nobody reads")
    with pytest.raises(ConsumerGoneError, match="Hint: stop producing"):
        channel.write(batch(1))


def test_fail_returns_at_once_from_a_full_channel_that_nobody_reads() -> None:
    """P4: fail needs no room in the queue."""
    channel = full_channel()
    assert Background(channel.fail, FAILURE).result() is True
