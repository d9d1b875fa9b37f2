"""Convert Spark schemas to Arrow, as tasks receive them, and table schemas to Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headrace.arrow.convert import is_blob
from headrace.errors import SchemaMismatchError

_WIDEST_DECIMAL = 38
_PLAIN = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}


def arrow_schema(schema: Any) -> pa.Schema:
    """Return the Arrow schema of the batches of a Spark schema, with ``UTC`` as time zone."""
    return pa.schema(
        [pa.field(field.name, _arrow_type(field.dataType), nullable=field.nullable) for field in schema.fields]
    )


def _arrow_type(kind: Any) -> pa.DataType:
    from pyspark.sql.pandas.types import to_arrow_type

    try:
        return to_arrow_type(kind, timezone="UTC")
    except TypeError:  # Before 4.3 the argument does not exist, and Spark uses the session's time zone.
        return in_utc(to_arrow_type(kind))


def in_utc(kind: pa.DataType) -> pa.DataType:
    """Return the type with every time zone replaced by ``UTC``, also inside nested types."""
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


def spark_schema(schema: pa.Schema) -> Any:
    """Return the Spark schema that can represent all values of a table's schema.

    Raises:
        SchemaMismatchError: Spark has no type for a column.
    """
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType

    fields = []
    for field in schema:
        try:
            kind = from_arrow_type(_plain(field.type), prefer_timestamp_ntz=True)
        except Exception as error:
            raise SchemaMismatchError(
                f"Spark has no type for column {field.name!r}, which is {field.type}.",
                hint="name the other columns in the columns option.",
            ) from error
        fields.append(StructField(field.name, kind, field.nullable))
    return StructType(fields)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the Spark-compatible type that can represent all values of a type."""
    if is_blob(kind):
        return pa.binary()
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_duration(kind):
        return pa.duration("us")
    if pa.types.is_decimal(kind):
        if kind.precision > _WIDEST_DECIMAL:
            raise TypeError(f"Spark decimals have at most {_WIDEST_DECIMAL} digits")
        return pa.decimal128(kind.precision, kind.scale)
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), kind.item_field.with_type(_plain(kind.item_type)))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    return _PLAIN.get(kind, kind)
