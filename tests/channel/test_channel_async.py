"""The channel from asyncio: waits that do not block the loop, cancellation at any moment, and threads beside loops."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from channel_rig import ENDS, End, batch, each_end, full_channel, take_one

from headrace.channel.channel import Channel
from support.background import SECONDS, Background


def run(main: Callable[[], Awaitable[Any]]) -> Any:
    """Run a coroutine to its end, within the deadline of every test here."""

    async def within_deadline() -> Any:
        return await asyncio.wait_for(main(), SECONDS)

    return asyncio.run(within_deadline())


async def waiting(coroutine: Any) -> asyncio.Task[Any]:
    """Return a task that has run until it waits for the channel."""
    task = asyncio.ensure_future(coroutine)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not task.done(), task
    return task


async def take_one_async(channel: Channel) -> pa.RecordBatch | None:
    return next(iter(await channel.take_async(0, 0)), None)


def value(taken: pa.RecordBatch | None) -> int:
    assert taken is not None
    return taken["x"].to_pylist()[0]


# -- writing -----------------------------------------------------------------------------------------


def test_write_async_waits_for_room_without_blocking_the_loop() -> None:
    """P15: the batch is queued once there is room, and not before."""

    async def main() -> None:
        channel = full_channel()
        task = await waiting(channel.write_async(batch(1)))
        done, _ = await asyncio.wait([task], timeout=0.2)
        assert not done
        assert channel.statistics().queued == 1
        assert value(take_one(channel)) == 0
        await task
        assert value(take_one(channel)) == 1

    run(main)


def test_write_async_with_room_does_not_wait() -> None:
    """P15: the coroutine ends in its first step, without yielding to the loop."""
    channel = Channel("the channel", 1)
    with pytest.raises(StopIteration):
        channel.write_async(batch(1)).send(None)
    assert value(take_one(channel)) == 1


@each_end
def test_every_waiting_coroutine_is_woken_by_an_end_on_another_thread(end: End) -> None:
    """P3, P5, P7, P15: each raises the error that a thread would get; later calls raise it at once."""

    async def main() -> None:
        channel = full_channel()
        tasks = [await waiting(channel.write_async(batch(1))) for _ in range(3)]
        Background(end.end, channel).result()
        for task in [*tasks, channel.write_async(batch(1))]:
            with pytest.raises(end.writer_error, match=end.writer_message):
                await task
        assert channel.statistics().batches == 1

    run(main)


def test_a_cancelled_write_queues_nothing() -> None:
    """P15: neither at once nor when there is room."""

    async def main() -> None:
        channel = full_channel()
        task = await waiting(channel.write_async(batch(1)))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(channel.write_async(batch(2)), 0.01)
        assert value(take_one(channel)) == 0
        for _ in range(3):
            await asyncio.sleep(0)
        assert channel.statistics().batches == 1
        await channel.write_async(batch(3))
        assert value(take_one(channel)) == 3

    run(main)


@pytest.mark.parametrize("hasty", [0, 1])
def test_a_write_cancelled_as_it_is_woken_leaves_the_room_to_the_next_coroutine(hasty: int) -> None:
    """P15: the task is cancelled after its wake-up was scheduled."""

    async def main() -> None:
        channel = full_channel()
        tasks = [await waiting(channel.write_async(batch(number))) for number in range(2)]
        take_one(channel)
        tasks[hasty].cancel()
        await tasks[1 - hasty]
        assert tasks[hasty].cancelled()
        assert value(take_one(channel)) == 1 - hasty
        assert channel.statistics().batches == 2

    run(main)


def test_a_write_cancelled_as_it_is_woken_leaves_the_room_to_a_thread() -> None:
    """P15: the blocked thread gets the room, although the coroutine was woken first."""

    async def main() -> None:
        channel = full_channel()
        task = await waiting(channel.write_async(batch(1)))
        thread = Background(channel.write, batch(2)).until_write_blocks(channel, 2)
        take_one(channel)
        task.cancel()
        thread.result()
        assert value(take_one(channel)) == 2

    run(main)


def test_statistics_count_waiting_coroutines() -> None:
    """P15: they count like threads, until they are woken or cancelled."""

    async def main() -> None:
        channel = Channel("the channel", 1)
        reader = await waiting(channel.take_async(1, 8))
        assert channel.statistics().waiting_readers == 1
        channel.write(batch(0))
        await reader
        channel.write(batch(1))
        writers = [await waiting(channel.write_async(batch(number))) for number in (2, 3)]
        now = channel.statistics()
        assert (now.waiting_readers, now.waiting_writers) == (0, 2)
        writers[0].cancel()
        take_one(channel)
        await asyncio.wait(writers)
        assert channel.statistics().waiting_writers == 0

    run(main)


def test_seconds_blocked_include_the_waits_of_coroutines_with_or_without_success() -> None:
    """P15: a cancelled wait counts like the wait of a thread that timed out."""

    async def main() -> None:
        channel = full_channel()
        task = await waiting(channel.write_async(batch(1)))
        await asyncio.sleep(0.05)
        take_one(channel)
        await task
        blocked = channel.statistics().seconds_blocked
        assert blocked >= 0.05
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(channel.write_async(batch(2)), 0.05)
        assert channel.statistics().seconds_blocked >= blocked + 0.04

    run(main)


# -- reading -----------------------------------------------------------------------------------------


def test_take_async_waits_for_a_batch_from_another_thread_without_blocking_the_loop() -> None:
    """P11, P15: it returns the same batch object, then the end."""

    async def main() -> None:
        channel = Channel("the channel", 1)
        task = await waiting(take_one_async(channel))
        done, _ = await asyncio.wait([task], timeout=0.05)
        assert not done
        sent = batch(1)
        Background(channel.write, sent).result()
        assert await task is sent
        task = await waiting(take_one_async(channel))
        channel.close()
        assert await task is None
        assert await take_one_async(channel) is None

    run(main)


@each_end
def test_an_end_on_another_thread_wakes_a_waiting_coroutine_that_reads(end: End) -> None:
    """P3, P4, P15: take_async returns or raises what take does."""

    async def main() -> None:
        channel = Channel("the channel", 1)
        task = await waiting(take_one_async(channel))
        Background(end.end, channel).result()
        for read in (task, take_one_async(channel)):
            if end.reader_error is None:
                assert await read is None
            else:
                with pytest.raises(type(end.reader_error)) as caught:
                    await read
                assert caught.value is end.reader_error

    run(main)


def test_a_read_cancelled_as_it_is_woken_loses_no_batch() -> None:
    """P15: the next read gets the batch, in the loop or on a thread."""

    async def main() -> None:
        channel = Channel("the channel", 1)
        for number in range(2):
            task = await waiting(take_one_async(channel))
            channel.write(batch(number))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert channel.statistics().queued == 1
            assert value(await take_one_async(channel) if number else take_one(channel)) == number

    run(main)


def test_take_async_wakes_a_writer_that_is_blocked_on_a_thread() -> None:
    """P2, P15: threads and coroutines share the same room."""

    async def main() -> None:
        channel = full_channel()
        writer = Background(channel.write, batch(1)).until_write_blocks(channel)
        assert value(await take_one_async(channel)) == 0
        writer.result()
        assert value(await take_one_async(channel)) == 1

    run(main)


# -- several loops, and loops that go away ------------------------------------------------------------


def test_two_event_loops_write_and_a_third_reads() -> None:
    """P10, P15: a waiter is woken on the loop that it waits in."""
    channel = Channel("the channel", 1)

    def produce(first: int) -> None:
        async def main() -> None:
            for number in range(100):
                await channel.write_async(batch(first + number))

        run(main)

    async def consume() -> list[int]:
        return [value(await take_one_async(channel)) for _ in range(200)]

    producers = [Background(produce, first) for first in (0, 1000)]
    received = run(consume)
    for producer in producers:
        producer.result()
    assert [number for number in received if number < 1000] == list(range(100))
    assert [number for number in received if number >= 1000] == list(range(1000, 1100))


def test_a_loop_closed_while_a_coroutine_waits_to_write_blocks_no_other_writer() -> None:
    """P15: a waiter of a closed loop cannot be woken; the other waiters still are."""
    channel = full_channel()
    loops = [asyncio.new_event_loop() for _ in range(2)]
    tasks = [loop.create_task(channel.write_async(batch(number))) for number, loop in enumerate(loops)]
    for loop, task in zip(loops, tasks, strict=True):
        loop.run_until_complete(asyncio.sleep(0))
        task._log_destroy_pending = False
        loop.close()
    thread = Background(channel.write, batch(7)).until_write_blocks(channel, 3)
    take_one(channel)
    thread.result()
    del task, tasks
    gc.collect()
    take_one(channel)
    assert channel.close()
    assert take_one(channel) is None
    assert channel.statistics().batches == 2


def test_a_loop_closed_while_a_coroutine_waits_to_read_blocks_no_writer() -> None:
    """P15: the write wakes no reader, and the batch stays queued for the next one."""
    channel = Channel("the channel", 2)
    loop = asyncio.new_event_loop()
    task = loop.create_task(take_one_async(channel))
    loop.run_until_complete(asyncio.sleep(0))
    task._log_destroy_pending = False
    loop.close()
    channel.write(batch(1))
    assert value(take_one(channel)) == 1


@pytest.mark.parametrize("seed", range(20))
def test_coroutines_and_threads_race_with_cancellation_and_an_end(seed: int) -> None:
    """P5, P10, P15, F21: no batch is lost or duplicated, each producer's order is kept, and every waiter wakes."""
    rng = Random(seed)
    channel = Channel("the channel", rng.randint(1, 3), rng.choice([None, 16]))
    name = rng.choice(["close", "fail", "fail from outside"])
    accepted: list[list[int]] = [[] for _ in range(6)]
    received: list[int] = []
    end_after = rng.randint(0, 100)

    def write(number: int) -> None:
        try:
            for step in range(30):
                channel.write(batch(number * 30 + step))
                accepted[number].append(number * 30 + step)
        except ENDS[name].writer_error:
            return

    async def write_async(number: int) -> None:
        try:
            for step in range(30):
                await write_somehow(number * 30 + step)
                accepted[number].append(number * 30 + step)
        except ENDS[name].writer_error:
            return

    async def write_somehow(number: int) -> None:
        while True:
            task = asyncio.ensure_future(channel.write_async(batch(number)))
            if rng.random() < 0.3:
                for _ in range(rng.randrange(3)):
                    await asyncio.sleep(0)
                task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                return task.result()

    async def read() -> None:
        while (taken := await take_one_async(channel)) is not None:
            received.append(value(taken))
            if len(received) == end_after:
                ENDS[name].end(channel)

    async def main() -> None:
        reader = asyncio.ensure_future(read())
        threads = [Background(write, number) for number in range(3)]
        await asyncio.gather(*(write_async(number) for number in range(3, 6)))
        for thread in threads:
            await asyncio.to_thread(thread.result)
        ENDS[name].end(channel)
        await asyncio.wait([reader])
        assert reader.exception() is ENDS[name].reader_error

    run(main)
    assert sorted(received) == sorted(number for numbers in accepted for number in numbers)
    for number in range(6):
        assert [each for each in received if each // 30 == number] == accepted[number]
