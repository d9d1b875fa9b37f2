"""Set operations over columns of different types, VALUES, constructors, and UNNEST."""

from __future__ import annotations

from support.differential.conditions import condition
from support.differential.expressions import expression
from support.differential.literals import literal
from support.differential.scope import ORDERED, Column, Grammar, of_family
from support.differential.selects import Query, from_table, ordered
from support.differential.sql import Sql, listed, optional, sql

Columns = tuple[Column, ...]
# What one side of a union has where the other side has the first. Decimals do not meet floats: NaN and infinity are no
# decimals, and whether such a row is read before the query fails depends on the plan.
_WITH = {
    "int": ["int", "float", "decimal", "text", "null", "bool"],
    "float": ["float", "int", "null"],
    "decimal": ["decimal", "int"],
    "bool": ["bool", "null"],
    "text": ["text", "int", "null"],
    "binary": ["binary", "null"],
    "date": ["date", "timestamp", "null"],
    "time": ["time", "null"],
    "timestamp": ["timestamp", "date", "null"],
    "list": ["list", "null"],
    "struct": ["struct", "null"],
    "map": ["map"],
    "null": ["int", "text", "null", "date"],
    "duration": ["duration", "null"],
    "interval": ["interval"],
}
_NESTED = ["list", "struct", "map", "duration", "null"]


def union(g: Grammar) -> Query:
    """UNION, INTERSECT or EXCEPT of two or three queries whose types may differ."""
    families = [g.rng.choice([*sorted(ORDERED), *_NESTED]) for _ in range(g.rng.randint(1, 3))]
    names = [g.alias() for _ in families]
    operator = g.rng.choice(
        [" union all "] * 6 + [" union ", " intersect ", " except ", " intersect all ", " except all "]
    )
    also = _WITH
    if operator != " union all ":
        families = [family if family in ORDERED else "int" for family in families]
        # INTERSECT and EXCEPT turn text into numbers and dates, and fail on the rows where they cannot.
        also = {
            family: [other for other in _WITH[family] if (other == "text") == (family == "text")] for family in _WITH
        }
    sides = [_side(g, families, names)]
    for _ in range(g.rng.choice([1, 1, 1, 2])):
        sides.append(_side(g, [g.rng.choice(also[family]) for family in families], names))
    return ordered(g, Query(listed(sides, operator), tuple(map(Column, names, families))))


def _side(g: Grammar, families: list[str], names: list[str]) -> Sql:
    source, columns = from_table(g) if g.chance(0.6) else (None, ())
    items = ", ".join(f"{_item(g, columns, family)} as {name}" for family, name in zip(families, names, strict=True))
    if source is None:
        return sql(f"select {items}")
    where = optional(" where ", condition(g, columns, 1)) if g.chance(0.4) else ""
    return sql(f"select {items} from ", source, where)


def _item(g: Grammar, columns: Columns, family: str) -> str:
    return str(expression(g, columns, family, 1))


def constants(g: Grammar) -> Query:
    """Expressions over no table: constructors, CASE of mixed types, VALUES."""
    if g.chance(0.3):
        families = [g.rng.choice([*sorted(ORDERED), "list", "null"]) for _ in range(g.rng.randint(1, 3))]
        rows = []
        for _ in range(g.rng.randint(1, 3)):
            cells = [literal(g.rng, g.rng.choice(_WITH[family]) if g.chance(0.3) else family) for family in families]
            rows.append(sql(f"({', '.join(cells)})"))
        names = [g.alias() for _ in families]
        source = sql("(values ", listed(rows), f") as v ({', '.join(names)})")
        return ordered(g, Query(sql(f"select {', '.join(names)} from ", source), tuple(map(Column, names, families))))
    items, outputs = [], []
    for _ in range(g.rng.randint(1, 3)):
        family = g.rng.choice(["list", "struct", "map", "int", "text", "timestamp"])
        made = mixed_case(g, (), family) if g.chance(0.4) else expression(g, (), family, 3)
        alias = g.alias()
        items.append(sql(made, f" as {alias}"))
        outputs.append(Column(alias, family))
    return Query(sql("select ", listed(items)), tuple(outputs))


def mixed(g: Grammar) -> Query:
    """CASE, coalesce and arrays over a table's columns, of types that the engine makes one."""
    source, columns = from_table(g)
    items, outputs = [], []
    for _ in range(g.rng.randint(1, 3)):
        family = g.rng.choice(sorted(ORDERED))
        alias = g.alias()
        items.append(sql(mixed_case(g, columns, family), f" as {alias}"))
        # Which family it becomes is the engine's choice, and some do not sort.
        outputs.append(Column(alias, "unknown"))
    where = optional(" where ", condition(g, columns, 1)) if g.chance(0.3) else ""
    return Query(sql("select ", listed(items), " from ", source, where), tuple(outputs))


def mixed_case(g: Grammar, columns: Columns, family: str) -> Sql:
    """An expression whose branches are of different types."""
    first = expression(g, columns, family, 1)
    second = expression(g, columns, g.rng.choice(_WITH[family]), 1)
    sides = (first, second) if g.chance(0.5) else (second, first)
    shape = g.rng.randrange(4)
    if shape == 0:
        return sql("coalesce(", sides[0], ", ", sides[1], ")")
    if shape == 1:
        return sql("make_array(", listed([*sides, "null"] if g.chance(0.3) else [*sides]), ")")
    when = condition(g, columns, 1)
    otherwise = sql(" else ", sides[1], instead=[""])
    return sql("case when ", when, " then ", sides[0], otherwise, " end", instead=[sides[0]])


def unnest(g: Grammar) -> Query:
    """UNNEST of lists, of structs and of lists of structs."""
    source, columns = from_table(g)
    lists = of_family(columns, "list")
    structs = of_family(columns, "struct")
    alias, other = g.alias(), g.alias()
    beside = g.rng.choice(of_family(columns, "int", "text"))
    where = optional(" where ", condition(g, columns, 1)) if g.chance(0.3) else ""
    if structs and g.chance(0.3):
        body = sql(f"select unnest({g.rng.choice(structs).sql}), {beside.sql} as {other} from ", source, where)
        return Query(body, (Column(other, "unknown"),))
    if lists and g.chance(0.7):
        made = sql(g.rng.choice(lists).sql)
    else:
        made = sql("make_array(", listed([expression(g, columns, "int", 1), "2"]), ")")
    items = listed([sql("unnest(", made, f") as {alias}"), sql(f"{beside.sql} as {other}")])
    return Query(
        sql("select ", items, " from ", source, where), (Column(alias, "unknown"), Column(other, beside.family))
    )
