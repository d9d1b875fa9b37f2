"""A context whose bridged tables have no struct, for queries that the optimiser cannot plan over the struct.

The optimiser cannot decorrelate nested correlated subqueries over a view, and a bridged table is a view. Such a query
is planned over datasets that have the tables' columns. No filter may then be pushed into any scan, so this is the
second choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import datafusion

from headrace.engine.dataset import CATALOG, SCHEMA, TableDataset
from headrace.engine.names import TableName

# The logical plan of a bridged table. A user's view over a bridged table does not match.
_BRIDGE = re.compile(rf"SubqueryAlias: .*\n  Projection: .*\n    TableScan: {CATALOG}\.{SCHEMA}\.(\S+)")


def flat_context(context: datafusion.SessionContext, bridged: Mapping[str, TableDataset]) -> datafusion.SessionContext:
    """Return a context with every table of ``context``, the bridged ones without their struct.

    Args:
        context: The session's context.
        bridged: The bridged tables by plan name.
    """
    flat = datafusion.SessionContext(context.copied_config())
    for catalog, schema, tables in _schemas(context):
        place = TableName((catalog, schema))
        if catalog not in flat.catalog_names():
            flat.sql(f"CREATE DATABASE {TableName((catalog,)).sql}")
        if schema not in flat.catalog(catalog).schema_names():
            flat.sql(f"CREATE SCHEMA {place.sql}")
        for name in tables.table_names():
            full_name = TableName((*place.parts, name)).sql
            match = _BRIDGE.fullmatch(context.table(full_name).logical_plan().display_indent().rstrip())
            dataset = None if match is None else bridged.get(match.group(1))
            flat.register_table(full_name, tables.table(name) if dataset is None else dataset.flat())
    return flat


def _schemas(context: datafusion.SessionContext) -> Iterator[tuple[str, str, Any]]:
    for catalog in context.catalog_names():
        for schema in context.catalog(catalog).schema_names():
            if schema != "information_schema":
                yield catalog, schema, context.catalog(catalog).schema(schema)
