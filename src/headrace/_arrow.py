"""Anything that speaks Arrow becomes checked record batches of one schema."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import pyarrow as pa

from headrace._errors import InvalidArgumentError, SchemaMismatchError

# Asking a batch for its exact size costs more than queueing it; below this the buffers' sizes will do.
_EXACT_SIZE_FROM = 64 * 1024


def batch_size_in_bytes(batch: pa.RecordBatch) -> int:
    """Bytes a batch occupies; a slice of something large counts only its own part."""
    size: int = batch.get_total_buffer_size()
    return size if size < _EXACT_SIZE_FROM else int(batch.nbytes)


def require_schema(schema: object, what: str) -> pa.Schema:
    """Return ``schema`` if a table can have it.

    Raises:
        InvalidArgumentError: It is not a ``pyarrow.Schema``, has no column, has two of one name, or has a type
            that cannot be queried.
    """
    if not isinstance(schema, pa.Schema):
        raise InvalidArgumentError(
            f"{what} must be a pyarrow.Schema, not {_kind(schema)}.",
            hint="build one with pyarrow.schema([...]).",
        )
    if not schema.names:
        raise InvalidArgumentError(f"{what} has no column.", hint="give the table at least one field.")
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise InvalidArgumentError(
            f"{what} has more than one column named {', '.join(map(repr, twice))}.", hint="rename them."
        )
    for field in schema:
        if _has_sparse_union(field.type):
            raise InvalidArgumentError(
                f"{what} has a sparse union in column {field.name!r}, which the engine does not carry rightly.",
                hint="cast it to a dense union or a struct.",
            )
    return schema


def _has_sparse_union(kind: pa.DataType) -> bool:
    if pa.types.is_union(kind) and kind.mode == "sparse":
        return True
    return any(_has_sparse_union(kind.field(i).type) for i in range(kind.num_fields))


def same_fields(left: pa.Schema, right: pa.Schema) -> bool:
    """Whether names, order, types and nullability agree; metadata may differ."""
    return bool(left.equals(right, check_metadata=False))


def require_same_fields(actual: pa.Schema, expected: pa.Schema, what: str) -> None:
    """Check that ``actual`` has the fields of ``expected``.

    Raises:
        SchemaMismatchError: Naming both schemas and the first difference.
    """
    if not same_fields(actual, expected):
        raise SchemaMismatchError(
            f"{what} does not have the table's schema: {_first_difference(actual, expected)}. "
            f"Table: ({describe_schema(expected)}); given: ({describe_schema(actual)}).",
            hint="cast it to the table's schema first, nullability included.",
        )


def conform(batch: pa.RecordBatch, schema: pa.Schema, what: str) -> pa.RecordBatch:
    """Return ``batch`` under exactly ``schema``, metadata included, without copying.

    Raises:
        SchemaMismatchError: The fields differ, or a field that may not be null holds nulls.
    """
    if not isinstance(batch, pa.RecordBatch):
        raise SchemaMismatchError(f"{what} is not a pyarrow.RecordBatch but {_kind(batch)}.")
    if not batch.schema.equals(schema, check_metadata=True):
        require_same_fields(batch.schema, schema, what)
        batch = pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    return batch


def require_no_nulls(batch: pa.RecordBatch, required: Iterable[int], what: str) -> None:
    """Check the columns that may hold no null.

    Raises:
        SchemaMismatchError: Naming the first that does.
    """
    for index in required:
        if batch.column(index).null_count:
            raise SchemaMismatchError(
                f"{what} holds nulls in column {batch.schema.names[index]!r}, which is declared not null.",
                hint="drop those rows, or declare the column nullable.",
            )


def required_columns(schema: pa.Schema) -> tuple[int, ...]:
    """Positions of the columns that may hold no null."""
    return tuple(index for index, field in enumerate(schema) if not field.nullable)


def filler(field: pa.Field, rows: int) -> pa.Array:
    """An array that stands in for a column nobody reads: nulls, or zeros where nulls are not allowed."""
    if isinstance(field.type, pa.BaseExtensionType):
        storage = filler(pa.field("", field.type.storage_type, nullable=field.nullable), rows)
        return pa.ExtensionArray.from_storage(field.type, storage)
    empty = pa.nulls(rows, field.type)
    return empty if field.nullable else _without_nulls(empty)


def _without_nulls(array: pa.Array) -> pa.Array:
    kind, rows = array.type, len(array)
    if pa.types.is_dictionary(kind):
        indices = _without_nulls(pa.nulls(rows, kind.index_type))
        return pa.DictionaryArray.from_arrays(indices, filler(pa.field("", kind.value_type, nullable=False), 1))
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays([filler(child, rows) for child in kind], fields=list(kind))
    if pa.types.is_fixed_size_list(kind):
        values = filler(kind.value_field, rows * kind.list_size)
        return pa.FixedSizeListArray.from_arrays(values, type=kind)
    if pa.types.is_run_end_encoded(kind):
        runs = min(rows, 1)
        values = filler(pa.field("", kind.value_type, nullable=False), runs)
        return pa.RunEndEncodedArray.from_arrays(pa.array([rows] * runs, kind.run_end_type), values, type=kind)
    if pa.types.is_union(kind):
        first = filler(kind.field(0).with_nullable(False), rows)
        others = [filler(kind.field(i), 0) for i in range(1, kind.num_fields)]
        codes = pa.array([kind.type_codes[0]] * rows, pa.int8())
        names = [kind.field(i).name for i in range(kind.num_fields)]
        return pa.UnionArray.from_dense(
            codes, pa.array(range(rows), pa.int32()), [first, *others], names, kind.type_codes
        )
    # What nulls() makes is zeros under a mask: take the mask off.
    if pa.types.is_nested(kind):
        is_view = pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
        buffers = array.buffers()[: 3 if is_view else 2]
        return pa.Array.from_buffers(kind, rows, [None, *buffers[1:]], null_count=0, children=[array.values])
    return pa.Array.from_buffers(kind, rows, [None, *array.buffers()[1:]], null_count=0)


class BatchStream:
    """What a caller or provider gave us, as record batches, with one ``close``.

    ``schema`` is None where the source does not say it beforehand (a generator of batches).
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
        """Close the source and let go of it, the first time it is called."""
        close, self._close = self._close, None
        batches, self._batches = self._batches, iter(())
        try:
            if close is not None:
                close()
        finally:
            if isinstance(batches, Generator):
                batches.close()


def open_stream(source: Any, what: str) -> BatchStream:
    """Open anything that carries record batches.

    Takes a RecordBatch, a Table, a reader (``schema`` and ``read_next_batch``), anything with
    ``__arrow_c_stream__`` or ``__arrow_c_array__``, or an iterable of record batches.

    Raises:
        InvalidArgumentError: It is none of these.
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
        f"__arrow_c_array__, not {_kind(source)}.",
        hint="pyarrow.record_batch(...) or pyarrow.table(...) makes one from Python values.",
    )


def describe_schema(schema: pa.Schema) -> str:
    """One line with every field: ``id int64 not null, name string``."""
    return ", ".join(_describe_field(field) for field in schema)


def _read(reader: Any) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        yield batch


def _describe_field(field: pa.Field) -> str:
    return f"{field.name} {field.type}{'' if field.nullable else ' not null'}"


def _first_difference(actual: pa.Schema, expected: pa.Schema) -> str:
    if sorted(actual.names) != sorted(expected.names):
        missing = [name for name in expected.names if name not in actual.names]
        extra = [name for name in actual.names if name not in expected.names]
        parts = [f"missing column {name!r}" for name in missing] + [f"extra column {name!r}" for name in extra]
        return ", ".join(parts) or f"{len(actual)} columns instead of {len(expected)}"
    if actual.names != expected.names:
        return "the columns are in another order"
    for given, wanted in zip(actual, expected, strict=True):
        if given.type != wanted.type:
            return f"column {wanted.name!r} is {given.type} instead of {wanted.type}"
        if given.nullable != wanted.nullable:
            words = ("not null", "nullable")
            return f"column {wanted.name!r} is {words[given.nullable]} instead of {words[wanted.nullable]}"
    return "a nested field differs"


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__qualname__}"
