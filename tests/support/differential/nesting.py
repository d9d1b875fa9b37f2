"""Queries inside queries: EXISTS, IN, scalar subqueries, derived tables, and CTEs, recursive ones among them."""

from __future__ import annotations

from support.differential.conditions import condition
from support.differential.grouping import KEYS, aggregate
from support.differential.joins import join
from support.differential.scope import ORDERED, Column, Grammar, of_family
from support.differential.selects import Query, from_table, ordered, select, simple, subquery
from support.differential.sql import Sql, optional, sql

Columns = tuple[Column, ...]


def filtered_by_subquery(g: Grammar) -> Query:
    """A filter by EXISTS, IN or a comparison with a scalar subquery."""
    source, columns = from_table(g, alone=False)
    made = select(g, source, columns, where=False)
    where = _subquery_condition(g, columns)
    more = optional(" and ", condition(g, columns, 1)) if g.chance(0.3) else ""
    return ordered(g, Query(sql(made.body, " where ", where, more), made.columns))


def _subquery_condition(g: Grammar, outer: Columns) -> Sql:
    source, inner = from_table(g, alone=False)
    pairs = [(a, b) for a in outer for b in inner if a.family == b.family and a.family in ORDERED]
    nested = [(a, b) for a, b in pairs if "[" in a.sql or "[" in b.sql]
    a, b = g.rng.choice(nested if nested and g.chance(0.4) else pairs)
    also = optional(" and ", condition(g, inner, 1)) if g.chance(0.3) else ""
    shape = g.rng.randrange(4)
    if shape == 0:
        negated = g.rng.choice(["", "not "])
        return sql(negated, "exists (select 1 from ", source, f" where {a.sql} = {b.sql}", also, ")")
    if shape in (1, 2):
        where = optional(" where ", condition(g, inner, 1)) if g.chance(0.4) else ""
        return sql(a.sql, g.rng.choice([" in ", " not in "]), f"(select {b.sql} from ", source, where, ")")
    keys = [(c, d) for c, d in pairs if c.family in KEYS]
    c, d = g.rng.choice(keys)
    where = optional(f" where {a.sql} = {b.sql}") if g.chance(0.5) else ""
    return sql(c.sql, g.rng.choice([" = ", " <= ", " <> "]), f"(select max({d.sql}) from ", source, where, ")")


def scalar_subquery(g: Grammar) -> Query:
    """A scalar subquery among the columns."""
    source, columns = from_table(g, alone=False)
    inner_source, inner = from_table(g, alone=False)
    made = select(g, source, columns, where=g.chance(0.3), most=2)
    key = g.rng.choice(of_family(inner, *KEYS))
    function = g.rng.choice(["max", "min", "count"])
    pairs = [(a, b) for a in columns for b in inner if a.family == b.family and a.family in ORDERED]
    a, b = g.rng.choice(pairs)
    where = optional(f" where {a.sql} = {b.sql}") if g.chance(0.6) else ""
    alias, outer = g.alias(), g.alias("q")
    family = "int" if function == "count" else key.family
    part = sql(f"(select {function}({key.sql}) from ", inner_source, where, f") as {alias}")
    items = sql("select ", part, ", ", Sql(made.body.parts[2:3]), " from ", source)
    if g.chance(0.3):
        said, reach = subquery(g, Query(items, (Column(alias, family), *made.columns)), outer)
        return ordered(g, select(g, said, reach, where=True))
    return ordered(g, Query(items, (Column(alias, family), *made.columns)))


def derived(g: Grammar) -> Query:
    """A query over a query."""
    inner = g.rng.choice([simple, aggregate, join])(g)
    source, columns = subquery(g, inner, g.alias("q"))
    columns = tuple(column for column in columns if column.family != "unknown")
    return ordered(g, select(g, source, columns, where=g.chance(0.6)))


def cte(g: Grammar) -> Query:
    """WITH, its query read once or twice."""
    inner = g.rng.choice([simple, aggregate])(g)
    name = g.alias("w")
    ordering = "" if inner.ordering is None else Sql(inner.ordering.parts, ("",))
    first, second = g.alias("t"), g.alias("t")
    columns = tuple(Column(f"{first}.{column.sql}", column.family) for column in inner.columns)
    source = sql(f"{name} as {first}")
    keys = [column.sql for column in inner.columns if column.family in ORDERED]
    if keys and g.chance(0.4):
        key = g.rng.choice(keys)
        source = sql(source, optional(f" join {name} as {second} on {first}.{key} = {second}.{key}"))
    made = select(g, source, columns, where=g.chance(0.5))
    return ordered(g, Query(sql(f"with {name} as (", inner.body, ordering, ") ", made.body), made.columns))


def recursive_cte(g: Grammar) -> Query:
    """WITH RECURSIVE, over numbers or over a table's rows, maybe with a table in each step."""
    name, last = g.alias("w"), g.rng.choice([2, 3, 4])
    table, columns = from_table(g, alone=False)
    unique = next(column.sql for column in columns if column.sql.endswith('"id"'))
    start = sql("select 1 as n")
    if g.chance(0.4):
        start = sql(f"select {unique} as n from ", table)
    step = sql(f"select n + 1 from {name} where n < {last}")
    if g.chance(0.3):
        other, others = from_table(g, alone=False)
        number = next(column.sql for column in others if column.sql.endswith('"id"'))
        step = sql(f"select {name}.n + 1 from {name} join ", other, f" on {name}.n = {number} where {name}.n < {last}")
    body = sql(f"with recursive {name} as (", start, " union all ", step, ") ")
    alias = g.alias()
    if g.chance(0.5):
        return ordered(g, Query(sql(body, f"select n as {alias} from {name}"), (Column(alias, "int"),)))
    source, columns = from_table(g, alone=False)
    unique = next(column.sql for column in columns if column.sql.endswith('"id"'))
    joined = sql(source, f" join {name} on {name}.n = {unique}")
    made = select(g, joined, (Column(f"{name}.n", "int"), *columns), where=g.chance(0.3))
    return ordered(g, Query(sql(body, made.body), made.columns))
