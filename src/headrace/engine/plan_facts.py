"""Properties of a logical plan that decide how a query is planned, read from its nodes and its text.

The text is needed because subqueries in expressions are not inputs of any node.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from headrace.engine.dataset import CATALOG, SCHEMA
from headrace.engine.names import TableName

_ROW_WISE = frozenset(
    {"Projection", "Filter", "SubqueryAlias", "TableScan", "Limit", "Union", "EmptyRelation", "Unnest"}
)
_BRIDGED_SCAN = re.compile(rf"^ *TableScan: {CATALOG}\.{SCHEMA}\.(\S+)", re.MULTILINE)
_FIELD_FILTER = re.compile(r"^ *Filter: .*\bget_field\(", re.MULTILINE)
_OUTER_JOIN = re.compile(r"^ *(?:Left|Right|Full) Join", re.MULTILINE)
# INTERSECT and EXCEPT are planned as semi and anti joins; the optimiser rewrites IN to one.
_NULLS_COUNT = re.compile(r"^ *(?:Left|Right)(?:Semi|Anti) Join|IS (?:NOT )?DISTINCT FROM", re.MULTILINE)
_ANTI_JOIN = re.compile(r"^ *(?:Left|Right)Anti Join", re.MULTILINE)
# A Limit above a Sort becomes part of it, or stays directly above it.
_LIMIT_OF_ANY_ROWS = re.compile(r"^ *Limit: .*(?!\n *Sort: )$", re.MULTILINE)
_WINDOW = re.compile(r"^ *WindowAggr: ", re.MULTILINE)
_CLASHING_FILTERS = re.compile(rf"^ *TableScan: {CATALOG}\.{SCHEMA}\..*filters=\[[^\]]*,", re.MULTILINE)


def node_name(plan: Any) -> str:
    """Return the kind of a plan node; ``unknown`` if datafusion does not wrap it."""
    try:
        return type(plan.to_variant()).__name__
    except Exception:  # noqa: BLE001 - datafusion raises a bare Exception for nodes it does not wrap
        return "unknown"


def bridged_scans(plan: Any) -> list[str]:
    """Return the plan name of the table of each bridged scan in a logical plan, subqueries included."""
    return _BRIDGED_SCAN.findall(plan.display_indent())


def scans(plan: Any, table: TableName) -> bool:
    """Whether an unoptimised logical plan scans this table, by any of its names."""
    names = (TableName(table.parts[start:]) for start in range(len(table.parts)))
    lines = {line.lstrip() for line in plan.display_indent().splitlines()}
    return any(f"TableScan: {name}" in lines for name in names)


def is_correlated(plan: Any) -> bool:
    """Whether an unoptimised logical plan has a correlated subquery."""
    return "outer_ref(" in plan.display_indent()


def has_nested_lateral(plan: Any) -> bool:
    """Whether an unoptimised logical plan has a LATERAL subquery that contains another subquery."""
    if node_name(plan) == "Subquery":
        return any(map(has_subquery, plan.inputs()))
    return any(map(has_nested_lateral, plan.inputs()))


def has_anti_join(plan: Any) -> bool:
    """Whether an optimised logical plan has an anti join; NOT IN and NOT EXISTS become one."""
    return _ANTI_JOIN.search(plan.display_indent()) is not None


def has_outer_join(plan: Any) -> bool:
    """Whether a logical plan has a join that keeps rows without a match."""
    return _OUTER_JOIN.search(plan.display_indent()) is not None


def filters_fields_above_outer_join(plan: Any) -> bool:
    """Whether an unoptimised logical plan has a filter on a field of a struct above an outer join."""
    return any(
        _OUTER_JOIN.match(line) and any(map(_FIELD_FILTER.match, above)) for line, above in _lines_with_ancestors(plan)
    )


def filters_below_outer_join(plan: Any) -> bool:
    """Whether an unoptimised logical plan has a filter below an outer join."""
    return any(
        line.lstrip().startswith("Filter:") and any(map(_OUTER_JOIN.match, above))
        for line, above in _lines_with_ancestors(plan)
    )


def _lines_with_ancestors(plan: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield each node's line of the plan's text, with the lines of its ancestors."""
    above: list[str] = []
    for line in plan.display_indent().splitlines():
        indent = _indent(line)
        while above and _indent(above[-1]) >= indent:
            above.pop()
        yield line, above
        above.append(line)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def joins_count_nulls(plan: Any) -> bool:
    """Whether an unoptimised logical plan may have a join that treats two nulls as equal."""
    return _NULLS_COUNT.search(plan.display_indent()) is not None


def has_clashing_filters(plan: Any) -> bool:
    """Whether more than one filter was pushed into a scan of a bridged table, which the engine cannot plan.

    Filters that name a column never reach a bridged table. Constants do, and the engine cannot join two of them by AND.
    """
    return _CLASHING_FILTERS.search(plan.display_indent()) is not None


def depends_on_scan_order(plan: Any) -> bool:
    """Whether another order of a scan's rows may change the rows of the result of an optimised logical plan.

    A LIMIT without a sort returns the first rows that come, and windows number them. Aggregates without ORDER BY, such
    as ``array_agg``, are computed over several partitions in any order.
    """
    text = plan.display_indent()
    return any(pattern.search(text) for pattern in (_LIMIT_OF_ANY_ROWS, _WINDOW))


def is_row_wise(plan: Any) -> bool:
    """Whether every row of the result is computed from one row of a scan."""
    return not has_subquery(plan) and _is_row_wise(plan)


def has_subquery(plan: Any) -> bool:
    """Whether an expression of a logical plan contains a subquery."""
    return "Subquery:" in plan.display_indent()


def _is_row_wise(plan: Any) -> bool:
    return node_name(plan) in _ROW_WISE and all(_is_row_wise(child) for child in plan.inputs())
