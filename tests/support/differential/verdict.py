"""Whether two answers are the same: rows to the bit, names, types and nullability, or a refusal on both sides."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace import HeadraceError
from support.differential.plain import Answer


@dataclass(frozen=True, slots=True)
class Disagreement:
    """In what two answers differ: the kind of difference, and it in words."""

    kind: str
    words: str


def compare(plain: Answer, ours: Answer, *, ordered: bool) -> Disagreement | None:
    """The difference between what plain DataFusion and the session answered, if there is one."""
    if ours.refusal is not None and not isinstance(ours.refusal, HeadraceError):
        return Disagreement("foreign error", f"the session raised {_said(ours.refusal)}")
    if plain.refusal is not None and ours.refusal is not None:
        panics = _is_panic(ours.refusal.__cause__) and not _is_panic(plain.refusal)
        words = f"plain DataFusion refuses ({_said(plain.refusal)}), the session panics ({_said(ours.refusal)})"
        return Disagreement("panic", words) if panics else None
    if ours.refusal is not None:
        return Disagreement("refused", f"plain DataFusion answers, the session refuses: {_said(ours.refusal)}")
    if plain.refusal is not None:
        return Disagreement("answered", f"the session answers, plain DataFusion refuses: {_said(plain.refusal)}")
    assert plain.schema is not None
    assert ours.schema is not None
    return _schemas(plain, ours) or _rows(plain, ours, ordered=ordered)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"


def _is_panic(error: BaseException | None) -> bool:
    # A panic in a task that the engine started is an error of that task.
    return error is not None and (not isinstance(error, Exception) or "panicked with message" in str(error))


def _schemas(plain: Answer, ours: Answer) -> Disagreement | None:
    for batch in ours.batches:
        if not batch.schema.equals(ours.schema):
            return Disagreement("schema", f"a batch is of {batch.schema}, and the stream of {ours.schema}")
    for i, (theirs, field) in enumerate(zip(plain.schema, ours.schema, strict=False)):
        # A plan that removes a branch knows more; what it then says of nulls must be true.
        if not field.nullable and any(batch.column(i).null_count for batch in plain.batches):
            break
        if field.nullable and not theirs.nullable and plain.certain[i]:
            break
        if (theirs.name, theirs.type) != (field.name, field.type):
            break
    else:
        if len(plain.schema) == len(ours.schema):
            return None
    return Disagreement(
        "schema", f"plain DataFusion's schema is {_shown(plain.schema)}, the session's {_shown(ours.schema)}"
    )


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in schema)


def _rows(plain: Answer, ours: Answer, *, ordered: bool) -> Disagreement | None:
    expected, actual = rows_of(plain.batches), rows_of(ours.batches)
    if expected == actual:
        return None
    if ordered:
        at = next(
            (i for i, (a, b) in enumerate(zip(expected, actual, strict=False)) if a != b),
            min(len(expected), len(actual)),
        )
        words = f"from row {at} on, DataFusion's {len(expected)} rows are {_few(expected[at:])}, "
        words += f"the session's {len(actual)} {_few(actual[at:])}"
        return Disagreement("rows", words)
    missing, extra = Counter(expected) - Counter(actual), Counter(actual) - Counter(expected)
    if not missing and not extra:
        return None
    words = f"plain DataFusion gives {len(expected)} rows, the session {len(actual)}; missing: "
    return Disagreement("rows", words + f"{_few(list(missing.elements()))}; extra: {_few(list(extra.elements()))}")


def _few(rows: Sequence[Any]) -> str:
    return f"{', '.join(map(str, rows[:3])) or 'none'}{' ...' if len(rows) > 3 else ''}"


def rows_of(batches: Sequence[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    """Rows as values that are equal exactly if they are the same."""
    rows: list[tuple[Any, ...]] = []
    for batch in batches:
        if batch.num_columns:
            rows.extend(zip(*map(_values, batch.columns), strict=True))
        else:
            rows.extend([()] * batch.num_rows)
    return rows


def _values(array: pa.Array) -> list[Any]:
    kind, types = array.type, pa.types
    if types.is_dictionary(kind):
        domain = _values(array.dictionary)
        return [None if index is None else domain[index] for index in array.indices.to_pylist()]
    if types.is_run_end_encoded(kind):
        return _values(pc.run_end_decode(array))
    if types.is_floating(kind):
        return [_bits(value) for value in array.to_pylist()]
    if types.is_timestamp(kind) or types.is_duration(kind) or types.is_time64(kind) or types.is_date64(kind):
        return array.view(pa.int64()).to_pylist()
    if types.is_time32(kind) or types.is_date32(kind):
        return array.view(pa.int32()).to_pylist()
    if types.is_struct(kind):
        children = [_values(array.field(i)) for i in range(kind.num_fields)]
        rows = list(zip(*children, strict=True)) if children else [()] * len(array)
        return _masked(array, rows)
    if types.is_map(kind):
        pairs = list(zip(_values(array.keys), _values(array.items), strict=True))
        return _lists(array, pairs)
    if types.is_fixed_size_list(kind):
        size = kind.list_size
        values = _values(array.values.slice(array.offset * size, len(array) * size))
        return _masked(array, [tuple(values[i * size : (i + 1) * size]) for i in range(len(array))])
    if types.is_list(kind) or types.is_large_list(kind):
        return _lists(array, _values(array.values))
    return [tuple(value) if isinstance(value, list) else value for value in array.to_pylist()]


def _bits(value: float | None) -> Any:
    """A float by its bits, so that the two zeros differ; all NaN are one."""
    if value is None:
        return None
    return "NaN" if math.isnan(value) else ("-0.0" if value == 0 and struct.pack("d", value)[7] else float(value))


def _lists(array: pa.Array, values: list[Any]) -> list[Any]:
    offsets = array.offsets.to_pylist()
    return _masked(array, [tuple(values[start:end]) for start, end in pairwise(offsets)])


def _masked(array: pa.Array, rows: list[Any]) -> list[Any]:
    return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]
