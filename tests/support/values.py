"""A model of casts: pairs of types, values of the first, and in plain Python what each must become in the second.

Values are held as Python has them exactly: times as counts of their unit, decimals as integers without the point.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, Protocol

import pyarrow as pa
from hypothesis import strategies as st

UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1, "day": 86_400 * 10**9}
FORMATS = {16: "<e", 32: "<f", 64: "<d"}
EXACT = Context(prec=120)
# Where floats of 16 and 32 bits end, above and below, and what lies between two of them.
EDGES = [0.0, 0.1, 1 + 2**-11 + 2**-40, 65504.0, 65519.99, 65520.0, 3.4028234663852886e38, 3.4028235677973362e38,
         3.4028235677973366e38, 1e39, 1e300, 2.0**-24, 2.0**-25, 2.0**-26, 1e-45, 7e-46, 1e-46, 1e-320,
         math.inf, math.nan]  # fmt: skip


class MisfitError(Exception):
    """A value has no place in the other type."""


class Shape(Protocol):
    """A type in the rows beside a type in the table."""

    source: pa.DataType
    target: pa.DataType

    def values(self) -> st.SearchStrategy[Any]:
        """Values of the source, without null."""

    def expected(self, value: Any) -> Any:
        """What a value must become; raises MisfitError if it must be refused."""

    def build(self, values: list[Any]) -> pa.Array:
        """Values, and nulls, as an array of the source."""

    def read(self, array: pa.Array) -> list[Any]:
        """An array of the target as values."""


def expected(shape: Shape, value: Any) -> Any:
    return None if value is None else shape.expected(value)


def nullable(shape: Shape) -> st.SearchStrategy[Any]:
    return st.none() | shape.values()


@dataclass(frozen=True)
class Leaf:
    """Plain types."""

    source: pa.DataType
    target: pa.DataType

    def values(self) -> st.SearchStrategy[Any]:
        edges = st.sampled_from(self.edges())
        if pa.types.is_boolean(self.source):
            return edges
        if pa.types.is_floating(self.source):
            return edges | st.floats(width=self.source.bit_width)
        if is_text(self.source):
            return st.text(max_size=5)
        if is_bytes(self.source):
            size = self.source.byte_width if pa.types.is_fixed_size_binary(self.source) else None
            return st.binary(min_size=size or 0, max_size=5 if size is None else size)
        least, most = count_range(self.source)
        days = st.integers(-2000, 2000).map(lambda n: n * 86_400_000).filter(lambda n: least <= n <= most)
        return edges | st.integers(least, most) | days | st.integers(0, min(most, 99))

    def edges(self) -> list[Any]:
        """Values of the source at which something changes in the target, and their neighbours."""
        if pa.types.is_boolean(self.source):
            return [False, True]
        if pa.types.is_floating(self.source):
            fit = [each for each in EDGES if is_exact(each, self.source.bit_width)]
            return fit + [-each for each in fit]
        if is_text(self.source):
            return ["", "é", "ab"]
        if is_bytes(self.source):
            size = self.source.byte_width if pa.types.is_fixed_size_binary(self.source) else None
            return [b"\xff" * count for count in ((0, 1, 2, 3) if size is None else (size,))]
        least, most = count_range(self.source)
        found = {sign * (edge + step) for edge in self._counts() for step in (-1, 0, 1) for sign in (1, -1)}
        return sorted({least, most} | {each for each in found if least <= each <= most})

    def _counts(self) -> list[int]:
        powers = [0, *(2**bits for bits in (8, 11, 16, 24, 31, 32, 53, 63, 64)), 65504, 65520]
        if pa.types.is_floating(self.target):
            return powers
        ratio = unit_of(self.target) / unit_of(self.source)
        if pa.types.is_decimal(self.target):
            powers += [10**power for power in range(0, 76, 3)] + [2**128 // 10**power for power in range(0, 39, 6)]
        return [*powers, math.ceil(ratio), *(int(end * ratio) for end in count_range(self.target))]

    def expected(self, value: Any) -> Any:
        if pa.types.is_floating(self.source):
            return rounded(value, self.target.bit_width)
        if pa.types.is_floating(self.target):
            if abs(value) > {16: 2**11, 32: 2**24, 64: 2**53}[self.target.bit_width]:
                raise MisfitError
            return float(value)
        if isinstance(value, str | bool):
            return value
        if isinstance(value, bytes):
            if pa.types.is_fixed_size_binary(self.target) and len(value) != self.target.byte_width:
                raise MisfitError
            return value
        count = Fraction(value) * unit_of(self.source) / unit_of(self.target)
        least, most = count_range(self.target)
        if count.denominator != 1 or not least <= count <= most:
            raise MisfitError
        return int(count)

    def build(self, values: list[Any]) -> pa.Array:
        kind = self.source
        if pa.types.is_decimal(kind):
            points = [None if v is None else EXACT.scaleb(Decimal(v), -kind.scale) for v in values]
            return pa.array(points, kind)
        if pa.types.is_temporal(kind):
            return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
        return pa.array(values, kind)

    def read(self, array: pa.Array) -> list[Any]:
        kind = array.type
        if pa.types.is_decimal(kind):
            return [None if v is None else int(EXACT.scaleb(v, kind.scale)) for v in array.to_pylist()]
        if pa.types.is_temporal(kind):
            return list(array.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist())
        return list(array.to_pylist())


def rounded(value: float, width: int) -> float:
    """The nearest float of a width, as Python's struct has it."""
    try:
        return float(struct.unpack(FORMATS[width], struct.pack(FORMATS[width], value))[0])
    except OverflowError:
        raise MisfitError from None


def is_exact(value: float, width: int) -> bool:
    try:
        return rounded(value, width) == value or math.isnan(value)
    except MisfitError:
        return False


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def unit_of(kind: pa.DataType) -> Fraction:
    """What a count of 1 means."""
    if pa.types.is_decimal(kind):
        return Fraction(10) ** -kind.scale
    if pa.types.is_date32(kind):
        return Fraction(UNITS["day"])
    if pa.types.is_date64(kind):
        return Fraction(UNITS["ms"])
    return Fraction(UNITS[kind.unit]) if pa.types.is_temporal(kind) else Fraction(1)


def count_range(kind: pa.DataType) -> tuple[int, int]:
    if pa.types.is_decimal(kind):
        return 1 - 10**kind.precision, 10**kind.precision - 1
    if pa.types.is_time(kind):
        return 0, int(UNITS["day"] / unit_of(kind)) - 1
    if pa.types.is_unsigned_integer(kind):
        return 0, 2**kind.bit_width - 1
    return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1


INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
DECIMALS = [pa.decimal128(5, 2), pa.decimal128(5, 0), pa.decimal128(20, 0), pa.decimal128(38, 0), pa.decimal128(38, 2),
            pa.decimal128(38, 38), pa.decimal128(12, -2), pa.decimal256(40, 4), pa.decimal256(76, 0)]  # fmt: skip
SMALL_DECIMALS = [pa.decimal32(9, 0), pa.decimal32(5, 2), pa.decimal64(18, 0), pa.decimal64(18, 4)]
LOCALS = [pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")]
ZONED = [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in ("UTC", "Europe/Berlin")]
DURATIONS = [pa.duration(unit) for unit in ("s", "ms", "us", "ns")]
DATES = [pa.date32(), pa.date64()]
TIMES = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
TEXTS = [pa.string(), pa.large_string()]
BYTES = [pa.binary(), pa.large_binary(), pa.binary(2)]
FIXED = [INTEGERS, FLOATS, DECIMALS, LOCALS, ZONED, DURATIONS, DATES, TIMES, [pa.bool_()]]


def _pairs(families: list[list[pa.DataType]]) -> list[Leaf]:
    pairs = [Leaf(source, target) for family in families for source in family for target in family]
    return [each for each in pairs if each.source == each.target or not are_fixed(each.source, each.target)]


def are_fixed(*kinds: pa.DataType) -> bool:
    return all(pa.types.is_fixed_size_binary(kind) for kind in kinds)


FIXED_LEAVES = _pairs(FIXED) + [Leaf(source, target) for source in INTEGERS for target in FLOATS + DECIMALS]
LEAVES = FIXED_LEAVES + _pairs([TEXTS, BYTES])
# Lance has dictionaries of text and of numbers; pyarrow cannot put together those of half floats.
ENCODED_LEAVES = _pairs([INTEGERS, FLOATS[1:], TEXTS])
ALL_LEAVES = LEAVES + _pairs([DECIMALS + SMALL_DECIMALS, [*TEXTS, pa.string_view()], [*BYTES, pa.binary_view()]])
