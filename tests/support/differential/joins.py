"""Joins of every kind, on columns, struct fields, constants and conditions; and LATERAL."""

from __future__ import annotations

from support.differential.conditions import condition
from support.differential.scope import ORDERED, Column, Grammar, columns_of
from support.differential.selects import Query, from_table, ordered, select, subquery
from support.differential.sql import Sql, optional, sql
from support.differential.tables import quoted

Columns = tuple[Column, ...]
_KINDS = [
    *(" join ", " join ", " left join ", " right join ", " full join "),
    *(" left semi join ", " left anti join ", " right semi join ", " right anti join "),
]


def join(g: Grammar) -> Query:
    """A join of two or three tables or subqueries."""
    source, columns = _side(g)
    for _ in range(g.rng.choice([1, 1, 1, 2])):
        right, right_columns = _side(g)
        if g.chance(0.1):
            source, columns = sql(source, " cross join ", right, instead=[source]), columns + right_columns
            continue
        kind = g.rng.choice(_KINDS)
        on = _on(g, columns, right_columns)
        source = sql(source, kind, right, " on ", on, instead=[source])
        columns = (
            {
                " left semi": columns,
                " left anti": columns,
                " right sem": right_columns,
                " right ant": right_columns,
            }.get(kind[:10], columns + right_columns)
            if "semi" in kind or "anti" in kind
            else columns + right_columns
        )
    return ordered(g, select(g, source, columns, where=g.chance(0.4)))


def join_using(g: Grammar) -> Query:
    """A join of two tables by the column that both have."""
    left, right = g.rng.choice(g.tables), g.rng.choice(g.tables)
    first, second = g.alias("t"), g.alias("t")
    kind = g.rng.choice([" join ", " left join ", " right join ", " full join "])
    source = sql(f"{quoted(left.name)} as {first}{kind}{quoted(right.name)} as {second} using (id)")
    others = columns_of(left, f"{first}.") + columns_of(right, f"{second}.")
    columns = tuple(c for c in others if not c.sql.endswith('."id"'))
    return ordered(g, select(g, source, (Column("id", "int"), *columns), where=g.chance(0.3)))


def lateral(g: Grammar) -> Query:
    """A subquery for each row, that names the row's columns; maybe with another one beside or inside it."""
    source, columns = from_table(g, alone=False)
    reach = columns
    for _ in range(g.rng.choice([1, 1, 2])):
        part, part_columns = _for_each_row(g, reach, nested=g.chance(0.4))
        kind = g.rng.choice([" cross join lateral ", " join lateral ", " left join lateral "])
        source = sql(source, kind, part, "" if "cross" in kind else " on true", instead=[source])
        reach = reach + part_columns
    return ordered(g, select(g, source, reach, where=g.chance(0.3)))


def _for_each_row(g: Grammar, outer: Columns, *, nested: bool) -> tuple[Sql, Columns]:
    """A subquery over a table that names columns of an outer row."""
    source, columns = from_table(g, alone=False)
    on = _equality(g, outer, columns)
    if nested:
        part, part_columns = _for_each_row(g, columns, nested=False)
        source, columns = sql(source, " join lateral ", part, " on true", instead=[source]), columns + part_columns
    made = select(g, source, columns, where=False, most=2)
    return subquery(g, Query(sql(made.body, " where ", on), made.columns), g.alias("l"))


def _side(g: Grammar) -> tuple[Sql, Columns]:
    if g.chance(0.8):
        return from_table(g, alone=False)
    source, columns = from_table(g)
    return subquery(g, ordered(g, select(g, source, columns, where=g.chance(0.5))), g.alias("q"))


def _on(g: Grammar, left: Columns, right: Columns) -> Sql:
    shape = g.rng.randrange(12)
    if shape == 0:
        return sql(g.rng.choice(["true", "null", "false", "1 = 1"]))
    if shape == 1:
        return condition(g, left + right, 1)
    equality = _equality(g, left, right)
    if shape in (2, 3, 4):
        return sql(equality, optional(" and ", condition(g, left + right, 1)))
    return equality


def _equality(g: Grammar, left: Columns, right: Columns) -> Sql:
    pairs = [(a, b) for a in left for b in right if a.family == b.family and a.family in ORDERED]
    nested = [(a, b) for a, b in pairs if "[" in a.sql or "[" in b.sql]
    if not pairs:
        return sql("true")
    a, b = g.rng.choice(nested if nested and g.chance(0.4) else pairs)
    return sql(a.sql, " is not distinct from " if g.chance(0.1) else " = ", b.sql)
