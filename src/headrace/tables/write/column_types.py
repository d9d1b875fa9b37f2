"""The types of columns that a sink creates, where Spark does not have the type: vectors."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headrace.arrow.align import Alignment
from headrace.errors import SchemaMismatchError
from headrace.tables.settings import Vector
from headrace.tables.spelling import Words

_ELEMENTS = {
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "int8": pa.int8(),
    "uint8": pa.uint8(),
}


def with_types(rows: pa.Schema, types: Sequence[tuple[str, Vector]], words: Words) -> pa.Schema:
    """Return the rows' schema with these types for their columns.

    Args:
        rows: The rows' schema.
        types: The types, by the names of columns.
        words: How errors name settings.

    Raises:
        SchemaMismatchError: The rows do not have such a column, or cannot be converted to its type.
    """
    if not types:
        return rows
    schema = rows
    for name, vector in types:
        index = schema.get_field_index(name)
        if index < 0:
            raise SchemaMismatchError(
                f"{words.column_types} gives column {name!r} a type, and the rows do not have it: their columns are "
                f"{', '.join(rows.names)}.",
                hint="correct the name, or leave it out.",
            )
        schema = schema.set(index, schema.field(index).with_type(_arrow_type(vector)))
    Alignment(rows, schema)
    return schema


def require_same(table: pa.Schema, types: Sequence[tuple[str, Vector]], words: Words) -> None:
    """Check that the columns which a table has are of these types.

    Raises:
        SchemaMismatchError: One is of another type.
    """
    for name, vector in types:
        found = table.field(name).type if name in table.names else None
        if found is not None and not _is_same(found, _arrow_type(vector)):
            raise SchemaMismatchError(
                f"Column {name!r} is {found} in the table, and {words.column_types} says that it is {vector}.",
                hint=f"correct {words.column_types}, or leave the column out: a column that exists keeps its type.",
            )


def _arrow_type(vector: Vector) -> pa.DataType:
    return pa.list_(_ELEMENTS[vector.element], vector.size)


def _is_same(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether both are the same vectors; the name and nullability of their elements may differ."""
    return bool(
        pa.types.is_fixed_size_list(found)
        and found.list_size == wanted.list_size
        and found.value_type.equals(wanted.value_type)
    )
