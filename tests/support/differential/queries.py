"""A random query of any theme."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

import pyarrow as pa

from support.differential import functions, grouping, joins, nesting, selects, sets
from support.differential.conditions import condition
from support.differential.scope import Grammar
from support.differential.selects import Query
from support.differential.tables import Table, quoted

_THEMES: dict[str, Callable[[Grammar], Query]] = {
    "select": selects.simple,
    "functions": functions.functions,
    "join": joins.join,
    "using": joins.join_using,
    "lateral": joins.lateral,
    "aggregate": grouping.aggregate,
    "window": grouping.window,
    "union": sets.union,
    "constants": sets.constants,
    "mixed": sets.mixed,
    "unnest": sets.unnest,
    "subquery": nesting.filtered_by_subquery,
    "scalar": nesting.scalar_subquery,
    "derived": nesting.derived,
    "cte": nesting.cte,
    "recursive": nesting.recursive_cte,
}
THEMES: dict[str, int] = dict.fromkeys(_THEMES, 2) | {
    "select": 6,
    "join": 4,
    "constants": 1,
    "recursive": 1,
    "using": 1,
}


# What takes a time that grows with the rows, and not with the product of two tables' rows.
_LINEAR = {"select", "functions", "aggregate", "window", "union", "mixed", "unnest", "subquery", "constants"}
# What has no outer join: the engine gives rows without a match another row's value of a run-end-encoded column.
_WITHOUT_OUTER_JOINS = _LINEAR - {"subquery"}


def random_query(rng: Random, tables: list[Table], themes: Mapping[str, int] = THEMES) -> Query:
    """A query over some of the tables, of a theme that is fit for all of them."""
    if any(table.rows > 1000 for table in tables):
        themes = _within(themes, _LINEAR)
    if any(pa.types.is_run_end_encoded(kind) for table in tables for kind in table.schema.types):
        themes = _within(themes, _WITHOUT_OUTER_JOINS)
    theme = rng.choices(list(themes), list(themes.values()))[0]
    query = _THEMES[theme](Grammar(rng, tables, condition))
    while theme == "subquery" and any(table.rows > 1000 and _joins_itself(query, table) for table in tables):
        query = _THEMES[theme](Grammar(rng, tables, condition))
    return query


def _joins_itself(query: Query, table: Table) -> bool:
    """Whether a subquery reads the table of its outer query: the engine compares each pair of rows with null keys."""
    return str(query.whole).count(f"{quoted(table.name)} as t") > 1


def _within(themes: Mapping[str, int], fit: set[str]) -> Mapping[str, int]:
    return {name: weight for name, weight in themes.items() if name in fit} or {"select": 1}
