"""Engine streams, each pulled by a thread of its own into one bounded channel.

The reader's thread then only ever waits for a Python channel: Ctrl-C and cancel() reach it at once, which
a wait inside the engine would not allow, and the engine works on the next batch while this one is used.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from headrace import _runtime
from headrace._channel import Channel, ChannelState
from headrace._execution import Execution


class Drain:
    """Pulls engine streams into a channel, from the first time it is started until it is stopped.

    Args:
        streams: Engine streams, whose batches are merged as they come.
        schema: What every batch is handed on under.
        channel: Where they go; closed at the end of the last stream, failed at the first error.
        execution: The run the streams belong to; released when they are.
        translate: Makes an error of ours from whatever an engine stream raised.
    """

    def __init__(
        self,
        streams: Iterable[Any],
        schema: pa.Schema,
        channel: Channel,
        execution: Execution,
        translate: Callable[[BaseException, Execution], BaseException],
    ) -> None:
        self._pulls = [_Pull(self, stream) for stream in streams]
        self._schema = schema
        self.channel = channel
        self.execution = execution
        self._translate = translate
        self._lock = threading.Lock()
        self._running = len(self._pulls)
        self._started = False
        self._stopped = False
        for _ in self._pulls:
            execution.hold()

    def start(self) -> None:
        """Begin to pull; only the first call does anything."""
        with self._lock:
            if self._started or self._stopped:
                return
            self._started = True
        self.execution.begin()
        for pull in self._pulls:
            _runtime.start_thread(pull.run, "headrace-drain")

    def stop(self) -> None:
        """Let go of the streams: at once if nothing was started, else as soon as the engine returns."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            started = self._started
        for pull in self._pulls:
            if started:
                pull.abort()
            else:
                pull.drop()

    def hand_on(self, batch: pa.RecordBatch) -> None:
        """Pass a batch to the reader, waiting until it is wanted."""
        if batch.num_rows == 0:
            return
        if not batch.schema.equals(self._schema, check_metadata=True):
            # The engine's batches may differ from the plan's schema in nullability and metadata.
            batch = pa.RecordBatch.from_arrays(
                [column.cast(field.type) for column, field in zip(batch.columns, self._schema, strict=True)],
                schema=self._schema,
            )
        self.channel.write(batch)

    def ended(self, error: BaseException | None) -> None:
        """One stream is done."""
        with self._lock:
            self._running -= 1
            last = self._running == 0
        if error is not None and self.channel.state is ChannelState.OPEN:
            self.channel.fail(self._translate(error, self.execution))
        elif last:
            self.channel.close()


class _Pull:
    """One engine stream and the thread that is inside it."""

    def __init__(self, drain: Drain, stream: Any) -> None:
        self._drain = drain
        self._stream = stream
        self._gate = threading.Lock()
        self._thread_in_engine: int | None = None
        self._aborted = False

    def run(self) -> None:
        """Pull until the end, an error, or an abort; then let go."""
        failure: BaseException | None = None
        try:
            try:
                self._pull()
            except BaseException as error:  # noqa: BLE001 - handed to the reader
                failure = error
            if self._aborted:
                # An abort may still be pending in this thread: let it come out here, not in drop().
                for _ in range(100):
                    pass
        except _AbortError:
            pass
        self.drop(failure)

    def _pull(self) -> None:
        while not self._aborted:
            try:
                batch = self._next()
            except StopIteration:
                return
            self._drain.hand_on(batch)

    def drop(self, failure: BaseException | None = None) -> None:
        """Release the stream and, with it, everything upstream."""
        drain = self._drain
        drain.ended(failure)
        if failure is not None:
            # The traceback's frames hold the stream.
            failure.__traceback__ = None
        del failure
        self._stream = None
        drain.execution.release()

    def abort(self) -> None:
        """Make the engine return: it looks for a pending exception of its thread every second."""
        with self._gate:
            self._aborted = True
            if self._thread_in_engine is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread_in_engine), ctypes.py_object(_AbortError)
                )

    def _next(self) -> pa.RecordBatch:
        with self._gate:
            if self._aborted:
                raise StopIteration
            self._thread_in_engine = threading.get_ident()
        try:
            return next(self._stream).to_pyarrow()
        finally:
            with self._gate:
                self._thread_in_engine = None


class _AbortError(Exception):
    """Raised inside a draining thread to get it out of the engine."""
