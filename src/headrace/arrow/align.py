"""Conversion of batches from Spark to a table's schema.

Columns are matched by name. Column order, nullability, the width of string offsets and the name of a time zone may
differ. Numbers and times are converted if every value fits. A missing nullable column is filled with nulls. Any other
difference raises a SchemaMismatchError that names the column, before anything is committed.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from headrace.arrow.convert import convert, is_binary, is_blob, is_list
from headrace.arrow.fill import filler
from headrace.arrow.narrow import is_castable, is_encodable
from headrace.errors import SchemaMismatchError


class Alignment:
    """Converts batches of one schema to a table's schema.

    Args:
        source: The schema of the batches.
        table: The schema of the table.
        fills: Whether a missing nullable column is filled with nulls. False for a merge, where nulls would erase
            values.
        add_setting: The setting that would add columns to the table, for hints; empty if there is none.

    Raises:
        SchemaMismatchError: On construction, if the columns do not fit, whatever their values are.
    """

    def __init__(self, source: pa.Schema, table: pa.Schema, *, fills: bool = True, add_setting: str = "") -> None:
        self.schema = table
        twice = sorted({name for name in source.names if source.names.count(name) > 1})
        if twice:
            raise SchemaMismatchError(
                f"There are two columns named {twice[0]!r} in the rows.", hint="rename one of them."
            )
        extra = [name for name in source.names if name not in table.names]
        if extra:
            raise SchemaMismatchError(
                f"Column {extra[0]!r} ({source.field(extra[0]).type}) is not in the table, whose columns are "
                f"{', '.join(table.names)}.",
                hint=f"drop it, or {f'set {add_setting} to add it' if add_setting else 'add it'} to the table.",
            )
        self._columns: list[tuple[pa.Field, int]] = []
        for field in table:
            index = source.get_field_index(field.name)
            if index < 0 and not (fills and field.nullable):
                why = (
                    "a merge would erase its values"
                    if field.nullable
                    else "a column that may not be null cannot be filled"
                )
                raise SchemaMismatchError(
                    f"Column {field.name!r} ({field.type}) is missing from the rows.", hint=f"add it: {why}."
                )
            if index >= 0:
                _require_fit(source.field(index).type, field.type, field.name)
            self._columns.append((field, index))
        self._is_identity = source.equals(table, check_metadata=False)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert one batch to the table's schema.

        Raises:
            SchemaMismatchError: A value does not fit its column.
        """
        if self._is_identity:
            arrays = list(batch.columns)
        else:
            arrays = [
                filler(field, batch.num_rows) if index < 0 else convert(batch.column(index), field.type, field.name)
                for field, index in self._columns
            ]
        for (field, _), array in zip(self._columns, arrays, strict=True):
            _require_not_null(array, field, field.name)
        return pa.RecordBatch.from_arrays([_placed(array) for array in arrays], schema=self.schema)


def _placed(array: pa.Array) -> pa.Array:
    """Copy ``array`` if its decimals are not 16-byte aligned: Lance requires it, and Spark does not align them."""
    if _holds_wide_values(array.type) and any(buffer and buffer.address % 16 for buffer in array.buffers()):
        return array.copy_to(pa.default_cpu_memory_manager())
    return array


def _holds_wide_values(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _holds_wide_values(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _holds_wide_values(kind.value_type)
    if pa.types.is_decimal(kind) or pa.types.is_interval(kind):
        return True
    return any(_holds_wide_values(kind.field(i).type) for i in range(kind.num_fields))


def _refuse(source: pa.DataType, target: pa.DataType, path: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"Column {path!r} is {source} in the rows and {target} in the table.", hint=f"cast it to {target} in the query."
    )


def _require_fit(source: pa.DataType, target: pa.DataType, path: str) -> None:
    """Check, by the types alone, that values of ``source`` can be converted to ``target``."""
    if source.equals(target) or pa.types.is_null(source):
        return
    if isinstance(target, pa.BaseExtensionType):
        if is_blob(target) and is_binary(source):
            return
        _require_fit(_storage(source), target.storage_type, path)
    elif isinstance(source, pa.BaseExtensionType):
        _require_fit(source.storage_type, target, path)
    elif pa.types.is_dictionary(source) or pa.types.is_dictionary(target):
        _require_fit(_values(source), _values(target), path)
        if pa.types.is_dictionary(target) and not is_encodable(target.value_type):
            raise _refuse(source, target, path)
    elif pa.types.is_struct(source) and pa.types.is_struct(target):
        _require_struct_fit(source, target, path)
    elif pa.types.is_map(source) and pa.types.is_map(target):
        _require_fit(source.key_type, target.key_type, f"{path}.key")
        _require_fit(source.item_type, target.item_type, f"{path}.value")
    elif is_list(source) and is_list(target):
        if (
            pa.types.is_fixed_size_list(source)
            and pa.types.is_fixed_size_list(target)
            and source.list_size != target.list_size
        ):
            raise _refuse(source, target, path)
        _require_fit(source.value_type, target.value_type, f"{path}.item")
    elif not _is_kindred(source, target) or not is_castable(source, target):
        raise _refuse(source, target, path)


def _require_struct_fit(source: pa.StructType, target: pa.StructType, path: str) -> None:
    names = [field.name for field in target]
    for field in source:
        if field.name not in names:
            raise SchemaMismatchError(
                f"Field {field.name!r} of column {path!r} is not in the table, whose {target} has no such field.",
                hint="drop it from the struct, or add it to the table.",
            )
    for field in target:
        index = source.get_field_index(field.name)
        if index >= 0:
            _require_fit(source.field(index).type, field.type, f"{path}.{field.name}")
        elif not field.nullable:
            raise SchemaMismatchError(
                f"Field {field.name!r} of column {path!r} is missing from the rows and may not be null."
            )


def _is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_zoned(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.tz is not None)


def _is_local(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.tz is None)


# Values are converted within one of these groups, and from integers to floats and decimals. No other conversion is.
_KINDRED: tuple[Callable[[pa.DataType], bool], ...] = (
    _is_string,
    is_binary,
    _is_zoned,
    _is_local,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_duration,
)


def _is_kindred(source: pa.DataType, target: pa.DataType) -> bool:
    if pa.types.is_integer(source) and (pa.types.is_floating(target) or pa.types.is_decimal(target)):
        return True
    return any(is_kin(source) and is_kin(target) for is_kin in _KINDRED)


def _storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _values(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _require_not_null(array: pa.Array, field: pa.Field, path: str) -> None:
    if not field.nullable and array.null_count:
        raise SchemaMismatchError(
            f"Column {path!r} holds nulls, and the table does not allow them there.",
            hint="drop those rows, or fill them in the query.",
        )
    if not _forbids_nulls_inside(field.type):
        return
    present = array.drop_null() if array.null_count else array
    if pa.types.is_struct(field.type):
        for child, values in zip(field.type, present.flatten(), strict=True):
            _require_not_null(values, child, f"{path}.{child.name}")
    elif pa.types.is_map(field.type):
        entries = present.cast(pa.list_(pa.struct([field.type.key_field, field.type.item_field]))).flatten()
        _require_not_null(entries.field(1), field.type.item_field, f"{path}.value")
    else:
        _require_not_null(present.flatten(), field.type.value_field, f"{path}.item")


def _forbids_nulls_inside(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType) or not pa.types.is_nested(kind):
        return False
    children = [kind.item_field] if pa.types.is_map(kind) else [kind.field(i) for i in range(kind.num_fields)]
    return any(not child.nullable or _forbids_nulls_inside(child.type) for child in children)
