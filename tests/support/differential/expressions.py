"""Expressions of a wanted family over the columns in reach.

Nothing here can fail on a row: which rows an expression is evaluated for is the optimizer's choice, so an error that
depends on a row may come in one plan and not in another. Hence ``try_cast``, and only constants to divide by.
"""

from __future__ import annotations

from collections.abc import Callable

from support.differential.literals import literal
from support.differential.scope import Column, Grammar, of_family
from support.differential.sql import Sql, listed, sql

Columns = tuple[Column, ...]
# Makes a part of the same family, or of another one.
Part = Callable[..., Sql]
SIMPLE = ["int", "float", "decimal", "bool", "text", "binary", "date", "time", "timestamp"]


def any_expression(g: Grammar, columns: Columns, depth: int = 2) -> tuple[Sql, str]:
    """An expression and its family; most often a column as it is."""
    if columns and g.chance(0.65):
        column = g.rng.choice(columns)
        return sql(column.sql), column.family
    family = g.rng.choice([*SIMPLE, "int", "text", "bool", "list", "struct", "map", "timestamp"])
    return expression(g, columns, family, depth), family


def expression(g: Grammar, columns: Columns, family: str, depth: int = 2) -> Sql:
    """An expression of a family."""
    fitting = of_family(columns, family)
    simplest = sql(g.rng.choice(fitting).sql) if fitting and g.chance(0.8) else sql(literal(g.rng, family))
    if depth <= 0 or g.chance(0.4):
        return simplest
    made = _made(g, columns, family, depth - 1)
    return simplest if made is None else Sql(made.parts, (simplest, *made.instead), made.separator)


def _made(g: Grammar, columns: Columns, family: str, depth: int) -> Sql | None:
    def part(wanted: str = family) -> Sql:
        return expression(g, columns, wanted, depth)

    shape = g.rng.randrange(10)
    if shape == 0:
        condition = g.condition(g, columns, depth)
        return sql("case when ", condition, " then ", part(), " else ", part(), " end")
    if shape == 1:
        return sql("coalesce(", part(), ", ", part(), ")")
    if shape == 2 and family in SIMPLE:
        return sql("nullif(", part(), ", ", part(), ")")
    if shape == 3 and family in {"int", "text", "date", "timestamp"}:
        return sql(
            "case ",
            part("text"),
            " when 'a' then ",
            part(),
            " when ",
            sql(literal(g.rng, "text")),
            " then ",
            part(),
            " end",
        )
    maker = _MAKERS.get(family)
    return None if maker is None else maker(g, part, columns)


def _int(g: Grammar, part: Part, columns: Columns) -> Sql:
    number = str(g.rng.choice([2, 3, 7]))
    return g.rng.choice(
        [
            lambda: sql("(", part(), g.rng.choice([" + ", " - "]), part(), ")"),
            lambda: sql("(", part(), " % ", number, ")"),
            lambda: sql("(", part(), " / ", number, ")"),
            lambda: sql("length(", part("text"), ")"),
            lambda: sql("cast(", part("bool"), " as int)"),
            lambda: sql("extract(year from ", part("date"), ")"),
            lambda: sql("try_cast(", part("text"), " as bigint)"),
            lambda: sql("array_length(", part("list"), ")"),
            lambda: sql("cardinality(", part("list"), ")"),
        ]
    )()


def _float(g: Grammar, part: Part, columns: Columns) -> Sql:
    return g.rng.choice(
        [
            lambda: sql("(", part(), " * 0.5)"),
            lambda: sql("(", part(), " + ", part("int"), ")"),
            lambda: sql("cast(", part("int"), " as double)"),
            lambda: sql("cast(", part("int"), " as real)"),
            lambda: sql("abs(", part(), ")"),
        ]
    )()


def _text(g: Grammar, part: Part, columns: Columns) -> Sql:
    return g.rng.choice(
        [
            lambda: sql("upper(", part(), ")"),
            lambda: sql("(", part(), " || ", part(), ")"),
            lambda: sql("concat(", part(), ", '-', ", part("int"), ")"),
            lambda: sql("substr(", part(), ", 1, 2)"),
            lambda: sql("cast(", part(g.rng.choice(["int", "bool", "date", "decimal"])), " as varchar)"),
            lambda: sql("arrow_typeof(", part(g.rng.choice([*SIMPLE, "list", "struct"])), ")"),
            lambda: sql("replace(", part(), ", 'a', 'xy')"),
        ]
    )()


def _date(g: Grammar, part: Part, columns: Columns) -> Sql:
    return g.rng.choice(
        [
            lambda: sql("(", part(), " + interval '1 month')"),
            lambda: sql("cast(", part("timestamp"), " as date)"),
        ]
    )()


def _timestamp(g: Grammar, part: Part, columns: Columns) -> Sql:
    return g.rng.choice(
        [
            lambda: sql("date_trunc('day', ", part(), ")"),
            lambda: sql("cast(", part("date"), " as timestamp)"),
            lambda: sql("(", part(), " + interval '3 hours')"),
        ]
    )()


def _list(g: Grammar, part: Part, columns: Columns) -> Sql:
    inner = g.rng.choice(["int", "text", "float", "date", "struct"])
    items = listed([part(inner), part(inner), "null"][: g.rng.randint(1, 3)])
    return sql("make_array(", items, ")") if g.chance(0.7) else sql("[", items, "]")


def _struct(g: Grammar, part: Part, columns: Columns) -> Sql:
    first, second = g.rng.choice(SIMPLE), g.rng.choice([*SIMPLE, "list"])
    if g.chance(0.5):
        return sql("named_struct('a', ", part(first), ", 'b', ", part(second), ")")
    return sql("struct(", listed([part(first), part(second)]), ")")


def _map(g: Grammar, part: Part, columns: Columns) -> Sql:
    """A map of constants.

    Maps of columns are left out: the engine mistakes lists of constants, and of what it computes, for that of one
    row, and whether it then fails, panics or answers depends on how many rows a batch has.
    """
    return sql("make_map('k0', ", sql(literal(g.rng, "int")), ", 'k1', ", sql(literal(g.rng, "int")), ")")


def _bool(g: Grammar, part: Part, columns: Columns) -> Sql:
    if g.chance(0.4):
        text = part("text")
        return sql(
            "(", text, g.rng.choice([" like ", " not like ", " = "]), text if g.chance(0.5) else part("text"), ")"
        )
    return sql("(", part(), g.rng.choice([" and ", " or "]), part(), ")")


_MAKERS = {
    "int": _int,
    "float": _float,
    "decimal": lambda g, part, columns: sql("(", part(), g.rng.choice([" + ", " - "]), part(), ")"),
    "bool": _bool,
    "text": _text,
    "date": _date,
    "timestamp": _timestamp,
    "list": _list,
    "struct": _struct,
    "map": _map,
}
