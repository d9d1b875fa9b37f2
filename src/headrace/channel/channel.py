"""A bounded channel of record batches between any number of writers and readers.

A channel is open until the first of these calls ends it. Later calls change nothing:

- ``close``: the writing side is done. The reader takes the queued batches, then the stream ends.
- ``fail``: the writing side failed. The reader takes the queued batches, then gets the exception. With
  ``consumer_gone``, the session was closed or the table deregistered, and writes raise ConsumerGoneError.
- ``cancel``: the reading side stopped. The queued batches are dropped, and writes raise ConsumerGoneError.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from enum import Enum

import pyarrow as pa

from headrace._counts import counted
from headrace.arrow.sizes import BatchSizes
from headrace.channel.queue import BatchQueue
from headrace.channel.statistics import SinkStatistics
from headrace.channel.waiters import AsyncWaiter, wake_all
from headrace.errors import ClosedError, ConsumerGoneError, HeadraceError, WriteTimeoutError

# A finalizer or a signal handler may end the channel on the waiting thread itself, between its check and its wait.
# No notification follows then, so a waiter checks again after this many seconds.
_LOOK_AGAIN = 0.5
# More batches than any queue has.
_NEVER = 2**63


class ChannelState(Enum):
    """The state of a channel; every state except OPEN is final."""

    OPEN = "open"
    CLOSED = "closed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Channel:
    """A queue of record batches, bounded in batches and optionally in bytes.

    Any number of threads and event loops write. Each batch is taken by one reader; with one reader they keep their
    order. A batch larger than ``max_bytes`` is accepted when the queue is empty, since it would never fit otherwise.

    Args:
        name: The name of the channel in error messages.
        capacity: The maximum number of queued batches.
        max_bytes: The maximum number of queued bytes, or None for no limit.
        sizes: The sizes of the batches, by default measured for each.
    """

    def __init__(self, name: str, capacity: int, max_bytes: int | None = None, sizes: BatchSizes | None = None) -> None:
        self.name = name
        self._queue = BatchQueue(capacity, max_bytes, sizes or BatchSizes())
        # Reentrant, like every lock that a finalizer may take: garbage collection may start while it is held.
        self._lock = threading.RLock()
        self._readable = threading.Condition(self._lock)
        self._writable = threading.Condition(self._lock)
        self._gathered = threading.Condition(self._lock)
        self._over = threading.Condition(self._lock)
        self._async_readers: list[AsyncWaiter] = []
        self._async_writers: list[AsyncWaiter] = []
        self._waiting_readers = 0
        self._gathering = 0
        # How many batches are queued when a write wakes a reader: most writes wake none.
        self._wake_at = _NEVER
        self._gather_up_to = _NEVER
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
        """Queue a batch; wait while the queue is full.

        Raises:
            WriteTimeoutError: The queue stayed full for ``timeout`` seconds; the batch is not queued.
            ClosedError: The channel was closed or failed, before or during the wait.
            ConsumerGoneError: The reader has gone away, before or during the wait.
        """
        with self._lock:
            if self._state is not ChannelState.OPEN:
                raise self._refusal()
            queued = self._queue.offer(batch) or self._wait_for_room(batch, timeout)
            if queued >= self._wake_at:
                self._wake_reader()

    def try_write(self, batch: pa.RecordBatch) -> bool:
        """Queue a batch if there is room now; return False if there is none.

        Raises:
            ClosedError: The channel was closed or failed.
            ConsumerGoneError: The reader has gone away.
        """
        with self._lock:
            if self._state is not ChannelState.OPEN:
                raise self._refusal()
            queued = self._queue.offer(batch)
            if not queued or queued >= self._wake_at:
                self._wake_reader()
            return queued > 0

    async def write_async(self, batch: pa.RecordBatch) -> None:
        """Queue a batch; wait for room without blocking the event loop. Raises as ``write`` does."""
        while True:
            with self._lock:
                if self._state is not ChannelState.OPEN:
                    raise self._refusal()
                queued = self._queue.offer(batch)
                if not queued or queued >= self._wake_at:
                    self._wake_reader()
                if queued:
                    return
                waiter = AsyncWaiter(self._async_writers)
                started = self._block()
            try:
                await waiter.future
            except BaseException:  # A task that is cancelled raises CancelledError.
                with self._lock:
                    waiter.remove()
                    self._pass_on_room()
                raise
            finally:
                with self._lock:
                    self._unblock(started)

    def close(self) -> bool:
        """End the stream after the queued batches; return False if it had already ended."""
        return self._end(ChannelState.CLOSED, "it was closed")

    def fail(self, failure: BaseException, *, consumer_gone: str | None = None) -> bool:
        """End the stream with ``failure`` after the queued batches; never blocks.

        Args:
            failure: The exception that the reader gets.
            consumer_gone: The reason, if neither side ended the stream (the session was closed or the table
                deregistered). Writes then raise ConsumerGoneError with this reason.

        Returns:
            False if the stream had already ended.
        """
        if consumer_gone is not None:
            return self._end(ChannelState.CANCELLED, consumer_gone, failure=failure)
        return self._end(ChannelState.FAILED, f"it was failed with {type(failure).__name__}", failure=failure)

    # -- the reading side ---------------------------------------------------------------------------

    def take(self, max_rows: int, max_bytes: int) -> list[pa.RecordBatch]:
        """Take queued batches; wait for the first. An empty list is the end of the stream.

        Takes at least one batch, and more while the total is at most ``max_rows`` and ``max_bytes``.

        Raises:
            BaseException: The exception that the channel was failed with, once the queue is empty.
            HeadraceError: The error that the channel was cancelled with.
        """
        with self._lock:
            while self._must_wait():
                self._wait_for_batch(_LOOK_AGAIN)
            return self._take_queued(max_rows, max_bytes)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Take the batches one by one to the end of the stream; raises as ``take`` does."""
        while taken := self.take(0, 0):
            yield from taken

    def wait(self, seconds: float) -> bool:
        """Wait for a batch or the end of the stream; return False if there is neither after ``seconds``."""
        deadline = time.monotonic() + seconds
        with self._lock:
            while self._must_wait():
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._wait_for_batch(min(left, _LOOK_AGAIN))
            return True

    def gather(self, max_rows: int, max_bytes: int, seconds: float) -> None:
        """Wait until half of the capacity is queued, or about what a take of ``max_rows`` and ``max_bytes`` would take.

        Waits no longer once a writer waits, the stream has ended, or ``seconds`` have passed.
        """
        deadline = time.monotonic() + seconds
        with self._lock:
            self._gather_up_to = self._queue.enough(max_rows, max_bytes)
            self._gathering += 1
            try:
                while not self._is_gathered():
                    left = deadline - time.monotonic()
                    if left <= 0:
                        return
                    self._set_wake_at()
                    self._wait(self._gathered, left)
            finally:
                self._gathering -= 1
                self._set_wake_at()

    async def take_async(self, max_rows: int, max_bytes: int) -> list[pa.RecordBatch]:
        """Do what ``take`` does, without blocking the event loop."""
        while True:
            with self._lock:
                if not self._must_wait():
                    return self._take_queued(max_rows, max_bytes)
                waiter = AsyncWaiter(self._async_readers)
                self._set_wake_at()
            try:
                await waiter.future
            except BaseException:  # A task that is cancelled raises CancelledError.
                with self._lock:
                    waiter.remove()
                raise

    def set_capacity(self, capacity: int) -> None:
        """Change how many batches may be queued; those that are stay."""
        with self._lock:
            self._queue.capacity = capacity
            self._pass_on_room()

    def wait_until_over(self) -> None:
        """Wait until the writing side has ended the stream; take nothing.

        Raises:
            BaseException: The exception that the channel was failed with, whether or not batches are queued.
            HeadraceError: The error that the channel was cancelled with.
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
        """Raise the error that the channel was cancelled with, if it was."""
        if self._reader_error is not None:
            raise self._reader_error

    def cancel(self, reason: str, error: HeadraceError | None = None) -> bool:
        """End the stream from the reading side and drop the queued batches, also if it is closed or failed.

        Args:
            reason: The reason, which is part of the message that writers get.
            error: The error that later reads raise; by default a ClosedError.

        Returns:
            False if the channel was already cancelled.
        """
        error = error or ClosedError(f"{self.name} was closed: {reason}.")
        with self._lock:
            was_cancelled = self._reader_error is not None
            if not was_cancelled:
                self._reader_error = error
                self._queue.clear()
            if self._state is ChannelState.OPEN:
                self._state = ChannelState.CANCELLED
                self._writer_reason = reason
            self._wake_all()
        return not was_cancelled

    # -- both ---------------------------------------------------------------------------------------

    @property
    def state(self) -> ChannelState:
        """The state of the channel."""
        return self._state

    def statistics(self) -> SinkStatistics:
        """Return a snapshot of the counters."""
        with self._lock:
            now = time.monotonic()
            waiting = sum(now - since for since in self._blocked_since)
            queue = self._queue
            return SinkStatistics(
                batches=queue.removed_batches + len(queue),
                rows=queue.removed_rows + queue.rows,
                bytes=queue.removed_bytes + queue.bytes,
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
            # A KeyboardInterrupt may leave wait() with or without the lock held, and releasing a lock that is not
            # held raises RuntimeError. Make sure that it is held exactly once.
            with contextlib.suppress(RuntimeError):
                self._lock.release()
            self._lock.acquire()
            raise

    def _is_gathered(self) -> bool:
        return (
            len(self._queue) >= self._gather_up_to
            or self._waiting_writers > 0
            or bool(self._async_writers)
            or self._state is not ChannelState.OPEN
        )

    def _set_wake_at(self) -> None:
        if self._gathering:
            self._wake_at = self._gather_up_to
        else:
            self._wake_at = 1 if self._waiting_readers or self._async_readers else _NEVER

    def _wake_reader(self) -> None:
        """Wake the reader that gathers, or one that waits; a reader that then waits again sets when to wake it."""
        self._wake_at = _NEVER
        if self._gathering:
            self._gathered.notify_all()
        else:
            self._readable.notify()
            wake_all(self._async_readers)

    def _must_wait(self) -> bool:
        return not self._queue and self._state is ChannelState.OPEN

    def _wait_for_batch(self, seconds: float) -> None:
        self._waiting_readers += 1
        self._set_wake_at()
        try:
            self._wait(self._readable, seconds)
        finally:
            self._waiting_readers -= 1
            self._set_wake_at()

    def _wait_for_room(self, batch: pa.RecordBatch, timeout: float | None) -> int:
        """Queue a batch as soon as there is room, and return how many are queued."""
        started = self._block()
        deadline = None if timeout is None else started + timeout
        try:
            while self._state is ChannelState.OPEN:
                queued = self._queue.offer(batch)
                if queued:
                    return queued
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise WriteTimeoutError(
                        f"{self.name} stayed full for {timeout} s ({counted(len(self._queue), 'batch')}, "
                        f"{counted(self._queue.bytes, 'byte')} queued).",
                        hint="is a query reading it? Write again, or give it a larger capacity.",
                    )
                self._waiting_writers += 1
                self._wake_reader()
                try:
                    self._wait(self._writable, _LOOK_AGAIN if left is None else min(left, _LOOK_AGAIN))
                finally:
                    self._waiting_writers -= 1
            raise self._refusal()
        except BaseException:
            # This writer may have received the notification for free room: pass it to the next one.
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

    def _take_queued(self, max_rows: int, max_bytes: int) -> list[pa.RecordBatch]:
        self.require_reader()
        if not self._queue and self._failure is not None:
            raise self._failure
        taken = self._queue.take(max_rows, max_bytes)
        if self._queue and self._waiting_readers:
            # The writers woke only the reader that took these.
            self._readable.notify()
        # With a byte limit, the batch of a notified writer may still not fit, so notify all writers.
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
        self._gathered.notify_all()
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
