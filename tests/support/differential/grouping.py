"""Aggregates and windows whose answers do not depend on the order in which rows come.

Left out, since their answers do: ``array_agg`` and ``first_value`` without an order, ``row_number`` where rows tie,
averages of numbers that do not add up exactly. Two ordered aggregates in one query are left out too: over several
partitions the engine gives both the order of the first.
"""

from __future__ import annotations

from support.differential.conditions import condition
from support.differential.expressions import expression
from support.differential.scope import ORDERED, Column, Grammar, of_family
from support.differential.selects import Query, from_table, ordered
from support.differential.sql import Sql, listed, optional, sql

Columns = tuple[Column, ...]
# The two zeros are one value to some operators and two to others, so floats are neither keys nor extremes.
KEYS = sorted(ORDERED - {"float"})


def aggregate(g: Grammar) -> Query:
    """GROUP BY some keys, with grouping sets now and then, and aggregates."""
    source, columns = from_table(g)
    keys = of_family(columns, *KEYS)
    chosen = g.rng.sample(keys, min(len(keys), g.rng.choice([0, 1, 1, 2])))
    items, outputs = [], []
    for key in chosen:
        alias = g.alias()
        items.append(sql(key.sql, f" as {alias}"))
        outputs.append(Column(alias, key.family))
    has_order = False
    for _ in range(g.rng.randint(1, 3)):
        made, family, is_ordered = _aggregate(g, columns, may_order=not has_order)
        has_order = has_order or is_ordered
        where = optional(" filter (where ", condition(g, columns, 1), ")") if g.chance(0.2) else ""
        alias = g.alias()
        items.append(sql(made, where, f" as {alias}"))
        outputs.append(Column(alias, family))
    where = optional(" where ", condition(g, columns, 1)) if g.chance(0.4) else ""
    body = sql("select ", listed(items), " from ", source, where, _group_by(g, chosen))
    if chosen and g.chance(0.2):
        body = sql(body, optional(" having count(*) > 1"))
    return ordered(g, Query(body, tuple(outputs)))


def _group_by(g: Grammar, keys: list[Column]) -> Sql:
    if not keys:
        return sql("")
    said = [key.sql for key in keys]
    shape = g.rng.randrange(8)
    if shape == 0:
        return sql(f" group by rollup ({', '.join(said)})")
    if shape == 1:
        return sql(f" group by cube ({', '.join(said)})")
    if shape == 2:
        sets = ", ".join(f"({key})" for key in said)
        return sql(f" group by grouping sets ({sets}, ())")
    return sql(" group by ", ", ".join(said))


def _aggregate(g: Grammar, columns: Columns, *, may_order: bool) -> tuple[Sql, str, bool]:
    shape = g.rng.randrange(11 if may_order else 8)
    keys = of_family(columns, *KEYS)
    key = g.rng.choice(keys) if keys else Column("1", "int")
    if shape == 0:
        return sql("count(*)"), "int", False
    if shape == 1:
        return sql("count(", g.rng.choice(columns).sql if columns else "1", ")"), "int", False
    if shape == 2:
        return sql("count(distinct ", key.sql, ")"), "int", False
    if shape == 3:
        return sql("sum(", expression(g, columns, "int", 1), " % 100)"), "int", False
    if shape == 4:
        return sql(g.rng.choice(["min(", "max("]), key.sql, ")"), key.family, False
    if shape == 5:
        return sql("avg(", expression(g, columns, "int", 1), " % 8)"), "float", False
    if shape == 6:
        return sql("sum(", expression(g, columns, "decimal", 0), ")"), "decimal", False
    if shape == 7:
        return sql(g.rng.choice(["bool_and(", "bool_or("]), condition(g, columns, 1), ")"), "bool", False
    if shape == 8:
        return sql("array_agg(", key.sql, " order by ", key.sql, ")"), "list", True
    if shape == 9:
        text = expression(g, columns, "text", 0)
        return sql("string_agg(", text, ", ',' order by ", text, ")"), "text", True
    return sql("array_agg(distinct ", key.sql, " order by ", key.sql, ")"), "list", True


def window(g: Grammar) -> Query:
    """Functions over windows of a table, ordered by its unique numbers where the order matters."""
    source, columns = from_table(g)
    ids = [column for column in columns if column.sql.endswith('"id"')]
    items, outputs = [], []
    for _ in range(g.rng.randint(1, 2)):
        made, family = _window(g, columns, ids[0].sql)
        alias = g.alias()
        items.append(sql(made, f" as {alias}"))
        outputs.append(Column(alias, family))
    for column in g.rng.sample(columns, min(len(columns), 2)):
        alias = g.alias()
        items.append(sql(column.sql, f" as {alias}"))
        outputs.append(Column(alias, column.family))
    where = optional(" where ", condition(g, columns, 1)) if g.chance(0.3) else ""
    return ordered(g, Query(sql("select ", listed(items), " from ", source, where), tuple(outputs)))


def _window(g: Grammar, columns: Columns, unique: str) -> tuple[Sql, str]:
    keys = of_family(columns, *KEYS)
    key = g.rng.choice(keys)
    by = optional(f"partition by {g.rng.choice(keys).sql} ") if g.chance(0.5) else ""
    frame = g.rng.choice(
        ["", "", " rows between 1 preceding and current row", " rows between current row and 2 following"]
    )
    order = f"order by {unique}{g.rng.choice(['', ' desc'])}"
    shape = g.rng.randrange(7)
    if shape == 0:
        return sql("row_number() over (", by, order, ")"), "int"
    if shape == 1:
        return sql(g.rng.choice(["rank", "dense_rank"]), "() over (", by, f"order by {key.sql})"), "int"
    if shape == 2:
        return sql(g.rng.choice(["lag(", "lead("]), key.sql, ") over (", by, order, ")"), key.family
    if shape == 3:
        return sql("sum(", expression(g, columns, "int", 0), " % 100) over (", by, order, frame, ")"), "int"
    if shape == 4:
        return sql("count(*) over (", by, ")"), "int"
    if shape == 5:
        return sql(
            g.rng.choice(["first_value(", "last_value("]), key.sql, ") over (", by, order, frame, ")"
        ), key.family
    return sql(g.rng.choice(["min(", "max("]), key.sql, ") over (", by, order, frame, ")"), key.family
