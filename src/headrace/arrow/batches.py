"""Any Arrow source opened as a stream of checked record batches."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import pyarrow as pa

from headrace._checks import kind_of
from headrace.arrow.schema import require_same_fields
from headrace.errors import InvalidArgumentError, SchemaMismatchError


def conform(batch: pa.RecordBatch, schema: pa.Schema, what: str) -> pa.RecordBatch:
    """Return ``batch`` with exactly ``schema``, metadata included, without copying.

    Raises:
        SchemaMismatchError: ``batch`` is not a RecordBatch, or its fields differ.
    """
    if not isinstance(batch, pa.RecordBatch):
        raise SchemaMismatchError(f"{what} is not a pyarrow.RecordBatch but {kind_of(batch)}.")
    if not batch.schema.equals(schema, check_metadata=True):
        require_same_fields(batch.schema, schema, what)
        batch = pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    return batch


def require_no_nulls(batch: pa.RecordBatch, required: Iterable[int], what: str) -> None:
    """Check that the columns at the positions ``required`` contain no nulls.

    Raises:
        SchemaMismatchError: A column contains nulls; the message names the first.
    """
    for index in required:
        if batch.column(index).null_count:
            raise SchemaMismatchError(
                f"{what} holds nulls in column {batch.schema.names[index]!r}, which is declared not null.",
                hint="drop those rows, or declare the column nullable.",
            )


class BatchStream:
    """The record batches of a source, with one ``close``.

    Attributes:
        schema: The source's schema, or None if the source does not declare one (a generator of batches).
    """

    def __init__(
        self, schema: pa.Schema | None, batches: Iterator[pa.RecordBatch], close: Callable[[], object] | None
    ) -> None:
        self.schema = schema
        self._batches = batches
        self._close = close

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._batches

    def close(self) -> None:
        """Close the source and drop the reference to it; later calls do nothing."""
        close, self._close = self._close, None
        batches, self._batches = self._batches, iter(())
        try:
            if close is not None:
                close()
        finally:
            if isinstance(batches, Generator):
                batches.close()


def open_stream(source: Any, what: str) -> BatchStream:
    """Open a source of record batches.

    The source is a RecordBatch, a Table, a reader (``schema`` and ``read_next_batch``), anything with
    ``__arrow_c_stream__`` or ``__arrow_c_array__``, or an iterable of record batches.

    Raises:
        InvalidArgumentError: ``source`` is none of these.
    """
    close = getattr(source, "close", None)
    close = close if callable(close) else None
    if isinstance(source, pa.RecordBatch):
        return BatchStream(source.schema, iter((source,)), None)
    if isinstance(source, pa.Table):
        return BatchStream(source.schema, iter(source.to_batches()), None)
    schema = getattr(source, "schema", None)
    if isinstance(schema, pa.Schema) and callable(getattr(source, "read_next_batch", None)):
        return BatchStream(schema, _read(source), close)
    if hasattr(source, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(source)
        return BatchStream(reader.schema, _read(reader), close)
    if hasattr(source, "__arrow_c_array__"):
        batch = pa.record_batch(source)
        return BatchStream(batch.schema, iter((batch,)), None)
    if isinstance(source, Iterable) and not isinstance(source, (str, bytes, dict)):
        batches = iter(source)
        return BatchStream(
            schema if isinstance(schema, pa.Schema) else None, batches, close or getattr(batches, "close", None)
        )
    raise InvalidArgumentError(
        f"{what} must be a RecordBatch, a Table, a reader, or anything with __arrow_c_stream__ or "
        f"__arrow_c_array__, not {kind_of(source)}.",
        hint="pyarrow.record_batch(...) or pyarrow.table(...) makes one from Python values.",
    )


def _read(reader: Any) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        yield batch
