"""How many rows the engine puts into a batch: more than by default where rows are narrow.

Each batch of a result is handed from thread to thread, which takes longer than computing a few thousand numbers. Rows
that may be wide keep the engine's default, so that batches stay small in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from headrace.arrow.sizes import BatchSizes
from headrace.engine.names import TableName
from headrace.engine.plan_facts import has_subquery, node_name

# DataFusion's own default.
ENGINE_BATCH_ROWS = 8192
_MOST_ROWS = 4 * ENGINE_BATCH_ROWS
_BATCH_BYTES = 256 * 1024
# Table functions that return one column of numbers or timestamps; they have no schema to look up.
_SERIES = frozenset({"generate_series()", "range()"})
_SERIES_SCHEMA = pa.schema([pa.field("value", pa.int64())])


def rows_that_fit(plan: Any, result: pa.Schema, schema_of: Callable[[TableName], pa.Schema | None]) -> int | None:
    """Return how many rows the batches of a query may have; None for the engine's default.

    Args:
        plan: The optimised logical plan.
        result: The schema of the result.
        schema_of: Returns the schema of a table, or None: the last step of a recursive query is a scan without one.
    """
    scans = [] if has_subquery(plan) else [_columns(scan, schema_of) for scan in _scans(plan)]
    if not scans or None in scans:
        return None
    # A row of a join has at most the columns of all its tables.
    read = [field for columns in scans for field in columns or ()]
    width, result_width = (BatchSizes(pa.schema(fields)).row_bytes for fields in (read, list(result)))
    if width is None or result_width is None:
        return None
    rows = min(_MOST_ROWS, int(_BATCH_BYTES / max(1.0, width, result_width)))
    return rows if rows > ENGINE_BATCH_ROWS else None


def _scans(plan: Any) -> Iterator[Any]:
    if node_name(plan) == "TableScan":
        yield plan.to_variant()
    for child in plan.inputs():
        yield from _scans(child)


def _columns(scan: Any, schema_of: Callable[[TableName], pa.Schema | None]) -> list[pa.Field] | None:
    catalog, schema, table = scan.fqn()
    names = [name for _, name in scan.projection()]
    if table in _SERIES:
        return [_SERIES_SCHEMA.field("value") for _ in names]
    columns = schema_of(TableName(tuple(part for part in (catalog, schema, table) if part)))
    return None if columns is None else [columns.field(name) for name in names]
