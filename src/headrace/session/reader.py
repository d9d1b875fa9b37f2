"""The reader of a result: a pyarrow reader with cancel, asyncio support, and a close that releases its upstream."""

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

    It is a ``pyarrow.RecordBatchReader`` and exports ``__arrow_c_stream__``, so pyarrow, DuckDB, Polars, pandas and
    Lance accept it. Unlike pyarrow's reader, its ``close`` releases everything upstream: the readers of providers are
    closed, and writes to push tables raise ConsumerGoneError. Dropping the reader does the same.

    Any thread may read, one at a time. ``close`` and ``cancel`` may be called from another thread.

    Example:
        >>> with ctx.sql("SELECT 1 AS x").execute_stream() as reader:
        ...     for batch in reader:
        ...         print(batch.to_pylist())
        [{'x': 1}]
    """

    # Of pyarrow's readers only the IPC stream reader can be subclassed, since Python can set its C++ side: it opens a
    # file. The methods below bypass that file. C++ code that unwraps the reader (pyarrow.dataset, Flight) reads it and
    # gets the same batches.
    def __init__(self, result: ResultStream) -> None:
        self._result = result
        self._schema = result.schema
        super().__init__(pa.PythonFile(_IpcFile(self._schema, result), mode="r"))

    @property
    def schema(self) -> pa.Schema:
        """The schema of the result; available before the first batch."""
        return self._schema

    def read_next_batch(self) -> pa.RecordBatch:
        """Return the next batch; wait for it.

        Raises:
            StopIteration: The stream has ended.
            CancelledError: The stream was cancelled.
            ClosedError: The reader or its session was closed, or an earlier read raised.
            HeadraceError: The query failed; every batch before the failure was returned.

        Example:
            >>> ctx.sql("SELECT 1 AS x").execute_stream().read_next_batch().to_pylist()
            [{'x': 1}]
        """
        batch = self._result.next()
        if batch is None:
            raise StopIteration
        return batch

    def read_next_batch_with_custom_metadata(self) -> pa.lib.RecordBatchWithMetadata:
        """Return the next batch and its metadata, which is always None: batches of a result have none.

        Raises:
            HeadraceError: As ``read_next_batch``, which also raises StopIteration at the end.

        Example:
            >>> batch, metadata = ctx.sql("SELECT 1 AS x").execute_stream().read_next_batch_with_custom_metadata()
            >>> batch.num_rows, metadata
            (1, None)
        """
        return pa.lib.RecordBatchWithMetadata(self.read_next_batch(), None)

    def iter_batches_with_custom_metadata(self) -> Iterator[pa.lib.RecordBatchWithMetadata]:
        """Iterate over the remaining batches and their metadata, which is always None.

        Raises:
            HeadraceError: While iterating, as ``read_next_batch``.

        Example:
            >>> reader = ctx.sql("SELECT 1 AS x").execute_stream()
            >>> [batch.num_rows for batch, metadata in reader.iter_batches_with_custom_metadata()]
            [1]
        """
        return (pa.lib.RecordBatchWithMetadata(batch, None) for batch in self)

    def read_all(self) -> pa.Table:
        """Read the remaining batches into a table.

        Raises:
            HeadraceError: As ``read_next_batch``.

        Example:
            >>> ctx.sql("SELECT 1 AS x").execute_stream().read_all().to_pylist()
            [{'x': 1}]
        """
        return pa.Table.from_batches(list(self), self._schema)

    def read_pandas(self, **options: Any) -> Any:
        """Read the remaining batches into a pandas DataFrame.

        Args:
            options: The options of ``pyarrow.Table.to_pandas``.

        Raises:
            HeadraceError: As ``read_next_batch``.

        Example:
            >>> ctx.sql("SELECT 1 AS x").execute_stream().read_pandas().to_dict("list")
            {'x': [1]}
        """
        return self.read_all().to_pandas(**options)

    def cast(self, target_schema: pa.Schema) -> pa.RecordBatchReader:
        """Return a reader of the remaining batches that casts each to another schema.

        Raises:
            ValueError: ``target_schema`` has other column names, or, while reading, a value cannot be cast.
            pyarrow.ArrowTypeError: A type of the result cannot be cast to the target's type.

        Example:
            >>> reader = ctx.sql("SELECT 1 AS x").execute_stream()
            >>> reader.cast(pa.schema([("x", pa.string())])).read_all().to_pylist()
            [{'x': '1'}]
        """
        return pa.RecordBatchReader.from_batches(self._schema, self._export()).cast(target_schema)

    def cancel(self) -> None:
        """Cancel the stream: a waiting read and every later one raise CancelledError.

        Any thread may call it. It does nothing if the stream has ended.

        Raises:
            ForkedError: This process was forked after the engine was started.

        Example:
            >>> reader = ctx.sql("SELECT 1 AS x").execute_stream()
            >>> reader.cancel()
            >>> reader
            <headrace.RecordBatchReader closed, columns: x>
        """
        workers.require_same_process()
        self._result.cancel()

    def close(self) -> None:
        """Close the reader and release everything upstream; idempotent. Later reads raise ClosedError.

        Raises:
            ForkedError: This process was forked after the engine was started.

        Example:
            >>> reader = ctx.sql("SELECT 1 AS x").execute_stream()
            >>> reader.close()
            >>> reader
            <headrace.RecordBatchReader closed, columns: x>
        """
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
        """Export the schema through the Arrow PyCapsule interface."""
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the remaining batches through the Arrow PyCapsule interface; closed when the consumer releases it."""
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
    """The remaining batches of a result as a file in the Arrow IPC stream format, serialised as it is read."""

    def __init__(self, schema: pa.Schema, result: ResultStream) -> None:
        self._result: ResultStream | None = result
        self._refusal: tuple[type[HeadraceError], str] = ClosedError, ""
        result.release_with(self.release)
        self._written = io.BytesIO()
        self._writer: Any = pa.ipc.new_stream(self._written, schema)
        # Opening the file reads the schema. Serialise it here: the writer would write it with the first batch.
        self._unread: bytes = schema.serialize().to_pybytes()
        self._skip = len(self._unread)

    def release(self, refusal: HeadraceError) -> None:
        """Drop the reference to the result; later reads raise an error like ``refusal``."""
        self._result = None
        # Not the error itself: a raised exception refers to its frames.
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
