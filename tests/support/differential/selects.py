"""SELECT over one table: projections, filters, DISTINCT, and ORDER BY with LIMIT where the order is total."""

from __future__ import annotations

from dataclasses import dataclass

from support.differential.conditions import condition
from support.differential.expressions import any_expression
from support.differential.scope import ORDERED, Column, Grammar, columns_of
from support.differential.sql import Sql, listed, optional, sql
from support.differential.tables import Table, quoted

Columns = tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """A query: its text, the families of its columns by name, and an ORDER BY that makes it a list of rows."""

    body: Sql
    columns: tuple[Column, ...]
    ordering: Sql | None = None

    @property
    def whole(self) -> Sql:
        return self.body if self.ordering is None else sql(self.body, self.ordering)


def simple(g: Grammar) -> Query:
    """A projection of one table under a filter."""
    source, columns = from_table(g)
    return ordered(g, select(g, source, columns, where=g.chance(0.6)))


def select(g: Grammar, source: Sql, columns: Columns, *, where: bool, most: int = 4) -> Query:
    """SELECT of some expressions over a source."""
    items, outputs = [], []
    for _ in range(g.rng.randint(1, most)):
        made, family = any_expression(g, columns)
        alias = g.alias()
        items.append(sql(made, f" as {alias}"))
        outputs.append(Column(alias, family))
    distinct = optional("distinct ") if g.chance(0.15) and all(c.family in ORDERED for c in outputs) else ""
    condition_part = optional(" where ", condition(g, columns)) if where else ""
    return Query(sql("select ", distinct, listed(items), " from ", source, condition_part), tuple(outputs))


def from_table(g: Grammar, table: Table | None = None, *, alone: bool = True) -> tuple[Sql, Columns]:
    """A table as a FROM clause names it, and its columns as the query then does.

    Args:
        g: Decides.
        table: Which one, or None for any.
        alone: Whether it is the only one, so that its columns need no qualifier.
    """
    table = table or g.rng.choice(g.tables)
    qualifier = g.rng.choice(["", "", "", "public.", "datafusion.public."])
    name = f"{qualifier}{quoted(table.name)}"
    if alone and g.chance(0.4):
        return sql(name), columns_of(table, "")
    if alone and g.chance(0.2):
        return sql(name), columns_of(table, f"{quoted(table.name)}.")
    alias = g.alias("t")
    return sql(f"{name} as {alias}"), columns_of(table, f"{alias}.")


def ordered(g: Grammar, query: Query, share: float = 0.5) -> Query:
    """Now and then with an ORDER BY of all columns, which orders all rows that differ; then maybe with a LIMIT.

    OFFSET is left out without a LIMIT: below a join, the engine removes the sort that the OFFSET counts by.
    """
    if not g.chance(share) or not all(column.family in ORDERED for column in query.columns):
        return query
    keys = list(query.columns)
    g.rng.shuffle(keys)
    said = ", ".join(f"{key.sql}{g.rng.choice(['', '', ' desc', ' nulls first', ' desc nulls last'])}" for key in keys)
    limit = g.rng.choice(["", "", " limit 3", " limit 1", " limit 4 offset 2", " limit 9 offset 1", " limit 0"])
    return Query(query.body, query.columns, sql(f" order by {said}{limit}"))


def subquery(g: Grammar, query: Query, alias: str) -> tuple[Sql, Columns]:
    """A query as a FROM clause names it."""
    columns = tuple(Column(f"{alias}.{column.sql}", column.family) for column in query.columns)
    ordering = "" if query.ordering is None else Sql(query.ordering.parts, ("",))
    return sql("(", query.body, ordering, f") as {alias}"), columns
