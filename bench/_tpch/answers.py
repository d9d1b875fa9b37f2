"""Compares two answers to a query: decimals exactly, and the order of the rows where ORDER BY fixes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

# Quotients and averages are binary fractions in one engine, and decimals with some digits in another.
_MOST_RELATIVE_ERROR = 1e-9


def difference(actual: pa.Table, expected: pa.Table, keys: Sequence[str]) -> str | None:
    """Say where two answers differ; None if they are the same.

    Rows are in the same order by ``keys``. Rows that are equal in them may be in any order.
    """
    if actual.column_names != expected.column_names:
        return f"the columns are {actual.column_names}, not {expected.column_names}"
    if actual.num_rows != expected.num_rows:
        return f"there are {actual.num_rows} rows, not {expected.num_rows}"
    exact = [name for name in expected.column_names if not (_is_float(actual, name) or _is_float(expected, name))]
    for place, (ours, theirs) in enumerate(
        zip(_paired(actual, keys, exact), _paired(expected, keys, exact), strict=True)
    ):
        for name in expected.column_names:
            if not _same(ours[name], theirs[name]):
                return f"{name} of row {place} is {ours[name]!r}, not {theirs[name]!r}"
    return None


def _paired(answer: pa.Table, keys: Sequence[str], exact: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows in their order; those with equal keys are sorted, so that two answers can be compared."""
    groups: list[tuple[list[Any], list[dict[str, Any]]]] = []
    for row in answer.to_pylist():
        key = [row[name] for name in keys]
        if not groups or groups[-1][0] != key:
            groups.append((key, []))
        groups[-1][1].append(row)
    return [row for _, rows in groups for row in sorted(rows, key=lambda row: [_sortable(row[n]) for n in exact])]


def _sortable(value: Any) -> tuple[bool, Any]:
    return value is None, value


def _is_float(answer: pa.Table, name: str) -> bool:
    return bool(pa.types.is_floating(answer.schema.field(name).type))


def _same(ours: Any, theirs: Any) -> bool:
    """Whether two values are equal; a binary fraction need only round to a decimal."""
    if not (isinstance(ours, float) or isinstance(theirs, float)) or ours is None or theirs is None:
        return bool(ours == theirs)
    digits = [-int(value.as_tuple().exponent) for value in (ours, theirs) if isinstance(value, Decimal)]
    last_digit = 10.0 ** -digits[0] if digits else 0.0
    return math.isclose(ours, theirs, rel_tol=_MOST_RELATIVE_ERROR, abs_tol=last_digit)
