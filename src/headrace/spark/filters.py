"""Translate Spark's filters to Lance's SQL, where both have the same meaning."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pyarrow as pa

Pushed = Any
"""A filter of ``pyspark.sql.datasource``; not all supported versions of pyspark have the classes."""

_COMPARISONS = {
    "EqualTo": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_FUNCTIONS = {"StringStartsWith": "starts_with", "StringEndsWith": "ends_with", "StringContains": "contains"}


class _UntranslatableError(Exception):
    pass


def conditions(pushed: Pushed, schema: pa.Schema) -> list[str]:
    """Return a filter as a condition in Lance's SQL; an empty list if Lance might evaluate it differently.

    Filters on floats are not translated: for Spark, 0.0 and -0.0 are equal.
    """
    try:
        return [_condition(pushed, schema)]
    except _UntranslatableError:
        return []


def _condition(pushed: Pushed, schema: pa.Schema) -> str:
    kind = type(pushed).__name__
    if kind == "Not":
        return f"(NOT {_condition(pushed.child, schema)})"
    column = _column(pushed.attribute)
    if kind in ("IsNull", "IsNotNull"):
        return f"({column} IS {'NOT ' if kind == 'IsNotNull' else ''}NULL)"
    literal = _literals(pushed.attribute, schema)
    if kind in _COMPARISONS:
        return f"({column} {_COMPARISONS[kind]} {literal(pushed.value)})"
    if kind in _FUNCTIONS:
        return f"({_FUNCTIONS[kind]}({column}, {literal(pushed.value)}))"
    if kind == "In" and pushed.value:
        return f"({column} IN ({', '.join(literal(value) for value in pushed.value)}))"
    raise _UntranslatableError


def _column(attribute: tuple[str, ...]) -> str:
    if any("`" in part for part in attribute):
        raise _UntranslatableError
    return ".".join(f"`{part}`" for part in attribute)


def _literals(attribute: tuple[str, ...], schema: pa.Schema) -> Callable[[Any], str]:
    """Return the function that writes a value as a literal of a column's type."""
    kind = _type_of(attribute, schema)
    for is_kind, python, write in (
        (pa.types.is_integer, int, str),
        (pa.types.is_string, str, lambda value: "'" + value.replace("'", "''") + "'"),
        (pa.types.is_boolean, bool, lambda value: str(value).lower()),
        (pa.types.is_date, datetime.date, lambda value: f"date '{value.isoformat()}'"),
    ):
        if is_kind(kind):

            def literal(value: Any, python: Any = python, write: Any = write) -> str:
                if type(value) is not python:
                    raise _UntranslatableError
                return str(write(value))

            return literal
    raise _UntranslatableError


def _type_of(attribute: tuple[str, ...], schema: pa.Schema) -> pa.DataType:
    found: Any = schema
    for part in attribute:
        index = found.get_field_index(part) if isinstance(found, (pa.Schema, pa.StructType)) else -1
        if index < 0:
            raise _UntranslatableError
        found = found.field(index).type
    return found
