"""The sink that producers write to."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from headrace._checks import require_seconds
from headrace.arrow.batches import conform, open_stream, require_no_nulls
from headrace.arrow.schema import require_same_fields, required_columns
from headrace.channel.channel import Channel, ChannelState, SinkStatistics
from headrace.engine.runtime import workers
from headrace.errors import ClosedError, InvalidArgumentError, WriteTimeoutError


class TableSink:
    """The writing end of a streaming table; made by ``SessionContext.register_streaming_table``.

    Any number of threads may write. Batches are kept by reference, not copied: memory a batch was made
    from must not be changed until a query has read it.

    As a context manager the sink is closed at the end, or failed if the body raised, so that a stream that
    was cut off never looks whole. A sink dropped while open is failed too, with a ``ResourceWarning``.
    """

    def __init__(self, name: str, schema: pa.Schema, channel: Channel) -> None:
        self._name = name
        self._schema = schema
        self._channel = channel
        self._required = required_columns(schema)
        self._what = f"A batch for streaming table {name!r}"

    @property
    def name(self) -> str:
        """The table's name."""
        return self._name

    @property
    def schema(self) -> pa.Schema:
        """The table's schema, which every batch must have; metadata may differ."""
        return self._schema

    def write(self, batch: Any, timeout: float | None = None) -> None:
        """Hand a batch to the query, waiting while the channel is full.

        Args:
            batch: A RecordBatch, a Table, or anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``;
                one that holds several batches is written batch by batch.
            timeout: The most seconds to wait for room, over the whole call; None waits for as long as it takes.

        Raises:
            SchemaMismatchError: The batch is not of the table's schema; nothing is queued, the sink stays usable.
            InvalidArgumentError: It is no Arrow data at all, or ``timeout`` is not a number of seconds.
            WriteTimeoutError: There was no room in time; ``batches_written`` of the call's batches are queued.
            ClosedError: The sink was closed or failed, before or while waiting.
            ConsumerGoneError: The query has ended, the table was deregistered or the session closed.
        """
        workers.require_same_process()
        if timeout is not None:
            timeout = require_seconds(timeout, "timeout")
        if isinstance(batch, pa.RecordBatch):
            self._channel.write(self._checked(batch), timeout)
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

    def try_write(self, batch: Any) -> bool:
        """Hand a batch to the query if there is room now.

        What holds several batches is taken whole, as one, or not at all.

        Returns:
            Whether it was taken.

        Raises:
            SchemaMismatchError: The batch is not of the table's schema; the sink stays usable.
            ClosedError: The sink was closed or failed.
            ConsumerGoneError: The query has ended, the table was deregistered or the session closed.
        """
        workers.require_same_process()
        return self._channel.try_write(self._as_one_batch(batch))

    async def write_async(self, batch: Any) -> None:
        """``write`` for asyncio: waits for room without blocking the event loop; cancelling it queues nothing more."""
        workers.require_same_process()
        if isinstance(batch, pa.RecordBatch):
            await self._channel.write_async(self._checked(batch))
            return
        with self._opened(batch) as parts:
            for part in parts:
                await self._channel.write_async(part)

    def close(self) -> None:
        """End the stream: the query reads what is queued and ends. Does nothing if the sink has ended already."""
        workers.require_same_process()
        self._channel.close()

    def fail(self, cause: BaseException) -> None:
        """End the stream with an error: the query reads what is queued, then raises with ``cause`` as its cause.

        Never blocks. If the query has gone already there is nobody to tell, and nothing happens.

        Raises:
            InvalidArgumentError: ``cause`` is not an exception.
            ClosedError: The sink was closed or failed before; that end stands.
        """
        workers.require_same_process()
        if not isinstance(cause, BaseException):
            raise InvalidArgumentError(
                f"fail() needs the exception that stopped the producer, not {cause!r}.",
                hint='pass one, for instance RuntimeError("source went away").',
            )
        if not self._channel.fail(cause) and self._channel.state is not ChannelState.CANCELLED:
            raise ClosedError(f"{self._channel.name} has ended ({self._channel.state.value}) and cannot fail any more.")

    def statistics(self) -> SinkStatistics:
        """What was written, what is queued, and how long writers have waited."""
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
        # First without a look at any module: the interpreter may have taken them down.
        channel = getattr(self, "_channel", None)
        if channel is None or channel.state.value != "open" or workers.forked:
            return
        dropped = ClosedError(
            f"The sink of {channel.name} was dropped without close() or fail(), so the stream may be cut off.",
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
    def _opened(self, source: Any) -> Iterator[Iterable[pa.RecordBatch]]:
        """The checked batches of anything that can be written; a table is checked before its first is handed out."""
        stream = open_stream(source, "A batch to write")
        try:
            if stream.schema is not None:
                require_same_fields(stream.schema, self._schema, self._what)
            checked = (self._checked(batch) for batch in stream)
            yield list(checked) if isinstance(source, pa.Table) else checked
        finally:
            stream.close()

    def _as_one_batch(self, source: Any) -> pa.RecordBatch:
        if isinstance(source, pa.RecordBatch):
            return self._checked(source)
        with self._opened(source) as parts:
            batches = list(parts)
        return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema=self._schema)
