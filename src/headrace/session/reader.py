"""The reader of a result: a pyarrow reader that can be closed for good, cancelled, and awaited."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from headrace.engine.result import ResultStream
from headrace.engine.runtime import workers
from headrace.errors import ClosedError, HeadraceError


class RecordBatchReader(pa.ipc.RecordBatchStreamReader):  # type: ignore[misc]
    """A stream of record batches that ends in exactly one of end, error and cancel.

    It is a ``pyarrow.RecordBatchReader`` and exports ``__arrow_c_stream__``, so pyarrow, DuckDB, Polars,
    pandas and Lance take it as it is. Unlike pyarrow's own, its ``close`` releases everything upstream:
    providers are closed and producers told. Dropping the reader does the same.

    One thread reads at a time, any thread; ``close`` and ``cancel`` may come from another.
    """

    # The readers pyarrow makes cannot be subclassed, as their C++ side cannot be set from Python, except for
    # the one of IPC streams, which opens a file. Everything below goes around that file; it is read only by
    # C++ code that takes the reader apart (pyarrow.dataset, Flight), and serves the same batches.
    def __init__(self, result: ResultStream) -> None:
        self._result = result
        self._schema = result.schema
        super().__init__(pa.PythonFile(_IpcFile(self._schema, result), mode="r"))

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
        batch = self._result.next()
        if batch is None:
            raise StopIteration
        return batch

    def read_next_batch_with_custom_metadata(self) -> Any:
        """The next batch, with no metadata: batches of a result carry none."""
        return pa.lib.RecordBatchWithMetadata(self.read_next_batch(), None)

    def iter_batches_with_custom_metadata(self) -> Iterator[Any]:
        """All batches not read yet, each with no metadata."""
        return (pa.lib.RecordBatchWithMetadata(batch, None) for batch in self)

    def read_all(self) -> pa.Table:
        """All batches not read yet, as a table; raises as ``read_next_batch`` does."""
        return pa.Table.from_batches(list(self), self._schema)

    def read_pandas(self, **options: Any) -> Any:
        """All batches not read yet, as a pandas DataFrame; ``options`` are those of ``Table.to_pandas``."""
        return self.read_all().to_pandas(**options)

    def cast(self, target_schema: pa.Schema) -> pa.RecordBatchReader:
        """The rest of the stream under another schema, cast batch by batch."""
        return pa.RecordBatchReader.from_batches(self._schema, self._export()).cast(target_schema)

    def cancel(self) -> None:
        """Give up the stream: a read that is waiting, and every later one, raises CancelledError.

        Harmless when called twice or after the end; may be called from any thread.
        """
        workers.require_same_process()
        self._result.cancel()

    def close(self) -> None:
        """Release the stream and everything upstream; idempotent."""
        workers.require_same_process()
        self._result.close()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        return self.read_next_batch()

    def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        batch = await self._result.next_async()
        if batch is None:
            raise StopAsyncIteration
        return batch

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not workers.forked:
            self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not workers.forked:
            self.close()

    def __arrow_c_schema__(self) -> object:
        """The schema, for the Arrow PyCapsule interface."""
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rest of the stream, for the Arrow PyCapsule interface; closed when the taker lets go of it."""
        return self._exported().__arrow_c_stream__(requested_schema)

    def _export_to_c(self, out_ptr: int) -> None:
        self._exported()._export_to_c(out_ptr)

    def __repr__(self) -> str:
        return f"<headrace.RecordBatchReader {self._result.state}, columns: {', '.join(self._schema.names)}>"

    def _exported(self) -> pa.RecordBatchReader:
        self._result.require_open()
        return pa.RecordBatchReader.from_batches(self._schema, self._export())

    def _export(self) -> Iterator[pa.RecordBatch]:
        result = self._result
        try:
            while (batch := result.next()) is not None:
                yield batch
        finally:
            result.close()


class _IpcFile(io.RawIOBase):
    """The rest of a result as a file in Arrow's IPC stream format, written as it is read."""

    def __init__(self, schema: pa.Schema, result: ResultStream) -> None:
        self._result: ResultStream | None = result
        self._refusal: tuple[type[HeadraceError], str] = ClosedError, ""
        result.release_with(self.release)
        self._written = io.BytesIO()
        self._writer: Any = pa.ipc.new_stream(self._written, schema)
        # The writer puts the schema before its first batch; opening the file must not wait for that one.
        self._unread: bytes = schema.serialize().to_pybytes()
        self._skip = len(self._unread)

    def release(self, refusal: HeadraceError) -> None:
        """Hold the result no longer: nothing more comes of it but the refusal."""
        self._result = None
        # Not the error itself: once raised, it refers to the frames it came through.
        self._refusal = type(refusal), str(refusal)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while len(self._unread) < size and self._writer is not None:
            if (result := self._result) is None:
                kind, message = self._refusal
                raise kind(message)
            batch = result.next()
            if batch is None:
                self._writer.close()
                self._writer = None
            else:
                self._writer.write_batch(batch)
            self._unread += self._written.getvalue()[self._skip :]
            self._skip = 0
            self._written.seek(0)
            self._written.truncate()
        part, self._unread = self._unread[:size], self._unread[size:]
        return part
