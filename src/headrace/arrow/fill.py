"""Placeholder arrays for columns that a batch lacks."""

from __future__ import annotations

import pyarrow as pa


def filler(field: pa.Field, rows: int) -> pa.Array:
    """Return a placeholder array for ``field``: nulls, or zeros if the field is not nullable."""
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
    # pa.nulls() allocates zeroed buffers under a null mask: drop the mask.
    if pa.types.is_nested(kind):
        is_view = pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
        buffers = array.buffers()[: 3 if is_view else 2]
        return pa.Array.from_buffers(kind, rows, [None, *buffers[1:]], null_count=0, children=[array.values])
    return pa.Array.from_buffers(kind, rows, [None, *array.buffers()[1:]], null_count=0)
