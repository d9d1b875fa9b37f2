"""Checks of table schemas, and descriptions of how two schemas differ."""

from __future__ import annotations

import pyarrow as pa

from headrace._checks import kind_of
from headrace._counts import counted
from headrace.errors import InvalidArgumentError, SchemaMismatchError


def require_schema(schema: object, what: str) -> pa.Schema:
    """Return ``schema`` if a table can have it.

    Raises:
        InvalidArgumentError: ``schema`` is not a ``pyarrow.Schema``, has no column, has two columns of one name, or
            has a column of a type that the engine cannot query.
    """
    if not isinstance(schema, pa.Schema):
        raise InvalidArgumentError(
            f"{what} must be a pyarrow.Schema, not {kind_of(schema)}.",
            hint="build one with pyarrow.schema([...]).",
        )
    if not schema.names:
        raise InvalidArgumentError(f"{what} has no column.", hint="give the table at least one field.")
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise InvalidArgumentError(
            f"{what} has more than one column named {', '.join(map(repr, twice))}.", hint="rename them."
        )
    for field in schema:
        if _has_sparse_union(field.type):
            raise InvalidArgumentError(
                f"{what} has a sparse union in column {field.name!r}, which the engine handles incorrectly.",
                hint="cast it to a dense union or a struct.",
            )
    return schema


def _has_sparse_union(kind: pa.DataType) -> bool:
    if pa.types.is_union(kind) and kind.mode == "sparse":
        return True
    return any(_has_sparse_union(kind.field(i).type) for i in range(kind.num_fields))


def same_fields(left: pa.Schema, right: pa.Schema) -> bool:
    """Whether both schemas have the same names, order, types and nullability; metadata may differ."""
    return bool(left.equals(right, check_metadata=False))


def require_same_fields(actual: pa.Schema, expected: pa.Schema, what: str) -> None:
    """Check that ``actual`` has the fields of ``expected``.

    Raises:
        SchemaMismatchError: It does not; the message has both schemas and the first difference.
    """
    if not same_fields(actual, expected):
        raise SchemaMismatchError(
            f"{what} does not have the table's schema: {_first_difference(actual, expected)}. "
            f"Table: ({describe_schema(expected)}); given: ({describe_schema(actual)}).",
            hint="cast it to the table's schema first, nullability included.",
        )


def required_columns(schema: pa.Schema) -> tuple[int, ...]:
    """Return the positions of the columns that are not nullable."""
    return tuple(index for index, field in enumerate(schema) if not field.nullable)


def describe_schema(schema: pa.Schema) -> str:
    """Describe every field in one line: ``id int64 not null, name string``."""
    return ", ".join(_describe_field(field) for field in schema)


def _describe_field(field: pa.Field) -> str:
    return f"{field.name} {field.type}{'' if field.nullable else ' not null'}"


def _first_difference(actual: pa.Schema, expected: pa.Schema) -> str:
    if sorted(actual.names) != sorted(expected.names):
        missing = [name for name in expected.names if name not in actual.names]
        extra = [name for name in actual.names if name not in expected.names]
        parts = [f"missing column {name!r}" for name in missing] + [f"extra column {name!r}" for name in extra]
        return ", ".join(parts) or f"{counted(len(actual), 'column')} instead of {len(expected)}"
    if actual.names != expected.names:
        return "the columns are in another order"
    for given, wanted in zip(actual, expected, strict=True):
        if given.type != wanted.type:
            return f"column {wanted.name!r} is {given.type} instead of {wanted.type}"
        if given.nullable != wanted.nullable:
            words = ("not null", "nullable")
            return f"column {wanted.name!r} is {words[given.nullable]} instead of {words[wanted.nullable]}"
    return "a nested field differs"
