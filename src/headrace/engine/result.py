"""The state of a result that is being read: end, error, cancel, and what upstream must be told."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable

import pyarrow as pa

from headrace.channel.channel import Channel
from headrace.engine.runtime import workers
from headrace.errors import CancelledError, ClosedError, HeadraceError

# What waits for the reader is bounded by the channel; it is taken in one go.
_ALL = 2**63


class ResultStream:
    """One reading of one channel of batches, from the first batch to exactly one of end, error and cancel.

    Args:
        schema: The schema of the batches.
        channel: Where the batches come from.
        start: Called before the first read.
        on_end: Called once, with the reason, when nothing more will be read.
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
        self._ended = False
        self._error: BaseException | None = None
        self._holder: weakref.WeakMethod[Callable[[HeadraceError], None]] | None = None

    def release_with(self, release: Callable[[HeadraceError], None]) -> None:
        """Name the method of what holds this one; it is called when all that is left is to raise, with what to say.

        What is raised refers to the frames it came through, they to the reader, and the reader, through C++ where no
        garbage collector looks, to this. So that way must end, or a query that failed is never freed.
        """
        self._holder = weakref.WeakMethod(release)

    def next(self) -> pa.RecordBatch | None:
        """The next batch, waiting for it; None at the end."""
        self.require_open()
        try:
            if self._ready():
                return self._take()
            batches = self._channel.take(_ALL, _ALL)
        except BaseException as error:  # noqa: BLE001 - raised again
            raise self._failed(error) from error.__cause__
        return self._arrived(batches)

    async def next_async(self) -> pa.RecordBatch | None:
        """``next``, waiting without blocking the event loop."""
        self.require_open()
        try:
            if self._ready():
                return self._take()
            batches = await self._channel.take_async(_ALL, _ALL)
        except Exception as error:  # noqa: BLE001 - raised again
            raise self._failed(error) from error.__cause__
        return self._arrived(batches)

    def wait_until_over(self) -> None:
        """Wait until every batch is in the channel, which must have room for all; raises what the query does."""
        self.require_open()
        try:
            self._ready()
            self._channel.wait_until_over()
        except BaseException as error:  # noqa: BLE001 - raised again
            self.close()
            raise self._failed(error) from error.__cause__
        self._release("the query has ended")

    def cancel(self) -> None:
        """Give up: a read that waits, and every later one, raises CancelledError."""
        self._cancel("it was cancelled", CancelledError("The stream was cancelled; what was read of it is not whole."))

    def close(self, reason: str = "its reader was closed") -> None:
        """Release everything upstream; every later read raises ClosedError."""
        closed = ClosedError("The reader is closed.")
        self._cancel(reason, closed)
        self._ended = False
        self._error = self._error or closed
        self._release_holder(self._error)

    def require_open(self) -> None:
        """Raise if nothing can be read any more, other than for having come to the end."""
        workers.require_same_process()
        if self._error is None:
            return
        if isinstance(self._error, (ClosedError, CancelledError)):
            raise self._error
        raise _refusal(self._error) from self._error

    @property
    def state(self) -> str:
        """``open``, ``ended``, or ``closed`` for everything else."""
        return "closed" if self._error is not None else "ended" if self._ended else "open"

    def __del__(self) -> None:
        # Not the reader's: code in C++ may read on after the reader object itself is gone.
        # And not where nothing is left to release: the interpreter may have taken the modules down.
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
            self._taken.extend(batches)
            return self._taken.popleft()
        with self._lock:
            if self._error is not None:
                # Somebody left while the end was on its way: that came first.
                raise self._error
            self._ended = True
        self._release("the query has ended")
        return None

    def _failed(self, error: BaseException) -> BaseException:
        if isinstance(error, HeadraceError):
            self._error = error
            self._release_holder(error)
            self._release("the query has failed")
        else:  # Ctrl-C, or whatever else a signal's handler raises.
            self.close("its reader was interrupted")
        return error

    def _cancel(self, reason: str, error: HeadraceError) -> None:
        with self._lock:
            leaving = not self._ended and self._error is None
            if leaving:
                self._error = error
        if leaving:
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
    """What to say to whoever reads on after an error, without a reference to it."""
    if isinstance(error, (ClosedError, CancelledError)):
        return type(error)(str(error))
    return ClosedError(f"The stream has failed before, with {type(error).__name__}: {error}")
