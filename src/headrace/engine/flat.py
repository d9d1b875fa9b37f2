"""The tables of a context without the bridge's struct, for queries that the optimiser cannot plan over it.

The optimiser cannot take apart correlated subqueries inside one another where a table is a view, as a bridged one is.
Such a query is planned over datasets that have the tables' own columns. Filters then have to stay out of scans, of all
tables, so this is the second choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import datafusion

from headrace.engine.dataset import CATALOG, SCHEMA, TableDataset
from headrace.engine.names import TableName

# What a bridged table's frame is, and no view that a user made of one.
_BRIDGE = re.compile(rf"SubqueryAlias: .*\n  Projection: .*\n    TableScan: {CATALOG}\.{SCHEMA}\.(\S+)")


def flat_context(context: datafusion.SessionContext, bridged: Mapping[str, TableDataset]) -> datafusion.SessionContext:
    """A context to plan SQL in, with every table of ``context``.

    Args:
        context: The session's context.
        bridged: By their plan names, the bridged tables.
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
