"""Values of one plain type cast to another: each keeps its value, or the cast is refused and names one that does not.

pyarrow's safe casts check most of this. The casts they get wrong are made in other steps here: floats that overflow
become infinite, integers are rounded to half floats, and decimals and times of day wrap around.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import SchemaMismatchError

# The most bytes or characters of a value that an error shows.
_MOST_SHOWN = 60
# The integers up to which a float type has every integer.
_EXACT_INTEGERS = {16: 2**11, 32: 2**24, 64: 2**53}
_LARGEST_FLOATS = {16: "65504", 32: "3.4028235e+38"}
# The digits of an integer type's largest number.
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}


def cast_values(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    """Cast plain values to another plain type.

    Every value stays what it is. Floats cast to a narrower float type become the nearest value that type has, which
    for tiny ones is zero; a finite value that would become infinite does not fit.

    Args:
        array: The values. Slots under a null are not looked at.
        target: The type they are cast to.
        path: The column, for errors.

    Raises:
        SchemaMismatchError: A value does not fit; the error names the column, the value and the type.
    """
    try:
        return _cast(array, target)
    except pa.ArrowInvalid as error:
        raise _misfit(array, target, path) from error


def is_castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether any value of one type could be cast to the other."""
    if pa.types.is_fixed_size_binary(source) and pa.types.is_fixed_size_binary(target):
        return bool(source.byte_width == target.byte_width)
    try:
        _cast(pa.nulls(0, source), target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def is_encodable(kind: pa.DataType) -> bool:
    """Whether values of a type can be dictionary-encoded; pyarrow decides."""
    try:
        pa.nulls(0, kind).dictionary_encode()
    except pa.ArrowNotImplementedError:
        return False
    return True


def encode_values(values: pa.Array, target: pa.DictionaryType, path: str) -> pa.Array:
    """Dictionary-encode values that have the dictionary's value type.

    Raises:
        SchemaMismatchError: One batch has more distinct values than the index type can number.
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
    """Cast, or raise ArrowInvalid if a value does not survive it."""
    source = array.type
    if pa.types.is_floating(target):
        return _cast_to_float(array, target)
    if pa.types.is_decimal(target):
        if pa.types.is_integer(source):
            # Directly, pyarrow wants room for the integer type's largest number, whatever the values are.
            digits = _DIGITS[source.bit_width]
            if target.scale >= 0 and target.precision - target.scale >= digits:
                return array.cast(target)
            array = array.cast(pa.decimal128(digits, 0))
        return _cast_decimal(array, target)
    if pa.types.is_time32(source) and pa.types.is_time32(target):
        # From seconds to milliseconds pyarrow does not look for an overflow.
        array = array.cast(pa.time64("us"))
    return array.cast(target)


def _cast_to_float(array: pa.Array, target: pa.DataType) -> pa.Array:
    source = array.type
    if pa.types.is_integer(source) and pa.types.is_float16(target):
        # pyarrow rounds integers to half floats; to floats it does not.
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
    """Cast decimals in steps that each stay within the bits they have, since pyarrow does not look for overflows."""
    source = array.type
    wide = pa.decimal256 if 256 in (source.bit_width, target.bit_width) else pa.decimal128
    array = array.cast(wide(source.precision, source.scale))
    shift = target.scale - source.scale
    room = target.precision - shift
    if shift > 0 and room < source.precision:
        # Multiplied by 10^shift, more digits than these would overflow.
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
    """The first value that does not fit, as an array of one; None if each fits and only all together do not."""
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
    """What a type can have, in words."""
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
