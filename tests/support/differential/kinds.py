"""The column types that tables have, and the families in which the grammar sees them."""

from __future__ import annotations

from random import Random

import pyarrow as pa

SIGNED = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
UNSIGNED = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
UNITS = ["s", "ms", "us", "ns"]
ZONES = ["UTC", "+02:00", "America/New_York"]
LEAVES: dict[str, list[pa.DataType]] = {
    "int": [*SIGNED, *UNSIGNED],
    "float": [pa.float16(), pa.float32(), pa.float64(), pa.float64()],
    "decimal": [
        *(pa.decimal32(7, 2), pa.decimal64(15, 3)),
        *(pa.decimal128(9, 2), pa.decimal128(38, 10), pa.decimal128(5, 0), pa.decimal256(40, 4), pa.decimal256(50, 0)),
    ],
    "bool": [pa.bool_()],
    "text": [pa.string(), pa.string(), pa.large_string(), pa.string_view()],
    "binary": [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3)],
    "date": [pa.date32(), pa.date64()],
    "time": [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")],
    "timestamp": [
        *(pa.timestamp(unit) for unit in UNITS),
        *(pa.timestamp(unit, zone) for unit in UNITS for zone in ZONES[:2]),
        pa.timestamp("us", ZONES[2]),
    ],
    "duration": [pa.duration(unit) for unit in UNITS],
    "interval": [pa.month_day_nano_interval()],
    "null": [pa.null()],
}
# How often a column is of a family; the rest is nested.
_WEIGHTS = {
    "int": 8,
    "float": 4,
    "decimal": 3,
    "bool": 3,
    "text": 7,
    "binary": 3,
    "date": 3,
    "time": 2,
    "timestamp": 4,
    "duration": 2,
    "interval": 1,
    "null": 1,
    "dictionary": 3,
    "run_end": 1,
    "struct": 6,
    "list": 4,
    "map": 2,
}
# Below the top there are no null types, intervals or run ends: what the engine does with them nested is its own affair.
_NESTED = {name: weight for name, weight in _WEIGHTS.items() if name not in {"null", "interval", "run_end"}}
FIELDS = ["a", "b", "x", "B", "the c"]


def random_type(rng: Random, depth: int = 2, families: dict[str, int] | None = None) -> pa.DataType:
    """A type of a column, with at most ``depth`` levels of nesting."""
    weights = dict(families or _WEIGHTS)
    if depth == 0:
        weights = {name: weight for name, weight in weights.items() if name in LEAVES} or {"int": 1}
    name = rng.choices(list(weights), list(weights.values()))[0]
    if name in LEAVES:
        return rng.choice(LEAVES[name])
    if name == "dictionary":
        value = rng.choice([pa.string(), pa.string(), pa.string(), pa.large_string(), pa.int64(), pa.float64()])
        return pa.dictionary(rng.choice([*SIGNED, pa.uint8(), pa.uint32()]), value)
    if name == "run_end":
        return pa.run_end_encoded(
            rng.choice([pa.int16(), pa.int32(), pa.int64()]), rng.choice([pa.int64(), pa.string()])
        )
    if name == "struct":
        return random_struct(rng, depth - 1)
    if name == "list":
        item = pa.field("item", random_type(rng, depth - 1, _NESTED), nullable=rng.random() < 0.8)
        return rng.choice([pa.list_(item), pa.list_(item), pa.large_list(item), pa.list_(item, 2)])
    key = rng.choice([pa.string(), pa.int64(), pa.int32()])
    return pa.map_(key, random_type(rng, depth - 1, _NESTED))


def random_struct(rng: Random, depth: int) -> pa.DataType:
    """A struct, whose fields may have names that columns have too."""
    names = rng.sample(FIELDS, rng.randint(1, 3))
    return pa.struct([pa.field(name, random_type(rng, depth, _NESTED), nullable=rng.random() < 0.85) for name in names])


def family(kind: pa.DataType) -> str:
    """The family of a type: what the grammar can do with it."""
    types = pa.types
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return family(kind.value_type)
    if types.is_integer(kind):
        return "int"
    if types.is_floating(kind):
        return "float"
    if types.is_decimal(kind):
        return "decimal"
    if types.is_boolean(kind):
        return "bool"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_struct(kind):
        return "struct"
    if types.is_map(kind):
        return "map"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return "list"
    if "binary" in str(kind):
        return "binary"
    for name in ("date", "timestamp", "time", "duration", "null"):
        if str(kind).startswith(name):
            return name
    return "interval"


def may_be_null(kind: pa.DataType) -> bool:
    """Whether tables have nulls of this type.

    A struct with a field that is not null has none: the engine reads such a field of a null struct as zero.
    """
    if pa.types.is_struct(kind):
        return all(field.nullable and may_be_null(field.type) for field in kind)
    return True


def inner_types(kind: pa.DataType) -> list[pa.DataType]:
    """A type and all types inside it."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return [kind, *inner_types(kind.value_type)]
    return [kind, *(inner for i in range(kind.num_fields) for inner in inner_types(kind.field(i).type))]
