"""Conditions: comparisons, IN, BETWEEN, LIKE, IS DISTINCT FROM, and what joins them."""

from __future__ import annotations

from support.differential import expressions
from support.differential.literals import literal_like
from support.differential.scope import ORDERED, Column, Grammar, of_family
from support.differential.sql import Sql, listed, sql

Columns = tuple[Column, ...]
COMPARISONS = [" = ", " <> ", " < ", " <= ", " > ", " >= ", " is distinct from ", " is not distinct from "]
# Families that the engine compares with each other, by turning one into the other.
MIXED = {"int": ["float", "decimal"], "float": ["int"], "decimal": ["int"], "date": ["timestamp"]}


def condition(g: Grammar, columns: Columns, depth: int = 2) -> Sql:
    """A condition on the columns in reach."""
    if depth > 0 and g.chance(0.35):
        left, right = condition(g, columns, depth - 1), condition(g, columns, depth - 1)
        if g.chance(0.2):
            return sql("not (", left, ")", instead=[left])
        return sql("(", left, g.rng.choice([" and ", " or "]), right, ")", instead=[left, right])
    return _leaf(g, columns)


def _leaf(g: Grammar, columns: Columns) -> Sql:
    ordered = of_family(columns, *sorted(ORDERED))
    if not ordered or g.chance(0.05):
        return sql(g.rng.choice(["true", "false", "null", "1 = 1"]))
    column = g.rng.choice(ordered)
    family = column.family
    shape = g.rng.randrange(10)
    if shape == 0:
        return sql(g.rng.choice(columns).sql, g.rng.choice([" is null", " is not null"]))
    if shape in (1, 2):
        values = listed([sql(_value(g, column)) for _ in range(g.rng.choice([1, 2, 3, 5]))])
        return sql(column.sql, g.rng.choice([" in (", " not in ("]), values, ")")
    if shape == 3:
        between = g.rng.choice([" between ", " not between "])
        return sql(column.sql, between, literal_like(g.rng, column), " and ", literal_like(g.rng, column))
    if shape == 9:
        # True of the nulls that an outer join makes.
        other = literal_like(g.rng, column)
        return sql(f"coalesce({column.sql}, {other})", g.rng.choice([" = ", " <> "]), literal_like(g.rng, column))
    if family == "text" and shape in (4, 5):
        like = g.rng.choice([" like ", " not like ", " ilike ", " ~ ", " not ilike "])
        pattern = column.sql if g.chance(0.3) else g.rng.choice(["'a%'", "'%b'", "'_'", "'a'", "'%'", "'^a'"])
        return sql(column.sql, like, pattern)
    if family == "bool" and shape in (4, 5, 6):
        return sql(column.sql, g.rng.choice(["", " is true", " is not true", " is unknown", " is not false"]))
    other = g.rng.choice(MIXED[family]) if family in MIXED and g.chance(0.15) else family
    if other == family and (family == "time" or g.chance(0.6)):
        right = sql(literal_like(g.rng, column))
    else:
        right = expressions.expression(g, columns, other, 1)
    sides = (sql(column.sql), right) if g.chance(0.8) else (right, sql(column.sql))
    return sql(sides[0], g.rng.choice(COMPARISONS), sides[1])


def _value(g: Grammar, column: Column) -> str:
    return "null" if g.chance(0.1) else literal_like(g.rng, column)
