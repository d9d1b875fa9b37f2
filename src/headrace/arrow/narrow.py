"""Casts between non-nested types that keep every value, or raise and name a value that does not fit.

pyarrow's safe casts do most of this. This module replaces those that lose values: floats that overflow to infinity,
integers that are rounded to half floats, and decimals and times of day that wrap around.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import SchemaMismatchError

# An error shows at most this many characters of a value.
_MOST_SHOWN = 60
# By bit width: a float type represents every integer up to this one exactly.
_EXACT_INTEGERS = {16: 2**11, 32: 2**24, 64: 2**53}
_LARGEST_FLOATS = {16: "65504", 32: "3.4028235e+38"}
# By bit width: the number of digits of an integer type's largest value.
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}


def cast_values(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    """Cast an array of a non-nested type to another non-nested type.

    Every value is kept. A float cast to a narrower float type is rounded to the nearest value of that type, which for
    a tiny one is zero. A finite float that would become infinite does not fit.

    Args:
        array: The values. Slots under a null are ignored.
        target: The type to cast to.
        path: The column, for errors.

    Raises:
        SchemaMismatchError: A value does not fit; the error names the column, the value and the type.
    """
    try:
        return _cast(array, target)
    except pa.ArrowInvalid as error:
        raise _misfit(array, target, path) from error


def is_castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether some value of ``source`` can be cast to ``target``."""
    if pa.types.is_fixed_size_binary(source) and pa.types.is_fixed_size_binary(target):
        return bool(source.byte_width == target.byte_width)
    try:
        _cast(pa.nulls(0, source), target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def is_encodable(kind: pa.DataType) -> bool:
    """Whether pyarrow can dictionary-encode values of ``kind``."""
    try:
        pa.nulls(0, kind).dictionary_encode()
    except pa.ArrowNotImplementedError:
        return False
    return True


def encode_values(values: pa.Array, target: pa.DictionaryType, path: str) -> pa.Array:
    """Dictionary-encode values of the dictionary's value type.

    Raises:
        SchemaMismatchError: The batch has more distinct values than the index type can represent.
    """
    encoded = values.dictionary_encode()
    try:
        indices = encoded.indices.cast(target.index_type)
    except pa.ArrowInvalid as error:
        raise SchemaMismatchError(
            f"Column {path!r} has {len(encoded.dictionary):,} distinct values in one batch, and {target} in the table "
            f"cannot number that many.",
            hint="give the column a wider index type in the table, or none.",
        ) from error
    return pa.DictionaryArray.from_arrays(indices, encoded.dictionary, ordered=target.ordered)


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast, or raise ArrowInvalid if a value would change."""
    source = array.type
    if pa.types.is_floating(target):
        return _cast_to_float(array, target)
    if pa.types.is_decimal(target):
        if pa.types.is_integer(source):
            # pyarrow's direct cast requires digits for the integer type's largest value, whatever the values are.
            digits = _DIGITS[source.bit_width]
            if target.scale >= 0 and target.precision - target.scale >= digits:
                return array.cast(target)
            array = array.cast(pa.decimal128(digits, 0))
        return _cast_decimal(array, target)
    if pa.types.is_time32(source) and pa.types.is_time32(target):
        # pyarrow does not check time32[s] to time32[ms] for overflow.
        array = array.cast(pa.time64("us"))
    return array.cast(target)


def _cast_to_float(array: pa.Array, target: pa.DataType) -> pa.Array:
    source = array.type
    if pa.types.is_integer(source) and pa.types.is_float16(target):
        # pyarrow rounds integers to half floats without an error; its cast to float checks them.
        array = array.cast(pa.float32())
        if pc.any(pc.greater(pc.abs(array), float(_EXACT_INTEGERS[16]))).as_py():
            raise pa.ArrowInvalid("an integer is rounded")
        return array.cast(target)
    result = array.cast(target)
    is_narrower = pa.types.is_floating(source) and source.bit_width > target.bit_width
    if is_narrower and pc.any(pc.is_inf(result)).as_py():
        overflows = pc.and_(pc.is_inf(result), pc.is_finite(array))
        if pc.any(overflows).as_py():
            raise pa.ArrowInvalid("a finite value becomes infinite")
    return result


def _cast_decimal(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast decimals in steps that cannot overflow, since pyarrow does not check for overflow."""
    source = array.type
    wide = pa.decimal256 if 256 in (source.bit_width, target.bit_width) else pa.decimal128
    array = array.cast(wide(source.precision, source.scale))
    shift = target.scale - source.scale
    room = target.precision - shift
    if shift > 0 and room < source.precision:
        # Rescaling multiplies by 10^shift: values with more than `room` digits would overflow.
        if room > 0:
            array = array.cast(wide(room, source.scale))
        elif pc.any(pc.not_equal(array, pa.scalar(0, array.type))).as_py():
            raise pa.ArrowInvalid("only zero has so few digits before the point")
    return array.cast(wide(target.precision, target.scale)).cast(target)


def _misfit(array: pa.Array, target: pa.DataType, path: str) -> SchemaMismatchError:
    found = _first_misfit(array, target)
    what = "a value does not fit" if found is None else f"{_shown(found)} does not fit"
    return SchemaMismatchError(
        f"Column {path!r} is {array.type} in the rows and {target} in the table, and {what}: "
        f"{_limits(array.type, target)}.",
        hint="change or drop such rows in the query, or give the column a wider type in the table.",
    )


def _first_misfit(array: pa.Array, target: pa.DataType) -> pa.Array | None:
    """Return the first value that does not fit, as an array of one, or None if each value fits by itself."""
    while len(array) > 1:
        half = array.slice(0, len(array) // 2)
        array = array.slice(len(half)) if _fits(half, target) else half
    return None if _fits(array, target) else array


def _fits(array: pa.Array, target: pa.DataType) -> bool:
    try:
        _cast(array, target)
    except pa.ArrowInvalid:
        return False
    return True


def _shown(value: pa.Array) -> str:
    try:
        text = str(value.cast(pa.string())[0])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        text = repr(value[0].as_py())
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _limits(source: pa.DataType, target: pa.DataType) -> str:
    """Describe the values that ``target`` can represent."""
    if pa.types.is_integer(target):
        bits = target.bit_width if pa.types.is_unsigned_integer(target) else target.bit_width - 1
        least = 0 if pa.types.is_unsigned_integer(target) else -(2**bits)
        return f"{target} holds {least} to {2**bits - 1}"
    if pa.types.is_floating(target):
        if pa.types.is_integer(source):
            most = _EXACT_INTEGERS[target.bit_width]
            return f"{target} takes integers from {-most} to {most}, which it holds exactly"
        return f"{target} holds numbers up to {_LARGEST_FLOATS[target.bit_width]}"
    if pa.types.is_decimal(target):
        return f"{target} has {target.precision - target.scale} digits before the point and {target.scale} after it"
    if pa.types.is_fixed_size_binary(target):
        return f"{target} holds exactly {target.byte_width} bytes"
    if pa.types.is_temporal(target):
        return f"{target} holds a whole number of its unit, in {target.bit_width} bits"
    return f"{target} holds 2 GiB in one batch"
