"""Literals of every family, plain and with an Arrow type."""

from __future__ import annotations

from random import Random

import pyarrow as pa

from support.differential.scope import Column

TYPED = {
    "int": ["Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64"],
    "float": ["Float32", "Float64"],
    "text": ["Utf8", "LargeUtf8", "Utf8View"],
}
_PLAIN = {
    "int": ["0", "1", "1", "2", "3", "-1", "7"],
    "float": ["0.5", "1e0", "2.5", "-1.5", "cast('NaN' as double)", "cast('-0' as double)"],
    "decimal": ["cast(1 as decimal(9, 2))", "cast(2.50 as decimal(12, 2))", "cast(0.15 as decimal(5, 2))"],
    "bool": ["true", "false"],
    "text": ["''", "'a'", "'ab'", "'B'", "'a%'", "'ü'", "'it''s'", "'a long text that no view holds inline'"],
    "binary": ["x'61'", "x'616200'", "x'fffefd'"],
    "date": ["date '1970-01-02'", "date '2020-01-01'"],
    "time": ["time '12:34:56'", "time '00:00:00'"],
    "timestamp": [
        "timestamp '2020-01-01 00:00:00'",
        "timestamp '1970-01-02 00:00:00'",
        "timestamp '2020-01-01T12:04:56'",
    ],
    "duration": ["arrow_cast(60, 'Duration(Second)')", "arrow_cast(1000000, 'Duration(Microsecond)')"],
    "interval": ["interval '1 month'", "interval '3 days'"],
    "list": ["make_array(1, 2)", "make_array('a', null)", "make_array(make_array(1), make_array())"],
    "struct": ["named_struct('a', 1, 'b', 'x')", "struct(1, 2.5)", "named_struct('a', named_struct('b', 2))"],
    "map": ["map {'k0': 1}", "make_map('k0', 1, 'k1', 2)", "map([1, 2], ['a', null])"],
    "null": ["null"],
}


def literal_like(rng: Random, column: Column) -> str:
    """A literal that can be compared with a column: times only compare with times of the same unit."""
    if column.family == "time" and column.kind is not None and pa.types.is_time(column.kind):
        bits, unit = column.kind.bit_width, column.kind.unit
        return f"arrow_cast({literal(rng, 'time')}, 'Time{bits}({unit})')"
    return literal(rng, column.family)


def literal(rng: Random, family: str) -> str:
    """A literal of a family, now and then with an Arrow type."""
    if family in TYPED and rng.random() < 0.2:
        kind = rng.choice(TYPED[family])
        plain = rng.choice(["1", "2", "0"] if family != "text" else ["'a'", "'ab'", "'2'"])
        return f"arrow_cast({plain}, '{kind}')"
    return rng.choice(_PLAIN[family])
