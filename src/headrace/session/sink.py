"""The sink: the writing end of a push table."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self

import pyarrow as pa
from pyarrow import RecordBatch

from headrace._checks import require_seconds
from headrace.arrow.batches import conform, open_stream, require_no_nulls
from headrace.arrow.protocols import ArrowExportable
from headrace.arrow.schema import require_same_fields, required_columns
from headrace.channel.channel import Channel, ChannelState
from headrace.channel.statistics import SinkStatistics
from headrace.engine.runtime import workers
from headrace.errors import ClosedError, InvalidArgumentError, WriteTimeoutError


class TableSink:
    """The writing end of a push table; ``SessionContext.register_streaming_table`` returns one.

    Any number of threads may write. Batches are kept by reference, not copied: the memory behind a batch must not be
    changed until a query has read it.

    A ``with`` block closes the sink at its end, and fails it if the body raises, so an incomplete stream never looks
    complete. A sink that is dropped while open is failed, with a ``ResourceWarning``.

    Example:
        >>> with ctx.register_streaming_table("events", pa.schema([("id", pa.int64())])) as sink:
        ...     sink.write(pa.record_batch({"id": [1, 2]}))
        >>> ctx.sql("SELECT id FROM events").collect().read_all().to_pylist()
        [{'id': 1}, {'id': 2}]
    """

    def __init__(self, name: str, schema: pa.Schema, channel: Channel) -> None:
        self._name = name
        self._schema = schema
        self._channel = channel
        # The method, and the class imported by name: a small write takes a microsecond, and each look-up a part of it.
        self._write = channel.write
        self._required = required_columns(schema)
        self._what = f"A batch for streaming table {name!r}"

    @property
    def name(self) -> str:
        """The table's name."""
        return self._name

    @property
    def schema(self) -> pa.Schema:
        """The table's schema. Every batch must have it; metadata may differ."""
        return self._schema

    def write(self, batch: ArrowExportable, timeout: float | None = None) -> None:
        """Queue a batch for the query; wait while the channel is full.

        Args:
            batch: A RecordBatch, a Table, or an object with ``__arrow_c_stream__`` or ``__arrow_c_array__``. Data of
                several batches is written batch by batch.
            timeout: The maximum number of seconds to wait for room, over the whole call; None for no limit.

        Raises:
            SchemaMismatchError: The batch does not have the table's schema. It is not queued; the sink stays usable.
            InvalidArgumentError: ``batch`` is not Arrow data, or ``timeout`` is not a number of seconds.
            WriteTimeoutError: The channel stayed full; ``batches_written`` of the call's batches are queued.
            ClosedError: The sink was closed or failed, before or during the wait.
            ConsumerGoneError: The query has ended, the table was deregistered, or the session was closed.

        Example:
            >>> sink = ctx.register_streaming_table("events", pa.schema([("id", pa.int64())]))
            >>> sink.write(pa.table({"id": [1, 2]}), timeout=1)
            >>> sink.close()
        """
        if workers.forked:
            workers.require_same_process()
        if timeout is not None:
            timeout = require_seconds(timeout, "timeout")
        if isinstance(batch, RecordBatch):
            if self._required or not batch.schema.equals(self._schema, check_metadata=True):
                batch = self._checked(batch)
            self._write(batch, timeout)
            return
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._opened(batch) as parts:
            for written, part in enumerate(parts):
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                try:
                    self._channel.write(part, left)
                except WriteTimeoutError as error:
                    error.batches_written = written
                    raise

    def try_write(self, batch: ArrowExportable) -> bool:
        """Queue a batch if there is room now; never waits.

        Data of several batches is concatenated and queued as one batch.

        Args:
            batch: As for ``write``.

        Returns:
            Whether the batch was queued.

        Raises:
            SchemaMismatchError: The batch does not have the table's schema. It is not queued; the sink stays usable.
            InvalidArgumentError: ``batch`` is not Arrow data.
            ClosedError: The sink was closed or failed.
            ConsumerGoneError: The query has ended, the table was deregistered, or the session was closed.

        Example:
            >>> with ctx.register_streaming_table("events", pa.schema([("id", pa.int64())]), capacity=1) as sink:
            ...     [sink.try_write(pa.record_batch({"id": [i]})) for i in range(2)]
            [True, False]
        """
        workers.require_same_process()
        return self._channel.try_write(self._as_one_batch(batch))

    async def write_async(self, batch: ArrowExportable) -> None:
        """Queue a batch; wait for room without blocking the event loop.

        If the task is cancelled while it waits, the remaining batches of the call are not queued.

        Args:
            batch: As for ``write``.

        Raises:
            HeadraceError: As ``write``, except WriteTimeoutError.

        Example:
            >>> import asyncio
            >>> with ctx.register_streaming_table("events", pa.schema([("id", pa.int64())])) as sink:
            ...     asyncio.run(sink.write_async(pa.record_batch({"id": [1]})))
            >>> sink.statistics().rows
            1
        """
        workers.require_same_process()
        if isinstance(batch, pa.RecordBatch):
            await self._channel.write_async(self._checked(batch))
            return
        with self._opened(batch) as parts:
            for part in parts:
                await self._channel.write_async(part)

    def close(self) -> None:
        """End the stream: the query reads the queued batches and ends. Does nothing if the stream has ended.

        Raises:
            ForkedError: This process was forked after the engine was started.

        Example:
            >>> sink = ctx.register_streaming_table("events", pa.schema([("id", pa.int64())]))
            >>> sink.close()
            >>> ctx.table("events").count()
            0
        """
        workers.require_same_process()
        self._channel.close()

    def fail(self, cause: BaseException) -> None:
        """End the stream with an error: the query reads the queued batches, then raises TableError.

        Never blocks. Does nothing if the query has ended.

        Args:
            cause: The exception that stopped the producer; the ``__cause__`` of the TableError.

        Raises:
            InvalidArgumentError: ``cause`` is not an exception.
            ClosedError: The sink was closed or failed before; that end does not change.

        Example:
            >>> sink = ctx.register_streaming_table("events", pa.schema([("id", pa.int64())]))
            >>> sink.fail(OSError("connection lost"))
            >>> ctx.table("events").count()
            Traceback (most recent call last):
            headrace.errors.TableError: Table 'events' failed: OSError: connection lost
        """
        workers.require_same_process()
        if not isinstance(cause, BaseException):
            raise InvalidArgumentError(
                f"fail() needs the exception that stopped the producer, not {cause!r}.",
                hint='pass one, for instance RuntimeError("source went away").',
            )
        if not self._channel.fail(cause) and self._channel.state is not ChannelState.CANCELLED:
            raise ClosedError(f"{self._channel.name} has ended ({self._channel.state.value}) and cannot be failed.")

    def statistics(self) -> SinkStatistics:
        """Return the counters of written and queued batches, and the time that writers have waited.

        Raises:
            ForkedError: This process was forked after the engine was started.

        Example:
            >>> with ctx.register_streaming_table("events", pa.schema([("id", pa.int64())])) as sink:
            ...     sink.write(pa.record_batch({"id": [1, 2]}))
            >>> sink.statistics().rows
            2
        """
        workers.require_same_process()
        return self._channel.statistics()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if workers.forked:
            return
        if error is None:
            self.close()
        else:
            self._channel.fail(error)

    def __del__(self) -> None:
        # Check the state before any module is used: at interpreter exit they may be gone.
        channel = getattr(self, "_channel", None)
        if channel is None or channel.state.value != "open" or workers.forked:
            return
        dropped = ClosedError(
            f"The sink of {channel.name} was dropped without close() or fail(), so the stream may be incomplete.",
            hint="use it as a context manager, or close it in a finally block.",
        )
        if channel.fail(dropped):
            warnings.warn(str(dropped), ResourceWarning, source=self, stacklevel=2)

    def __repr__(self) -> str:
        now = self._channel.statistics()
        return f"<headrace.TableSink {self._name!r} {now.state}, {now.queued} of {now.capacity} batches queued>"

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        batch = conform(batch, self._schema, self._what)
        if self._required:
            require_no_nulls(batch, self._required, self._what)
        return batch

    @contextlib.contextmanager
    def _opened(self, source: ArrowExportable) -> Iterator[Iterable[pa.RecordBatch]]:
        """Yield the checked batches of ``source``; all batches of a Table are checked before the first is queued."""
        stream = open_stream(source, "A batch to write")
        try:
            if stream.schema is not None:
                require_same_fields(stream.schema, self._schema, self._what)
            checked = (self._checked(batch) for batch in stream)
            yield list(checked) if isinstance(source, pa.Table) else checked
        finally:
            stream.close()

    def _as_one_batch(self, source: ArrowExportable) -> pa.RecordBatch:
        if isinstance(source, pa.RecordBatch):
            return self._checked(source)
        with self._opened(source) as parts:
            batches = list(parts)
        return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema=self._schema)
