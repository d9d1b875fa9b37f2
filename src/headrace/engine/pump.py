"""Pumps that read engine streams into a bounded channel, with one thread per stream.

The reader's thread waits only for the channel, so Ctrl-C and cancel() wake it immediately; a wait inside the engine
would not allow that. The engine computes the next batch while the reader uses the current one.
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
    """Reads engine streams into a channel, from ``start`` to the end of the streams or ``cancel``.

    Args:
        streams: Engine streams; their batches are merged in the order of arrival.
        schema: The schema of every batch in the channel.
        channel: The channel to write to; closed after the last stream ends, failed at the first error.
        execution: The execution of the streams; each stream is a holder.
        translate: Translates an exception of an engine stream into a headrace error.
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
        """Start one thread per stream; later calls do nothing."""
        with self._lock:
            if self._started or self._cancelled:
                return
            self._started = True
        self.execution.begin()
        for stream in self._streams:
            start_thread(stream.run, "headrace-pump")

    def cancel(self) -> None:
        """Release the streams: now if the pump was not started, else when the engine returns."""
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

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch to the channel; wait while it is full. A batch without rows is dropped."""
        if batch.num_rows == 0:
            return
        self.channel.write(relabelled(batch, self._schema))

    def end_stream(self, error: BaseException | None) -> None:
        """Fail the channel with ``error``, and close it if this was the last stream."""
        # Before this stream is counted as ended: otherwise another one could be the last, and close the channel first.
        if error is not None and self.channel.state is ChannelState.OPEN:
            self.channel.fail(self._translate(error, self.execution))
        with self._lock:
            self._running -= 1
            last = self._running == 0
        if last:
            self.channel.close()


class _StreamPump:
    """Reads one engine stream, on its thread."""

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
        """Read until the end, an error or an abort; then release the stream."""
        self._thread = threading.get_ident()
        failure: BaseException | None = None
        try:
            while not self._cancelled and (batch := self._next()) is not None:
                self._pump.write(batch)
        except BaseException as error:  # noqa: BLE001 - the reader raises it
            self._inside = False
            failure = error
        try:
            self._raise_pending_abort()
        except AbortError as error:
            failure = error
        self.release(failure)

    def release(self, failure: BaseException | None = None) -> None:
        """Release the stream and, with it, everything upstream."""
        pump = self._pump
        pump.end_stream(failure)
        if failure is not None:
            # The frames of the traceback refer to the stream.
            failure.__traceback__ = None
        del failure
        self._stream = None
        pump.execution.release()
        self.done = True

    def cancel(self) -> None:
        """Stop reading; abort the engine if it has not returned after ``ABORT_AFTER`` seconds."""
        self._cancelled = True
        self.abort_at = time.monotonic() + ABORT_AFTER
        if not self.done:
            aborts.watch(self)

    def abort(self) -> bool:
        """Raise AbortError in the thread if it is inside the engine; return False if it is not.

        The engine checks for a pending exception once a second. In a thread that runs Python code the exception would
        surface at any line, so a thread that has left the engine waits in ``_raise_pending_abort`` until this call
        has returned.
        """
        # Otherwise the thread would free them before its check, and a finalizer would swallow the exception.
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
            self._raise_pending_abort()
        return None if batch is None else batch.to_pyarrow()

    def _raise_pending_abort(self) -> None:
        """Wait for an abort in progress, and let its exception surface here, where it is caught."""
        while self._aborting:
            time.sleep(0.001)
        # The interpreter checks for a pending exception in every iteration of a loop.
        for _ in range(100):
            pass
