"""Spark's schemas as Arrow's, as tasks will see them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def arrow_schema(schema: Any) -> pa.Schema:
    """The Arrow schema of batches with a Spark schema, time zones spelled ``UTC``."""
    return pa.schema(
        [pa.field(field.name, _arrow_type(field.dataType), nullable=field.nullable) for field in schema.fields]
    )


def _arrow_type(kind: Any) -> pa.DataType:
    from pyspark.sql.pandas.types import to_arrow_type

    try:
        return to_arrow_type(kind, timezone="UTC")
    except TypeError:  # Before 4.3 there is no such argument, and the session's zone is written.
        return in_utc(to_arrow_type(kind))


def in_utc(kind: pa.DataType) -> pa.DataType:
    """The same type with time zones spelled ``UTC``, inside of nested types too."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(in_utc(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(in_utc(kind.key_type)), kind.item_field.with_type(in_utc(kind.item_type))
        )
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(in_utc(kind.value_type)))
    return kind
