"""Functions of one column each, in a query that looks at one row at a time."""

from __future__ import annotations

from support.differential.conditions import condition
from support.differential.scope import Column, Grammar
from support.differential.selects import Query, from_table
from support.differential.sql import listed, optional, sql

_ANY = ["{0} is null", "coalesce({0}, {0})", "nullif({0}, {0})", "case when {0} is null then 1 else 2.5 end"]
# None of them fails on a value that tables have, and none depends on the order of rows.
_FUNCTIONS = {
    "text": [
        *(
            "{0} like {0}",
            "{0} not like {0}",
            "{0} ilike 'A%'",
            "{0} ~ 'a'",
            "upper({0})",
            "length({0})",
            "reverse({0})",
        ),
        *("{0} || 'x'", "starts_with({0}, 'a')", "split_part({0}, 'a', 1)", "regexp_replace({0}, 'a', 'b')"),
        *("{0} in ('a', 'b')", "strpos({0}, 'a')", "trim({0})", "lpad({0}, 3, '-')", "{0} = {0}", "md5({0})"),
    ],
    "int": ["{0} % 3", "cast({0} as varchar)", "{0} between 1 and 2", "{0} in (1, 2, 3)", "{0} + 1", "-({0} % 5)"],
    "float": ["abs({0})", "isnan(cast({0} as double))", "{0} * 2", "cast({0} as varchar)", "{0} = {0}", "round({0})"],
    "decimal": ["{0} + {0}", "cast({0} as varchar)", "abs({0})", "{0} > 1"],
    "bool": ["not {0}", "{0} and {0}", "{0} is not true", "cast({0} as int)"],
    "binary": ["octet_length({0})", "encode({0}, 'hex')", "{0} = {0}", "md5({0})"],
    "date": ["extract(year from {0})", "date_trunc('month', {0})", "{0} + interval '1 day'", "cast({0} as varchar)"],
    "timestamp": ["extract(hour from {0})", "date_trunc('day', {0})", "cast({0} as date)", "{0} + interval '1 day'"],
    "time": ["cast({0} as varchar)", "{0} = {0}", "extract(minute from {0})"],
    "duration": ["{0} = {0}", "cast({0} as bigint)"],
    "interval": ["{0} is not null"],
    "list": [
        "array_length({0})",
        "cardinality({0})",
        "{0}[1]",
        "array_reverse({0})",
        "{0} = {0}",
        "array_to_string({0}, ',')",
    ],
    "struct": ["{0} = {0}", "make_array({0}, {0})", "named_struct('f', {0})", "struct({0}, 1)"],
    "map": ["map_keys({0})", "map_values({0})", "cardinality({0})", "make_array({0})"],
    "null": ["{0} is distinct from 1", "{0} + 1"],
}


def functions(g: Grammar) -> Query:
    """A function of each of some columns of a table."""
    source, columns = from_table(g)
    items, outputs = [], []
    for _ in range(g.rng.randint(1, 4)):
        column = g.rng.choice(columns)
        shape = g.rng.choice(_FUNCTIONS[column.family] if g.chance(0.85) else _ANY)
        alias = g.alias()
        items.append(sql(shape.format(column.sql), f" as {alias}", instead=[f"{column.sql} as {alias}"]))
        outputs.append(Column(alias, "unknown"))
    where = optional(" where ", condition(g, columns, 1)) if g.chance(0.3) else ""
    return Query(sql("select ", listed(items), " from ", source, where), tuple(outputs))
