"""Conversion of arrays from one type to another, nested types included; `narrow` casts the leaf values.

Values under a null or outside a slice are left out of the conversion, so they cannot fail it.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.fill import filler
from headrace.arrow.narrow import cast_values, encode_values
from headrace.errors import SchemaMismatchError

_BLOB = "lance.blob.v2"


def is_blob(kind: pa.DataType) -> bool:
    """Whether ``kind`` is Lance's blob type, version 2; version 1 is a large binary with field metadata."""
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == _BLOB


def is_list(kind: pa.DataType) -> bool:
    """Whether ``kind`` is a list, a large list or a fixed-size list."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Whether ``kind`` is binary, large binary, a binary view or fixed-size binary."""
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def convert(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    """Convert ``array`` to the type ``target``.

    Args:
        array: Values of a type that `Alignment` has checked against ``target``.
        target: The table's type.
        path: The column, and the path to a field inside it, for errors.

    Raises:
        SchemaMismatchError: A value does not fit ``target``.
    """
    source = array.type
    if source.equals(target):
        return array
    if pa.types.is_null(source):
        return filler(pa.field(path, target), len(array))
    if isinstance(target, pa.BaseExtensionType):
        if is_blob(target) and is_binary(source):
            storage = _blob_storage(array, target.storage_type, path)
        else:
            storage = convert(
                array.storage if isinstance(array, pa.ExtensionArray) else array, target.storage_type, path
            )
        return pa.ExtensionArray.from_storage(target, storage)
    if isinstance(array, pa.ExtensionArray):
        return convert(array.storage, target, path)
    if pa.types.is_dictionary(source):
        return convert(array.dictionary_decode(), target, path)
    if pa.types.is_dictionary(target):
        return encode_values(convert(array, target.value_type, path), target, path)
    if pa.types.is_struct(target):
        return _convert_struct(array, target, path)
    if pa.types.is_map(target):
        return _convert_map(array, target, path)
    if pa.types.is_fixed_size_list(target):
        return _convert_to_vectors(array, target, path)
    if is_list(target):
        return _convert_list(array, target, path)
    return cast_values(array, target, path)


def _convert_struct(array: pa.StructArray, target: pa.StructType, path: str) -> pa.Array:
    found = array.flatten()  # applies the struct's null mask to its children
    children = []
    for field in target:
        index = array.type.get_field_index(field.name)
        if index < 0:
            children.append(filler(field, len(array)))
        else:
            children.append(convert(found[index], field.type, f"{path}.{field.name}"))
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _convert_map(array: pa.MapArray, target: pa.MapType, path: str) -> pa.Array:
    entries = pa.struct([array.type.key_field, array.type.item_field])
    offsets, shown = _shown_items(array.cast(pa.list_(pa.field("entries", entries, nullable=False))))
    keys = convert(shown.field(0), target.key_type, f"{path}.key")
    items = convert(shown.field(1), target.item_type, f"{path}.value")
    mask = array.is_null() if array.null_count else None
    return pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=mask)


def _convert_list(array: Any, target: pa.DataType, path: str) -> pa.Array:
    """Convert any list to a list or a large list."""
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.large_list(array.type.value_field))
    offsets, shown = _shown_items(array)
    values = convert(shown, target.value_type, f"{path}.item")
    is_large = pa.types.is_large_list(target)
    offsets = cast_values(offsets, pa.int64() if is_large else pa.int32(), path)
    mask = array.is_null() if array.null_count else None
    kind = pa.LargeListArray if is_large else pa.ListArray
    return kind.from_arrays(offsets, values, type=target, mask=mask)


def _shown_items(array: Any) -> tuple[pa.Array, pa.Array]:
    """Return the offsets and items of lists, without items under a null list or outside the slice."""
    lengths = pc.list_value_length(array)
    if not array.offset and (pc.sum(lengths).as_py() or 0) == len(array.values):
        return array.offsets, array.values
    ends = pc.cumulative_sum(pc.fill_null(lengths, 0))
    return pa.concat_arrays([pa.array([0], ends.type), ends]), array.flatten()


def _convert_to_vectors(array: Any, target: pa.DataType, path: str) -> pa.Array:
    """Convert lists to fixed-size lists.

    Raises:
        SchemaMismatchError: A list has a different length.
    """
    size = target.list_size
    if not pa.types.is_fixed_size_list(array.type):
        lengths = pc.list_value_length(array)
        odd = pc.filter(lengths, pc.not_equal(lengths, size))
        if len(odd):
            raise SchemaMismatchError(
                f"Column {path!r} holds a list of {odd[0].as_py()} values; the table's vectors have {size}.",
                hint="drop those rows, or make the list that long.",
            )
    if array.null_count:
        # A null fixed-size list still occupies its slots, so build the valid lists and spread them with take().
        present = array.drop_null()
        taken = pc.if_else(array.is_null(), None, pc.subtract(pc.cumulative_sum(array.is_valid().cast(pa.int64())), 1))
        values = convert(present.flatten(), target.value_type, f"{path}.item")
        dense = pa.FixedSizeListArray.from_arrays(values, type=target)
        return dense.take(taken)
    values = convert(array.flatten(), target.value_type, f"{path}.item")
    return pa.FixedSizeListArray.from_arrays(values, type=target)


def _blob_storage(array: pa.Array, storage: pa.StructType, path: str) -> pa.Array:
    children = [
        convert(array, field.type, path) if field.name == "data" else pa.nulls(len(array), field.type)
        for field in storage
    ]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(storage), mask=mask)
