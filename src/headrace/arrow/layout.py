"""Memory layout of arrays: which the engine can import, and which share a layout under different types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headrace.errors import EngineError


def importable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch that the engine can import: ``batch`` itself, or a copy where that is necessary.

    The engine's importer panics on an array with an offset whose type has a struct inside a struct or a
    fixed-size list. Such columns are copied.
    """
    columns = batch.columns
    copied = [_without_offset(column) if _is_fragile(column.type) else column for column in columns]
    if all(new is old for new, old in zip(copied, columns, strict=True)):
        return batch
    return pa.RecordBatch.from_arrays(copied, schema=batch.schema)


def has_fragile_columns(schema: pa.Schema) -> bool:
    """Whether batches of this schema may need ``importable``."""
    return any(_is_fragile(kind) for kind in schema.types)


def relabelled(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return ``batch`` with exactly ``schema``, without casting or copying any value.

    The schema that the engine planned and the schema that it produces may differ in names, metadata and nullability,
    nested fields included. Their types must not differ.

    Raises:
        EngineError: A column has a different type than planned, or contains nulls but was planned as not null.
    """
    if batch.schema.equals(schema, check_metadata=True):
        return batch
    for column, field in zip(batch.columns, schema, strict=True):
        if not _same_layout(column.type, field.type):
            raise EngineError(f"The engine planned column {field.name!r} as {field.type} and produced {column.type}.")
        if not field.nullable and column.null_count:
            raise EngineError(f"The engine planned column {field.name!r} as not null and produced nulls.")
    if batch.schema.types == schema.types:
        return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    return pa.record_batch(_Relabelled(batch, schema))


class _Relabelled:
    """Exports a batch under another schema of the same layout."""

    def __init__(self, batch: pa.RecordBatch, schema: pa.Schema) -> None:
        self._batch = batch
        self._schema = schema

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        return self._schema.__arrow_c_schema__(), self._batch.__arrow_c_array__()[1]


def _same_layout(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether both types have the same buffers with the same meaning; field names may differ."""
    left, right = _storage(left), _storage(right)
    if left == right:
        return True
    if left.id != right.id or left.num_fields != right.num_fields or left.num_fields == 0:
        return False
    if pa.types.is_fixed_size_list(left) and left.list_size != right.list_size:
        return False
    if pa.types.is_union(left) and (left.mode != right.mode or left.type_codes != right.type_codes):
        return False
    return all(_same_layout(left.field(i).type, right.field(i).type) for i in range(left.num_fields))


def _storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _is_fragile(kind: pa.DataType) -> bool:
    kind = _storage(kind)
    children = [_storage(kind.field(i).type) for i in range(kind.num_fields)]
    holds_in_place = pa.types.is_struct(kind) or pa.types.is_fixed_size_list(kind)
    if holds_in_place and any(pa.types.is_struct(child) for child in children):
        return True
    return any(map(_is_fragile, children))


def _without_offset(array: pa.Array) -> pa.Array:
    # concat_arrays copies every child into new buffers, but returns a single array unchanged: append an empty one.
    return pa.concat_arrays([array, array.slice(0, 0)]) if _has_offset(array) else array


def _has_offset(array: pa.Array) -> bool:
    if array.offset:
        return True
    return any(_has_offset(child) for child in _children(array))


def _children(array: pa.Array) -> list[Any]:
    if isinstance(array, pa.ExtensionArray):
        return [array.storage]
    kind = array.type
    if pa.types.is_struct(kind) or pa.types.is_union(kind):
        return [array.field(i) for i in range(kind.num_fields)]
    if pa.types.is_dictionary(kind):
        return [array.dictionary]
    return [array.values] if kind.num_fields else []
