"""Engine streams, each pulled by a thread of its own into one bounded channel.

The reader's thread then only ever waits for a Python channel: Ctrl-C and cancel() reach it at once, which
a wait inside the engine would not allow, and the engine works on the next batch while this one is used.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from headrace.arrow.layout import relabelled
from headrace.channel.channel import Channel, ChannelState
from headrace.engine.abort import ABORT_AFTER, AbortError, aborts
from headrace.engine.execution import Execution
from headrace.engine.threads import raise_in_thread, start_thread


class ResultPump:
    """Pulls engine streams into a channel, from the first time it is started until it is stopped.

    Args:
        streams: Engine streams, whose batches are merged as they come.
        schema: What every batch is handed on under.
        channel: Where they go; closed at the end of the last stream, failed at the first error.
        execution: The run the streams belong to; released when they are.
        translate: Makes an error of ours from whatever an engine stream raised.
        free_dropped: Frees the Python objects that the engine has dropped and not freed yet.
    """

    def __init__(
        self,
        streams: Iterable[Any],
        schema: pa.Schema,
        channel: Channel,
        execution: Execution,
        translate: Callable[[BaseException, Execution], BaseException],
        free_dropped: Callable[[], None],
    ) -> None:
        self._streams = [_StreamPump(self, stream) for stream in streams]
        self._schema = schema
        self.channel = channel
        self.execution = execution
        self._translate = translate
        self.free_dropped = free_dropped
        self._lock = threading.RLock()
        self._running = len(self._streams)
        self._started = False
        self._cancelled = False
        for _ in self._streams:
            execution.hold()

    def start(self) -> None:
        """Begin to pull; only the first call does anything."""
        with self._lock:
            if self._started or self._cancelled:
                return
            self._started = True
        self.execution.begin()
        for stream in self._streams:
            start_thread(stream.run, "headrace-pump")

    def cancel(self) -> None:
        """Let go of the streams: at once if nothing was started, else as soon as the engine returns."""
        with self._lock:
            if self._cancelled:
                return
            self._cancelled = True
            started = self._started
        for stream in self._streams:
            if started:
                stream.cancel()
            else:
                stream.release()

    def hand_on(self, batch: pa.RecordBatch) -> None:
        """Pass a batch to the reader, waiting until it is wanted."""
        if batch.num_rows == 0:
            return
        self.channel.write(relabelled(batch, self._schema))

    def ended(self, error: BaseException | None) -> None:
        """One stream is done."""
        with self._lock:
            self._running -= 1
            last = self._running == 0
        if error is not None and self.channel.state is ChannelState.OPEN:
            self.channel.fail(self._translate(error, self.execution))
        elif last:
            self.channel.close()


class _StreamPump:
    """One engine stream and the thread that is inside it."""

    def __init__(self, pump: ResultPump, stream: Any) -> None:
        self._pump = pump
        self._stream = stream
        self._thread = 0
        self._inside = False
        self._cancelled = False
        self._aborting = False
        self.done = False
        self.abort_at = 0.0

    def run(self) -> None:
        """Pull until the end, an error, or an abort; then let go."""
        self._thread = threading.get_ident()
        failure: BaseException | None = None
        try:
            while not self._cancelled and (batch := self._next()) is not None:
                self._pump.hand_on(batch)
        except BaseException as error:  # noqa: BLE001 - handed to the reader
            self._inside = False
            failure = error
        try:
            self._await_abort()
        except AbortError as error:
            failure = error
        self.release(failure)

    def release(self, failure: BaseException | None = None) -> None:
        """Release the stream and, with it, everything upstream."""
        pump = self._pump
        pump.ended(failure)
        if failure is not None:
            # The traceback's frames hold the stream.
            failure.__traceback__ = None
        del failure
        self._stream = None
        pump.execution.release()
        self.done = True

    def cancel(self) -> None:
        """Pull no more; if the engine goes on for its own sake, get the thread out of it."""
        self._cancelled = True
        self.abort_at = time.monotonic() + ABORT_AFTER
        if not self.done:
            aborts.watch(self)

    def abort(self) -> bool:
        """Raise in the thread that is inside the engine; False if it is not just there.

        The engine looks for a pending exception of its thread once a second. In a thread that runs Python code
        the exception would come out anywhere, so one that has left the engine waits in ``_await_abort`` until this
        is over.
        """
        # Else the thread would free them before it looks, and a finalizer swallow the exception.
        self._pump.free_dropped()
        self._aborting = True
        inside = self._inside
        if inside:
            raise_in_thread(self._thread, AbortError)
        self._aborting = False
        return inside

    def _next(self) -> pa.RecordBatch | None:
        self._inside = True
        batch = next(self._stream, None)
        self._inside = False
        if self._cancelled:
            self._await_abort()
        return None if batch is None else batch.to_pyarrow()

    def _await_abort(self) -> None:
        """Let an abort that was meant for the engine come out here, where it does no harm."""
        while self._aborting:
            time.sleep(0.001)
        # The interpreter looks for a pending exception whenever a loop goes round.
        for _ in range(100):
            pass
