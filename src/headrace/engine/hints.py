"""Scan hints from a logical plan: the columns that are read, and the filter and limit above each scan.

Hints are optional. The filter stays in the plan, so a condition without an exact pyarrow equivalent is left out of the
hint, and a provider may ignore the hint.
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

from headrace.engine.dataset import CATALOG, ROW, SCHEMA
from headrace.engine.execution import Hint
from headrace.engine.plan_facts import bridged_scans, node_name

_COMPARISONS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
# A scan, and the projection above it that selects whole columns, in the text of a plan.
_COLUMN = rf'get_field\({CATALOG}\.{SCHEMA}\.\w+\.{ROW}, Utf8\("(\w+)"\)\) AS \w+'
_COLUMNS_OF_SCAN = re.compile(
    rf"^( *)Projection: ({_COLUMN}(?:, {_COLUMN})*)\n\1  TableScan: {CATALOG}\.{SCHEMA}\.(\w+) projection=\[{ROW}\]$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class _Scan:
    """A scan of a bridged table, with the filter and limit directly above it.

    Attributes:
        table: The table's plan name.
        read: The columns that are read, entirely or only some of their fields.
        columns: The columns that are read entirely, by their names in the plan.
        predicate: The filter above the scan, or None.
        limit: The number of rows that are enough, or None.
    """

    table: str
    read: frozenset[str]
    columns: Mapping[str, str]
    predicate: Any | None
    limit: int | None


def scan_hints(plan: Any, schemas: Mapping[str, pa.Schema]) -> dict[str, Hint]:
    """Return the scan hints of an optimised logical plan, by plan name.

    During execution the scans of one table cannot be distinguished. All of them get the same hint: the union of their
    columns, and a filter and limit only if all scans have the same.

    Args:
        plan: The optimised logical plan.
        schemas: The schemas of the tables that use hints, by plan name.
    """
    understood: dict[str, list[_Scan]] = {}
    for scan in _scans(plan, None):
        understood.setdefault(scan.table, []).append(scan)
    scanned = bridged_scans(plan)
    hints = {}
    for table in schemas.keys() & scanned:
        scans = understood.get(table, [])
        if scanned.count(table) == len(scans):
            hints[table] = _hint(scans, schemas[table])
        elif columns := _columns_in_text(plan.display_indent(), table, scanned.count(table)):
            hints[table] = Hint(tuple(name for name in schemas[table].names if name in columns))
    return hints


def _columns_in_text(text: str, table: str, count: int) -> set[str]:
    """Return the columns that all scans of a table read; none if the text does not say it for each of them.

    A scan in a scalar subquery is in the text only: datafusion gives no access to the plan of a subquery.
    """
    found = [match[2] for match in _COLUMNS_OF_SCAN.finditer(text) if match[5] == table]
    return {column for columns in found for column in re.findall(_COLUMN, columns)} if len(found) == count else set()


def _hint(scans: list[_Scan], schema: pa.Schema) -> Hint:
    read = frozenset[str]().union(*(scan.read for scan in scans))
    columns = tuple(name for name in schema.names if name in read)
    each = [Hint(columns, _filter(scan, schema), scan.limit) for scan in scans]
    return each[0] if all(_alike(each[0], hint) for hint in each) else Hint(columns)


def _alike(left: Hint, right: Hint) -> bool:
    if left.filter is None or right.filter is None:
        return left.filter is right.filter and left.limit == right.limit
    # Do not compare the texts: they abbreviate long lists.
    return left.limit == right.limit and bool(left.filter.equals(right.filter))


def _filter(scan: _Scan, schema: pa.Schema) -> Any | None:
    return None if scan.predicate is None else _Predicate(scan.columns, schema).convert_all(Expr(scan.predicate))


def _scans(plan: Any, predicate: Any | None) -> Iterator[_Scan]:
    """Yield the scans below a node; ``predicate`` is the filter directly above the node, or None."""
    name = node_name(plan)
    inputs = plan.inputs()
    if name == "TableScan":
        # No projection reads a field of the struct: the query only counts rows.
        scan = plan.to_variant()
        table = _bridged_name(scan)
        if table is not None and not scan.projection():
            yield _Scan(table, frozenset(), {}, None, scan.fetch())
        return
    scan = _scan_below(inputs[0]) if name == "Projection" else None
    if scan is not None:
        # A filter above a LIMIT or OFFSET must not change which rows the LIMIT counts.
        predicate = predicate if node_name(inputs[0]) == "TableScan" and scan.fetch() is None else None
        table = _bridged_name(scan)
        paths = _field_paths(plan.to_variant().projections())
        if table is not None and paths is not None:
            read = frozenset(path[0] for _, path in paths)
            yield _Scan(table, read, _whole_columns(paths), predicate, scan.fetch())
        return
    for child in inputs:
        yield from _scans(child, plan.to_variant().predicate() if name == "Filter" else None)


def _scan_below(plan: Any) -> Any | None:
    """Return the scan that is ``plan`` or is below its LIMIT nodes; the scan's fetch includes those limits."""
    while node_name(plan) == "Limit":
        (plan,) = plan.inputs()
    return plan.to_variant() if node_name(plan) == "TableScan" else None


def _bridged_name(scan: Any) -> str | None:
    """Return the plan name of the table that a scan reads, or None if the table is not bridged."""
    *place, name = scan.fqn()
    return str(name) if place == [CATALOG, SCHEMA] else None


def _field_paths(projections: list[Any]) -> list[tuple[str, tuple[str, ...]]] | None:
    """Return the struct fields that a projection selects, with their names; None if it does anything else."""
    paths = []
    for expr in map(Expr, projections):
        is_alias = expr.variant_name() == "Alias"
        path = _field_path(expr.rex_call_operands()[0] if is_alias else expr)
        if not path:
            return None
        paths.append((expr.to_variant().alias() if is_alias else expr.schema_name(), path))
    return paths


def _field_path(expr: Expr) -> tuple[str, ...] | None:
    """Return the path from the struct to a field; None if the expression is not a field of the struct."""
    if expr.variant_name() == "Column":
        return () if expr.to_variant().name() == ROW else None
    if expr.variant_name() != "ScalarFunction" or expr.rex_call_operator() != "get_field":
        return None
    source, *fields = expr.rex_call_operands()
    path = _field_path(source)
    names = [field.python_value() if field.variant_name() == "Literal" else None for field in fields]
    texts = [name.as_py() for name in names if isinstance(name, pa.Scalar)]
    if path is None or len(texts) < len(fields) or not all(isinstance(text, str) for text in texts):
        return None
    return path + tuple(texts)


def _whole_columns(paths: list[tuple[str, tuple[str, ...]]]) -> dict[str, str]:
    """Return the columns that are selected entirely, by name; an ambiguous name is left out."""
    names = [name for name, _ in paths]
    return {name: path[0] for name, path in paths if len(path) == 1 and names.count(name) == 1}


class _Predicate:
    """Converts conditions on a table's columns to pyarrow expressions.

    Args:
        columns: The table's columns by their names in the plan.
        schema: The table's schema.
    """

    def __init__(self, columns: Mapping[str, str], schema: pa.Schema) -> None:
        self._columns = columns
        self._schema = schema

    def convert_all(self, expr: Expr) -> Any | None:
        """Convert the parts of a conjunction that have an equivalent; return None if no part has one."""
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
    """Whether pyarrow compares values of a type exactly as the engine does.

    Floating point types are excluded: the engine orders NaN and distinguishes the two zeros, pyarrow does not.
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
