"""A result stream that ends in exactly one of end, error and cancel, and then releases its upstream."""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable

import pyarrow as pa

from headrace.channel.channel import Channel
from headrace.engine.runtime import workers
from headrace.errors import CancelledError, ClosedError, HeadraceError

# No limit: the channel bounds its queue, and the reader takes all of it.
_ALL = 2**63
# Each wake-up of a reader takes longer than computing a batch. If the last batch was large and came less than FAST
# seconds ago, the next ones will come soon: wait a moment for several. Single rows are never delayed.
_FAST = 0.001
_LARGE_ROWS = 1024
_GATHER_SECONDS = 0.0005


class ResultStream:
    """Reads the batches of one channel.

    Args:
        schema: The schema of the batches.
        channel: The channel to read.
        start: Called before every read; starts the query the first time.
        on_end: Called once, with the reason, when the stream has ended.
    """

    def __init__(
        self, schema: pa.Schema, channel: Channel, *, start: Callable[[], None], on_end: Callable[[str], None]
    ) -> None:
        self.schema = schema
        self._channel = channel
        self._start: Callable[[], None] | None = start
        self._on_end: Callable[[str], None] | None = on_end
        self._taken: deque[pa.RecordBatch] = deque()
        self._lock = threading.RLock()
        self._arrived_at = 0.0
        self._ended = False
        self._error: BaseException | None = None
        self._holder: weakref.WeakMethod[Callable[[HeadraceError], None]] | None = None

    def release_with(self, release: Callable[[HeadraceError], None]) -> None:
        """Set a method that drops the caller's reference to this stream; called with the error for later reads.

        An exception refers to its frames, the frames to the reader, and the reader to this stream through C++, where
        the garbage collector cannot break the cycle. Without this call a failed query would never be freed.
        """
        self._holder = weakref.WeakMethod(release)

    def next(self) -> pa.RecordBatch | None:
        """Return the next batch, or None at the end; wait for it."""
        self.require_open()
        try:
            if self._ready():
                return self._take()
            if time.monotonic() - self._arrived_at < _FAST:
                self._channel.gather(_ALL, _ALL, _GATHER_SECONDS)
            batches = self._channel.take(_ALL, _ALL)
        except BaseException as error:  # noqa: BLE001 - raised again
            raise self._failed(error) from error.__cause__
        return self._arrived(batches)

    async def next_async(self) -> pa.RecordBatch | None:
        """Do what ``next`` does, without blocking the event loop."""
        self.require_open()
        try:
            if self._ready():
                return self._take()
            batches = await self._channel.take_async(_ALL, _ALL)
        except Exception as error:  # noqa: BLE001 - raised again
            raise self._failed(error) from error.__cause__
        return self._arrived(batches)

    def wait_until_over(self) -> None:
        """Wait until every batch is in the channel, which must be unbounded.

        Raises:
            HeadraceError: The query failed.
        """
        self.require_open()
        try:
            self._ready()
            self._channel.wait_until_over()
        except BaseException as error:  # noqa: BLE001 - raised again
            self.close()
            raise self._failed(error) from error.__cause__
        self._release("the query has ended")

    def cancel(self) -> None:
        """Cancel the stream: a waiting read and every later one raise CancelledError."""
        error = CancelledError("The stream was cancelled; the batches read so far are not the complete result.")
        self._cancel("it was cancelled", error)

    def close(self, reason: str = "its reader was closed") -> None:
        """Release everything upstream; every later read raises ClosedError."""
        closed = ClosedError("The reader is closed.")
        self._cancel(reason, closed)
        self._ended = False
        self._error = self._error or closed
        self._release_holder(self._error)

    def require_open(self) -> None:
        """Raise if the stream was closed, cancelled or failed; a stream that has reached its end is open."""
        workers.require_same_process()
        if self._error is None:
            return
        if isinstance(self._error, (ClosedError, CancelledError)):
            raise self._error
        raise _refusal(self._error) from self._error

    @property
    def state(self) -> str:
        """``open``, ``ended``, or ``closed`` if it was closed or cancelled or has failed."""
        return "closed" if self._error is not None else "ended" if self._ended else "open"

    def __del__(self) -> None:
        # This finalizer is not the reader's: C++ code may keep reading after the reader object is freed.
        # Do nothing if the stream has ended: at interpreter exit the modules may be gone.
        if self._on_end is not None and not workers.forked:
            self.close("its reader was dropped")

    def _ready(self) -> bool:
        if self._start is not None:
            self._start()
        return self._ended or bool(self._taken)

    def _take(self) -> pa.RecordBatch | None:
        if self._ended:
            return None
        self._channel.require_reader()
        return self._taken.popleft()

    def _arrived(self, batches: list[pa.RecordBatch]) -> pa.RecordBatch | None:
        if batches:
            self._arrived_at = time.monotonic() if batches[-1].num_rows >= _LARGE_ROWS else 0.0
            self._taken.extend(batches)
            return self._taken.popleft()
        with self._lock:
            if self._error is not None:
                # Another thread closed or cancelled the stream before the end arrived.
                raise self._error
            self._ended = True
        self._release("the query has ended")
        return None

    def _failed(self, error: BaseException) -> BaseException:
        if isinstance(error, HeadraceError):
            self._error = error
            self._release_holder(error)
            self._release("the query has failed")
        else:  # KeyboardInterrupt, or another exception that a signal handler raises.
            self.close("its reader was interrupted")
        return error

    def _cancel(self, reason: str, error: HeadraceError) -> None:
        with self._lock:
            is_open = not self._ended and self._error is None
            if is_open:
                self._error = error
        if is_open:
            self._channel.cancel(reason, error)
            self._release_holder(error)
        self._release(reason)

    def _release_holder(self, error: BaseException) -> None:
        release = None if self._holder is None else self._holder()
        if release is not None:
            release(_refusal(error))

    def _release(self, reason: str) -> None:
        on_end, self._on_end, self._start = self._on_end, None, None
        if on_end is not None:
            on_end(reason)


def _refusal(error: BaseException) -> HeadraceError:
    """Return the error for reads after ``error``, without a reference to it."""
    if isinstance(error, (ClosedError, CancelledError)):
        return type(error)(str(error))
    return ClosedError(f"The stream has failed before, with {type(error).__name__}: {error}")
