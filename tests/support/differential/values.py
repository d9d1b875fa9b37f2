"""Random values of every type, as Arrow arrays."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from support.differential.kinds import family, may_be_null

# Few and small, so that joins match and groups have members. Fractions of two add up exactly in any order.
INTS = [0, 0, 1, 1, 2, 2, 3, 5, 7, 100]
FLOATS = [0.0, 0.5, 1.0, 1.0, 2.0, 2.5, -1.5, 100.25, float("nan"), float("inf"), float("-inf"), -0.0]
TEXTS = ["", "a", "a", "b", "ab", "B", "a%", "a_b", "ü", "it's", "2", "a long text that no view holds inline"]
SECONDS = [0, 1, 60, 3600, 86_400, 1_000_000_000, 1_577_836_800, -86_400, 1_577_880_296]
_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


def random_array(
    rng: Random, kind: pa.DataType, rows: int, nulls: float, under: Sequence[bool] | None = None
) -> pa.Array:
    """An array of random values.

    Args:
        rng: Decides.
        kind: The type.
        rows: How many.
        nulls: The share of nulls.
        under: Rows that are null because what they are part of is.
    """
    share = nulls if may_be_null(kind) else 0.0
    mask = [bool(under and under[i]) or rng.random() < share for i in range(rows)]
    types = pa.types
    if types.is_null(kind):
        return pa.nulls(rows)
    if types.is_struct(kind):
        children = [
            random_array(rng, field.type, rows, 0.25 if field.nullable else 0.0, mask if field.nullable else None)
            for field in kind
        ]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=_mask(mask))
    if types.is_dictionary(kind):
        return _dictionary(rng, kind, mask)
    if types.is_run_end_encoded(kind):
        return _run_ends(rng, kind, rows, nulls)
    if types.is_fixed_size_list(kind):
        inner = 0.25 if kind.value_field.nullable else 0.0
        values = random_array(rng, kind.value_type, rows * kind.list_size, inner)
        return pa.FixedSizeListArray.from_arrays(values, type=kind, mask=_mask(mask))
    if family(kind) in {"list", "map"}:
        return _offsets(rng, kind, mask)
    return pa.array([None if null else _value(rng, kind) for null in mask], kind)


def _mask(mask: list[bool]) -> pa.Array | None:
    return pa.array(mask, pa.bool_()) if any(mask) else None


def _offsets(rng: Random, kind: pa.DataType, mask: list[bool]) -> pa.Array:
    sizes = [0 if null else rng.choice([0, 1, 1, 2, 3]) for null in mask]
    offsets = [0]
    for size in sizes:
        offsets.append(offsets[-1] + size)
    total = offsets[-1]
    if pa.types.is_map(kind):
        keys = pa.array(
            [_value(rng, kind.key_type, position) for size in sizes for position in range(size)], kind.key_type
        )
        items = random_array(rng, kind.item_type, total, 0.25)
        return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, type=kind, mask=_mask(mask))
    values = random_array(rng, kind.value_type, total, 0.25 if kind.value_field.nullable else 0.0)
    large = pa.types.is_large_list(kind)
    arrays = pa.LargeListArray if large else pa.ListArray
    width = pa.int64() if large else pa.int32()
    return arrays.from_arrays(pa.array(offsets, width), values, type=kind, mask=_mask(mask))


def _dictionary(rng: Random, kind: pa.DataType, mask: list[bool]) -> pa.Array:
    domain: list[Any] = sorted({repr(v): v for v in (_value(rng, kind.value_type) for _ in range(8))}.items())
    # As others make them: no dictionary where there is no value.
    values = pa.array([value for _, value in domain] if not all(mask) else [], kind.value_type)
    indices = pa.array([None if null else rng.randrange(len(values)) for null in mask], kind.index_type)
    return pa.DictionaryArray.from_arrays(indices, values)


def _run_ends(rng: Random, kind: pa.DataType, rows: int, nulls: float) -> pa.Array:
    ends: list[int] = []
    while not ends or ends[-1] < rows:
        ends.append(min(rows, (ends[-1] if ends else 0) + rng.randint(1, 4)) if rows else 0)
        if not rows:
            break
    ends = ends if rows else []
    values = random_array(rng, kind.value_type, len(ends), nulls)
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends, kind.run_end_type), values, kind)


def _value(rng: Random, kind: pa.DataType, distinct: int | None = None) -> Any:
    """A value that is not null; where ``distinct`` is given, another one for each number."""
    types = pa.types
    name = family(kind)
    if distinct is not None:
        return f"k{distinct}" if name == "text" else distinct
    if name == "int":
        low = 0 if types.is_unsigned_integer(kind) else -2
        extreme = 2 ** (kind.bit_width - (1 if low else 0)) - 1
        return rng.choice([*INTS, low, extreme]) if rng.random() < 0.3 else rng.choice(INTS)
    if name == "float":
        value = rng.choice(FLOATS)
        return np.float16(value) if types.is_float16(kind) else value
    if name == "decimal":
        return Decimal(rng.choice([0, 1, 1, 2, 15, 100, -3, 250])).scaleb(-kind.scale)
    if name == "bool":
        return rng.random() < 0.5
    if name == "text":
        return rng.choice(TEXTS)
    if name == "binary":
        return rng.choice(
            [b"abc", b"\0\1\2", b"\xff\xfe\xfd"]
            if types.is_fixed_size_binary(kind)
            else [b"", b"a", b"ab\0", b"a" * 20]
        )
    if name == "date":
        days = rng.choice([0, 1, 18_262, 18_263, -400, 20_000])
        return days if types.is_date32(kind) else days * 86_400_000
    if name == "time":
        return rng.choice([0, 1, 45_296, 86_399]) * _PER_SECOND[kind.unit]
    if name == "interval":
        return pa.MonthDayNano([rng.choice([0, 1, 14]), rng.choice([0, 3, -2]), rng.choice([0, 1_000_000_000])])
    return rng.choice(SECONDS) * _PER_SECOND[kind.unit] + (rng.choice([0, 0, 1]) if kind.unit != "s" else 0)
