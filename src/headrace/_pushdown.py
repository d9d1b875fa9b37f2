"""What a plan lets a provider leave out: columns, and rows by the filter and the limit above each scan.

All of it is a hint. The filter stays in the plan too, so what cannot be said as a pyarrow expression with the
engine's exact meaning is simply not said, and a provider that ignores the rest is still right.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.dataset
from datafusion import Expr

from headrace._execution import Hint

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


_SCAN = re.compile(r"^ *TableScan: (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Scan:
    """A scan of one of our tables: the columns taken out of its struct, and what stands right above."""

    table: str
    columns: Mapping[str, str]
    predicate: Any | None
    limit: int | None


def scan_hints(plan: Any, schemas: Mapping[str, pa.Schema]) -> dict[str, Hint]:
    """The hints of an optimised logical plan, by the plan names of the tables it scans.

    Which scan of a table is which cannot be told when the plan is run, so all scans of a table get the same: the
    columns of all of them, and filter and limit only where they agree.

    Args:
        plan: The plan.
        schemas: By plan name, the schemas of the tables that can use a hint.
    """
    understood: dict[str, list[_Scan]] = {}
    for scan in _scans(plan, None):
        understood.setdefault(scan.table, []).append(scan)
    scanned = scanned_tables(plan)
    return {
        table: _hint(scans, schemas[table])
        for table, scans in understood.items()
        if table in schemas and scanned.count(table) == len(scans)
    }


def _hint(scans: list[_Scan], schema: pa.Schema) -> Hint:
    read = {column for scan in scans for column in scan.columns.values()}
    columns = tuple(name for name in schema.names if name in read)
    each = [Hint(columns, _filter(scan, schema), scan.limit) for scan in scans]
    return each[0] if all(_alike(each[0], hint) for hint in each) else Hint(columns)


def _alike(left: Hint, right: Hint) -> bool:
    if left.filter is None or right.filter is None:
        return left.filter is right.filter and left.limit == right.limit
    # Not by their texts, which leave out the middle of a long list.
    return left.limit == right.limit and bool(left.filter.equals(right.filter))


def _filter(scan: _Scan, schema: pa.Schema) -> Any | None:
    return None if scan.predicate is None else _Predicate(scan.columns, schema).convert_all(Expr(scan.predicate))


def scanned_tables(plan: Any) -> list[str]:
    """The names of all tables a logical plan scans, those in subqueries included, once per scan."""
    return _SCAN.findall(plan.display_indent())


def is_row_wise(plan: Any) -> bool:
    """Whether every row of the result comes from one row of a scan, independently of all others."""
    return "Subquery:" not in plan.display_indent() and _is_row_wise(plan)


def _is_row_wise(plan: Any) -> bool:
    return _node_name(plan) in _ROW_WISE and all(_is_row_wise(child) for child in plan.inputs())


def _node_name(plan: Any) -> str:
    try:
        return type(plan.to_variant()).__name__
    except Exception:  # noqa: BLE001 - datafusion raises a bare Exception for nodes it does not wrap
        return "unknown"


def _scans(plan: Any, predicate: Any | None) -> Iterator[_Scan]:
    """The scans below a node that stands under a filter with this predicate, or under none."""
    name = _node_name(plan)
    inputs = plan.inputs()
    if name == "TableScan":
        # Nothing is taken out of the struct: only the number of rows counts.
        scan = plan.to_variant()
        if not scan.projection():
            yield _Scan(scan.table_name(), {}, None, scan.fetch())
        return
    if name == "Projection" and len(inputs) == 1 and _node_name(inputs[0]) == "TableScan":
        columns = _taken_apart(plan.to_variant().projections())
        if columns is not None:
            scan = inputs[0].to_variant()
            yield _Scan(scan.table_name(), columns, predicate, scan.fetch())
        return
    for child in inputs:
        yield from _scans(child, plan.to_variant().predicate() if name == "Filter" else None)


def _taken_apart(projections: list[Any]) -> dict[str, str] | None:
    """The struct's fields by the names a projection gives them; None if it does anything else."""
    columns = {}
    for expr in map(Expr, projections):
        source = expr.rex_call_operands()[0] if expr.variant_name() == "Alias" else expr
        if source.variant_name() != "ScalarFunction" or source.rex_call_operator() != "get_field":
            return None
        field = source.rex_call_operands()[1].python_value()
        columns[expr.to_variant().alias() if expr.variant_name() == "Alias" else expr.schema_name()] = field.as_py()
    return columns


class _Predicate:
    """Conditions on a table's columns, as far as they can be said in pyarrow.

    Args:
        columns: The table's columns by the names the plan has for them.
        schema: The table's schema.
    """

    def __init__(self, columns: Mapping[str, str], schema: pa.Schema) -> None:
        self._columns = columns
        self._schema = schema

    def convert_all(self, expr: Expr) -> Any | None:
        """Of conditions joined by AND, those that convert; None if none does."""
        parts = [converted for part in _conjuncts(expr) if (converted := self._convert(part)) is not None]
        return reduce(operator.and_, parts) if parts else None

    def _convert(self, expr: Expr) -> Any | None:
        kind = expr.variant_name()
        if kind not in {"BinaryExpr", "IsNull", "IsNotNull", "InList"}:
            return None
        operands = expr.rex_call_operands()
        if kind == "BinaryExpr":
            return self._binary(expr.rex_call_operator(), *operands)
        column = self._column(operands[0])
        if column is None:
            return None
        if kind == "IsNull":
            return pyarrow.dataset.field(column).is_null()
        if kind == "IsNotNull":
            return pyarrow.dataset.field(column).is_valid()
        values = [self._value(operand, column) for operand in operands[1:]]
        if expr.to_variant().negated() or any(value is None for value in values):
            return None
        return pyarrow.dataset.field(column).isin(pa.array(values, self._schema.field(column).type))

    def _binary(self, symbol: str, left: Expr, right: Expr) -> Any | None:
        if symbol in {"AND", "OR"}:
            sides = self._convert(left), self._convert(right)
            if sides[0] is None or sides[1] is None:
                return None
            return sides[0] & sides[1] if symbol == "AND" else sides[0] | sides[1]
        if self._column(left) is None:
            left, right, symbol = right, left, _MIRRORED.get(symbol, symbol)
        column = self._column(left)
        value = None if column is None else self._value(right, column)
        if value is None or symbol not in _COMPARISONS:
            return None
        return _COMPARISONS[symbol](pyarrow.dataset.field(column), value)

    def _column(self, expr: Expr) -> str | None:
        column = self._columns.get(expr.to_variant().name()) if expr.variant_name() == "Column" else None
        return column if column is not None and _compares_alike(self._schema.field(column).type) else None

    def _value(self, expr: Expr, column: str) -> pa.Scalar | None:
        value = expr.python_value() if expr.variant_name() == "Literal" else None
        fits = isinstance(value, pa.Scalar) and value.is_valid and value.type == self._schema.field(column).type
        return value if fits else None


def _conjuncts(expr: Expr) -> Iterator[Expr]:
    if expr.variant_name() == "BinaryExpr" and expr.rex_call_operator() == "AND":
        for operand in expr.rex_call_operands():
            yield from _conjuncts(operand)
    else:
        yield expr


def _compares_alike(kind: pa.DataType) -> bool:
    """Whether pyarrow compares values of a type, and just as the engine does.

    Floating point is not among them: NaN and the two zeros are ordered by one and not by the other.
    """
    types = pa.types
    return (
        types.is_integer(kind)
        or types.is_boolean(kind)
        or types.is_date(kind)
        or types.is_timestamp(kind)
        or types.is_decimal128(kind)
        or kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    )
