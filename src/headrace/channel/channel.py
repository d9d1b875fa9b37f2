"""The bounded channel of record batches between writers and one reader; no engine in it.

A channel is open until the first of these ends it; what comes later changes nothing:

- ``close``: the writing side is done. What is queued is still read, then the stream ends.
- ``fail``: the writing side broke. What is queued is still read, then the reader gets the exception. The same from
  outside (session closed, table deregistered), but for the error that writers get.
- ``cancel``: the reading side left. What is queued is dropped, and writes raise ConsumerGoneError.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from headrace.arrow.batches import batch_size_in_bytes
from headrace.channel.queue import BatchQueue
from headrace.channel.waiters import AsyncWaiter, wake_all
from headrace.errors import ClosedError, ConsumerGoneError, HeadraceError, WriteTimeoutError

# A finalizer or a Ctrl-C may come on the waiting thread itself, after it looked and before it waits, and nothing then
# wakes it; so it looks again after this many seconds.
_LOOK_AGAIN = 0.5


class ChannelState(Enum):
    """Where a channel is in its life; everything but OPEN is final."""

    OPEN = "open"
    CLOSED = "closed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class SinkStatistics:
    """A moment in the life of a channel.

    Attributes:
        batches: Batches accepted since the start.
        rows: Rows in them.
        bytes: Bytes in them.
        queued: Batches accepted and not yet taken by the reader.
        queued_rows: Rows in those.
        queued_bytes: Bytes in those.
        capacity: The most batches that may be queued.
        max_bytes: The most bytes that may be queued, or None for no such bound.
        seconds_blocked: How long writers have waited for room, added up over all of them.
        waiting_readers: Readers that wait now, for a batch or for the end; threads and coroutines.
        waiting_writers: Writers that wait now for room; threads and coroutines.
        state: ``open``, ``closed``, ``failed`` or ``cancelled``.
    """

    batches: int
    rows: int
    bytes: int
    queued: int
    queued_rows: int
    queued_bytes: int
    capacity: int
    max_bytes: int | None
    seconds_blocked: float
    waiting_readers: int
    waiting_writers: int
    state: str


class Channel:
    """A queue of record batches, bounded in batches and, if asked, in bytes.

    Any number of threads and event loops write; one reader takes. A batch larger than ``max_bytes`` is
    accepted when nothing else is queued, since it could never be otherwise.

    Args:
        name: What the messages of its errors call it.
        capacity: The most batches queued.
        max_bytes: The most bytes queued, or None.
    """

    def __init__(self, name: str, capacity: int, max_bytes: int | None = None) -> None:
        self.name = name
        self._queue = BatchQueue(capacity, max_bytes)
        # Reentrant, as is every lock that a finalizer may take: garbage is collected in the middle of anything.
        self._lock = threading.RLock()
        self._readable = threading.Condition(self._lock)
        self._writable = threading.Condition(self._lock)
        self._over = threading.Condition(self._lock)
        self._async_readers: list[AsyncWaiter] = []
        self._async_writers: list[AsyncWaiter] = []
        self._waiting_readers = 0
        self._waiting_writers = 0
        self._waiting_for_end = 0
        self._seconds_blocked = 0.0
        self._blocked_since: list[float] = []
        self._state = ChannelState.OPEN
        self._failure: BaseException | None = None
        self._reader_error: HeadraceError | None = None
        self._writer_reason = ""

    # -- the writing side ---------------------------------------------------------------------------

    def write(self, batch: pa.RecordBatch, timeout: float | None = None) -> None:
        """Queue a batch, waiting for room.

        Raises:
            WriteTimeoutError: There was no room for ``timeout`` seconds; the batch is not queued.
            ClosedError: The channel was closed or failed, before or while waiting.
            ConsumerGoneError: The reader has left, before or while waiting.
        """
        size = batch_size_in_bytes(batch)
        with self._lock:
            if self._state is not ChannelState.OPEN:
                raise self._refusal()
            if not self._queue.has_room(size):
                self._wait_for_room(size, timeout)
            self._put(batch, size)

    def try_write(self, batch: pa.RecordBatch) -> bool:
        """Queue a batch if there is room now; False if there is none.

        Raises:
            ClosedError: The channel was closed or failed.
            ConsumerGoneError: The reader has left.
        """
        size = batch_size_in_bytes(batch)
        with self._lock:
            if self._state is not ChannelState.OPEN:
                raise self._refusal()
            if not self._queue.has_room(size):
                return False
            self._put(batch, size)
            return True

    async def write_async(self, batch: pa.RecordBatch) -> None:
        """Queue a batch, waiting for room without blocking the event loop; raises as ``write`` does."""
        size = batch_size_in_bytes(batch)
        while True:
            with self._lock:
                if self._state is not ChannelState.OPEN:
                    raise self._refusal()
                if self._queue.has_room(size):
                    self._put(batch, size)
                    return
                waiter = AsyncWaiter(self._async_writers)
                started = self._block()
            try:
                await waiter.future
            except asyncio.CancelledError:
                with self._lock:
                    waiter.remove()
                    self._pass_on_room()
                raise
            finally:
                with self._lock:
                    self._unblock(started)

    def close(self) -> bool:
        """End the stream after what is queued; False if it had ended already."""
        return self._end(ChannelState.CLOSED, "it was closed")

    def fail(self, failure: BaseException, *, consumer_gone: str | None = None) -> bool:
        """End the stream with ``failure`` after what is queued; never blocks.

        Args:
            failure: What the reader gets.
            consumer_gone: Why nothing can be written any more, if the stream is ended from outside (the session was
                closed, the table deregistered). Writers then get a ConsumerGoneError.

        Returns:
            False if the stream had ended already.
        """
        if consumer_gone is not None:
            return self._end(ChannelState.CANCELLED, consumer_gone, failure=failure)
        return self._end(ChannelState.FAILED, f"it was failed with {type(failure).__name__}", failure=failure)

    # -- the reading side ---------------------------------------------------------------------------

    def take(self, max_rows: int, max_bytes: int) -> list[pa.RecordBatch]:
        """Take what is queued, waiting for the first batch; an empty list is the end of the stream.

        Takes whole batches while they add up to at most ``max_rows`` and ``max_bytes``, and one in any case.

        Raises:
            BaseException: The exception the channel was failed with, once nothing is queued.
            HeadraceError: What the channel was cancelled with.
        """
        with self._lock:
            self._wait_for_batch()
            return self._take_queued(max_rows, max_bytes)

    async def take_async(self, max_rows: int, max_bytes: int) -> list[pa.RecordBatch]:
        """``take``, waiting without blocking the event loop."""
        while True:
            with self._lock:
                if self._queue or self._state is not ChannelState.OPEN:
                    return self._take_queued(max_rows, max_bytes)
                waiter = AsyncWaiter(self._async_readers)
            try:
                await waiter.future
            except asyncio.CancelledError:
                with self._lock:
                    waiter.remove()
                raise

    def wait_until_over(self) -> None:
        """Wait until the writing side has ended the stream, taking nothing.

        Raises:
            BaseException: The exception the channel was failed with; what is queued is not waited for.
            HeadraceError: What the channel was cancelled with.
        """
        with self._lock:
            while self._state is ChannelState.OPEN:
                self._waiting_for_end += 1
                try:
                    self._wait(self._over, _LOOK_AGAIN)
                finally:
                    self._waiting_for_end -= 1
            self.require_reader()
            if self._failure is not None:
                raise self._failure

    def require_reader(self) -> None:
        """Raise what the channel was cancelled with, if it was."""
        if self._reader_error is not None:
            raise self._reader_error

    def cancel(self, reason: str, error: HeadraceError | None = None) -> bool:
        """Leave, dropping what is queued.

        Args:
            reason: Why, as the writers are told.
            error: What a reader gets from now on; a ClosedError if not given.

        Returns:
            False if the reader had left before; queued batches of a closed or failed channel are dropped.
        """
        error = error or ClosedError(f"{self.name} was closed: {reason}.")
        with self._lock:
            left_before = self._reader_error is not None
            if not left_before:
                self._reader_error = error
                self._queue.clear()
            if self._state is ChannelState.OPEN:
                self._state = ChannelState.CANCELLED
                self._writer_reason = reason
            self._wake_all()
        return not left_before

    # -- both ---------------------------------------------------------------------------------------

    @property
    def state(self) -> ChannelState:
        """Where the channel is in its life."""
        return self._state

    def statistics(self) -> SinkStatistics:
        """What has gone through so far."""
        with self._lock:
            now = time.monotonic()
            waiting = sum(now - since for since in self._blocked_since)
            queue = self._queue
            return SinkStatistics(
                batches=queue.gone_batches + len(queue),
                rows=queue.gone_rows + queue.rows,
                bytes=queue.gone_bytes + queue.bytes,
                queued=len(queue),
                queued_rows=queue.rows,
                queued_bytes=queue.bytes,
                capacity=queue.capacity,
                max_bytes=queue.max_bytes,
                seconds_blocked=self._seconds_blocked + waiting,
                waiting_readers=self._waiting_readers + self._waiting_for_end + len(self._async_readers),
                waiting_writers=self._waiting_writers + len(self._async_writers),
                state=self._state.value,
            )

    # -- under the lock -----------------------------------------------------------------------------

    def _wait(self, condition: threading.Condition, seconds: float) -> None:
        try:
            condition.wait(seconds)
        except BaseException:
            # A Ctrl-C that comes just when the lock was given up leaves wait() without it, and whoever releases it
            # next would raise another error instead. Here it is held once, in either case.
            with contextlib.suppress(RuntimeError):
                self._lock.release()
            self._lock.acquire()
            raise

    def _wait_for_batch(self) -> None:
        while not self._queue and self._state is ChannelState.OPEN:
            self._waiting_readers += 1
            try:
                self._wait(self._readable, _LOOK_AGAIN)
            finally:
                self._waiting_readers -= 1

    def _wait_for_room(self, size: int, timeout: float | None) -> None:
        started = self._block()
        deadline = None if timeout is None else started + timeout
        try:
            while self._state is ChannelState.OPEN and not self._queue.has_room(size):
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise WriteTimeoutError(
                        f"{self.name} stayed full for {timeout} s ({len(self._queue)} batches, "
                        f"{self._queue.bytes} bytes queued).",
                        hint="is a query reading it? Write again, or give it a larger capacity.",
                    )
                self._waiting_writers += 1
                try:
                    self._wait(self._writable, _LOOK_AGAIN if left is None else min(left, _LOOK_AGAIN))
                finally:
                    self._waiting_writers -= 1
            if self._state is not ChannelState.OPEN:
                raise self._refusal()
        except BaseException:
            # A wake-up meant for whoever takes the room must not die with a writer that gives up.
            self._pass_on_room()
            raise
        finally:
            self._unblock(started)

    def _block(self) -> float:
        now = time.monotonic()
        self._blocked_since.append(now)
        return now

    def _unblock(self, since: float) -> None:
        self._blocked_since.remove(since)
        self._seconds_blocked += time.monotonic() - since

    def _put(self, batch: pa.RecordBatch, size: int) -> None:
        self._queue.put(batch, size)
        if self._waiting_readers:
            self._readable.notify()
        if self._async_readers:
            wake_all(self._async_readers)

    def _take_queued(self, max_rows: int, max_bytes: int) -> list[pa.RecordBatch]:
        self.require_reader()
        if not self._queue and self._failure is not None:
            raise self._failure
        taken = self._queue.take(max_rows, max_bytes)
        # Bounded in bytes, the writer woken may be one that still does not fit, so all must look.
        if self._waiting_writers:
            self._writable.notify(len(taken) if self._queue.max_bytes is None else self._waiting_writers)
        if self._async_writers:
            wake_all(self._async_writers)
        return taken

    def _pass_on_room(self) -> None:
        self._writable.notify()
        wake_all(self._async_writers)

    def _end(self, state: ChannelState, reason: str, failure: BaseException | None = None) -> bool:
        with self._lock:
            if self._state is not ChannelState.OPEN:
                return False
            self._state = state
            self._failure = failure
            self._writer_reason = reason
            self._wake_all()
        return True

    def _wake_all(self) -> None:
        self._readable.notify_all()
        self._writable.notify_all()
        self._over.notify_all()
        wake_all(self._async_readers)
        wake_all(self._async_writers)

    def _refusal(self) -> HeadraceError:
        if self._state is ChannelState.CANCELLED:
            return ConsumerGoneError(
                f"Nothing more can be written to {self.name}, its consumer is gone: {self._writer_reason}.",
                hint="stop producing; register a new streaming table for another query.",
            )
        return ClosedError(f"Nothing more can be written to {self.name}: {self._writer_reason}.")
