"""What a plan lets a provider leave out: the filter and the limit above each scan.

Both are hints. The filter stays in the plan too, so what cannot be said as a pyarrow expression with the
engine's exact meaning is simply not said, and a provider that ignores the rest is still right.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.dataset
from datafusion import Expr

from headrace._execution import Hint

# The engine keeps filters above a limit; this one lets every row pass (see ``_engine``).
EVERY_ROW = 2**63 - 1
_BRIDGE_LIMIT = f"Limit: skip=0, fetch={EVERY_ROW}"

_ROW_WISE = frozenset(
    {"Projection", "Filter", "SubqueryAlias", "TableScan", "Limit", "Union", "EmptyRelation", "Unnest"}
)
_COMPARISONS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def scan_hints(plan: Any) -> dict[str, Hint]:
    """The hints of an optimised logical plan, by the plan names of the tables it scans.

    A table scanned twice gets a hint only if both scans have the same.
    """
    hints: dict[str, Hint] = {}
    for name, predicate, fetch in _scans(plan, None):
        limit = fetch if fetch is not None and fetch < EVERY_ROW else None
        hint = Hint(None if predicate is None else _convert_all(predicate), limit)
        hints[name] = hint if name not in hints or _same(hints[name], hint) else Hint()
    return hints


def scanned_tables(plan: Any) -> frozenset[str]:
    """The plan names of all tables a logical plan scans."""
    return frozenset(name for name, _, _ in _scans(plan, None))


def is_row_wise(plan: Any) -> bool:
    """Whether every row of the result comes from one row of a scan, independently of all others."""
    name = _node_name(plan)
    return name in _ROW_WISE and all(is_row_wise(child) for child in plan.inputs())


def _node_name(plan: Any) -> str:
    try:
        return type(plan.to_variant()).__name__
    except Exception:  # noqa: BLE001 - datafusion raises a bare Exception for nodes it does not wrap
        return "unknown"


def _scans(plan: Any, predicate: Any | None) -> Iterator[tuple[str, Any | None, int | None]]:
    name = _node_name(plan)
    if name == "TableScan":
        scan = plan.to_variant()
        yield scan.table_name(), predicate, scan.fetch()
        return
    below = None
    if name == "Filter":
        below = plan.to_variant().predicate()
    elif plan.display() == _BRIDGE_LIMIT:
        below = predicate
    for child in plan.inputs():
        yield from _scans(child, below)


def _same(left: Hint, right: Hint) -> bool:
    return left.limit == right.limit and str(left.filter) == str(right.filter)


def _convert_all(predicate: Any) -> Any | None:
    """As much of a predicate as can be said: of conditions joined by AND, those that convert."""
    parts = [converted for part in _conjuncts(Expr(predicate)) if (converted := _convert(part)) is not None]
    return reduce(operator.and_, parts) if parts else None


def _conjuncts(expr: Expr) -> Iterator[Expr]:
    if expr.variant_name() == "BinaryExpr" and expr.rex_call_operator() == "AND":
        for operand in expr.rex_call_operands():
            yield from _conjuncts(operand)
    else:
        yield expr


def _convert(expr: Expr) -> Any | None:
    kind = expr.variant_name()
    operands = expr.rex_call_operands() if kind in {"BinaryExpr", "IsNull", "IsNotNull", "InList"} else []
    if kind == "IsNull":
        return _null_test(operands[0], is_null=True)
    if kind == "IsNotNull":
        return _null_test(operands[0], is_null=False)
    if kind == "InList" and not expr.to_variant().negated():
        return _membership(operands)
    if kind == "BinaryExpr":
        symbol = expr.rex_call_operator()
        left, right = operands
        if symbol in {"AND", "OR"}:
            sides = _convert(left), _convert(right)
            if sides[0] is None or sides[1] is None:
                return None
            return sides[0] & sides[1] if symbol == "AND" else sides[0] | sides[1]
        return _comparison(symbol, left, right)
    return None


def _null_test(operand: Expr, *, is_null: bool) -> Any | None:
    column = _column(operand)
    if column is None:
        return None
    return column.is_null() if is_null else column.is_valid()


def _membership(operands: list[Expr]) -> Any | None:
    column = _column(operands[0])
    values = [value for operand in operands[1:] if (value := _value(operand)) is not None]
    if column is None or not values or len(values) < len(operands) - 1:
        return None
    return column.isin(pa.array([value.as_py() for value in values], values[0].type))


def _comparison(symbol: str, left: Expr, right: Expr) -> Any | None:
    if _column(left) is None:
        left, right, symbol = right, left, _MIRRORED.get(symbol, symbol)
    column, value = _column(left), _value(right)
    if column is None or value is None or symbol not in _COMPARISONS:
        return None
    return _COMPARISONS[symbol](column, value)


def _column(expr: Expr) -> Any | None:
    return pyarrow.dataset.field(expr.to_variant().name()) if expr.variant_name() == "Column" else None


def _value(expr: Expr) -> pa.Scalar | None:
    """A literal that pyarrow compares as the engine does.

    Floating point is left out: NaN and the two zeros are ordered by one and not by the other.
    """
    if expr.variant_name() != "Literal":
        return None
    value = expr.python_value()
    if not isinstance(value, pa.Scalar) or not value.is_valid or pa.types.is_nested(value.type):
        return None
    return None if pa.types.is_floating(value.type) else value
