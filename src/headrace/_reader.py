"""The reader of a result: pyarrow's interface, closable, cancellable, and readable from asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from headrace._channel import Channel
from headrace._errors import CancelledError, ClosedError, HeadraceError
from headrace._runtime import workers


class RecordBatchReader:
    """A stream of record batches that ends in exactly one of end, error and cancel.

    Has the interface of ``pyarrow.RecordBatchReader`` and exports ``__arrow_c_stream__``, so pyarrow,
    DuckDB, Polars, pandas and Lance take it as it is. Unlike pyarrow's, its ``close`` releases everything
    upstream: providers are closed and producers told. Dropping the reader does the same.

    One thread reads at a time, any thread; ``close`` and ``cancel`` may come from another.
    """

    def __init__(
        self,
        schema: pa.Schema,
        channel: Channel,
        *,
        start: Callable[[], None] | None = None,
        stop: Callable[[str], None] | None = None,
    ) -> None:
        self._schema = schema
        self._channel = channel
        self._start = start
        self._stop = stop
        self._ended = False
        self._error: BaseException | None = None

    @property
    def schema(self) -> pa.Schema:
        """The result's schema, known before the first batch."""
        return self._schema

    def read_next_batch(self) -> pa.RecordBatch:
        """The next batch, waiting for it.

        Raises:
            StopIteration: The stream has ended.
            CancelledError: It was cancelled.
            ClosedError: The reader or its session was closed, or an earlier read raised.
            HeadraceError: The query failed; every batch before the failure was delivered.
        """
        self._before_read()
        try:
            batch = self._channel.read()
        except BaseException as error:  # noqa: BLE001 - raised again
            raise self._failed(error) from error.__cause__
        return self._after_read(batch, StopIteration)

    def read_all(self) -> pa.Table:
        """All batches not read yet, as a table; raises as ``read_next_batch`` does."""
        return pa.Table.from_batches(list(self), self._schema)

    def read_pandas(self, **options: Any) -> Any:
        """All batches not read yet, as a pandas DataFrame; ``options`` are those of ``Table.to_pandas``."""
        return self.read_all().to_pandas(**options)

    def cancel(self) -> None:
        """Give up the stream: a read that is waiting, and every later one, raises CancelledError.

        Harmless when called twice or after the end; may be called from any thread.
        """
        self._leave("it was cancelled", CancelledError("The stream was cancelled; what was read of it is not whole."))

    def close(self) -> None:
        """Release the stream and everything upstream; idempotent."""
        self._leave("its reader was closed", ClosedError("The reader is closed."))
        self._ended = False
        self._error = self._error or ClosedError("The reader is closed.")

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        return self.read_next_batch()

    def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        self._before_read(StopAsyncIteration)
        try:
            batch = await self._channel.read_async()
        except Exception as error:  # noqa: BLE001 - raised again
            raise self._failed(error) from error.__cause__
        return self._after_read(batch, StopAsyncIteration)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __arrow_c_schema__(self) -> object:
        """The schema, for the Arrow PyCapsule interface."""
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rest of the stream, for the Arrow PyCapsule interface; closed when the taker lets go of it."""
        self._before_read(None)
        exported = pa.RecordBatchReader.from_batches(self._schema, self._export())
        return exported.__arrow_c_stream__(requested_schema)

    def __del__(self) -> None:
        if not workers.forked and getattr(self, "_channel", None) is not None:
            self._leave("its reader was dropped", ClosedError("The reader is closed."))

    def __repr__(self) -> str:
        state = "failed or closed" if self._error is not None else "ended" if self._ended else "open"
        return f"<headrace.RecordBatchReader {state}, columns: {', '.join(self._schema.names)}>"

    def _export(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self
        finally:
            self.close()

    def _before_read(self, end: type[BaseException] | None = StopIteration) -> None:
        workers.require_same_process()
        if self._error is not None:
            if isinstance(self._error, (ClosedError, CancelledError)):
                raise self._error
            raise ClosedError(
                f"The stream has failed before, with {type(self._error).__name__}: {self._error}"
            ) from self._error
        if self._ended and end is not None:
            raise end
        if self._start is not None:
            self._start()

    def _after_read(self, batch: pa.RecordBatch | None, end: type[BaseException]) -> pa.RecordBatch:
        if batch is None:
            self._ended = True
            self._release("the query has ended")
            raise end
        return batch

    def _failed(self, error: BaseException) -> BaseException:
        if isinstance(error, HeadraceError):
            self._error = error
        elif isinstance(error, KeyboardInterrupt):
            self.close()
        self._release("the query has failed")
        return error

    def _leave(self, reason: str, error: HeadraceError) -> None:
        if not self._ended and self._error is None:
            self._channel.cancel(reason, error)
        self._release(reason)

    def _release(self, reason: str) -> None:
        stop, self._stop, self._start = self._stop, None, None
        if stop is not None:
            stop(reason)


def reader_over(schema: pa.Schema, batches: list[pa.RecordBatch]) -> RecordBatchReader:
    """A reader over batches already in memory."""
    channel = Channel("a collected result", max(1, len(batches)))
    for batch in batches:
        channel.write(batch)
    channel.close()
    return RecordBatchReader(schema, channel)
