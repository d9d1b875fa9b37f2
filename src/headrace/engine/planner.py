"""Planning of a query in a context whose optimiser settings give correct results for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import datafusion
import pyarrow as pa

from headrace.engine.plan_facts import (
    bridged_scans,
    filters_below_outer_join,
    filters_fields_above_outer_join,
    has_anti_join,
    has_clashing_filters,
    has_outer_join,
    has_subquery,
    is_row_wise,
    joins_count_nulls,
)
from headrace.errors import PlanError

# A bridged table is a view over a struct. These rules move the field accesses of the view past joins and subqueries,
# or merge unions into one filter, and then fail to resolve the columns.
_LEAF_PUSHDOWN = "datafusion.optimizer.enable_leaf_expression_pushdown"
_OVER_BRIDGES: Mapping[str, Any] = {
    _LEAF_PUSHDOWN: False,
    "datafusion.optimizer.enable_unions_to_filter": False,
}
# The dynamic filter that a hash join pushes into the scan of its probe side drops nulls. NOT IN, INTERSECT and
# IS NOT DISTINCT FROM need them.
_OVER_NULLS_THAT_COUNT: Mapping[str, Any] = {"datafusion.optimizer.enable_join_dynamic_filter_pushdown": False}
# After join reordering swaps the sides of an outer join, filters above it are pushed into the wrong side.
_OVER_OUTER_JOINS: Mapping[str, Any] = {"datafusion.optimizer.join_reordering": False}
_FILTER_PUSHDOWN = "push_down_filter"
# No operator waits for more rows, and none deals the batches of one scan out to several others.
_LIVE: Mapping[str, Any] = {
    "datafusion.execution.batch_size": 1,
    "datafusion.execution.target_partitions": 1,
    "datafusion.optimizer.enable_round_robin_repartition": False,
}


@dataclass(frozen=True, slots=True)
class Query:
    """A datafusion frame, and how it must be planned.

    Attributes:
        frame: The datafusion frame.
        is_flat: Whether it scans bridged tables without their struct. No filter may then be pushed into a scan.
    """

    frame: Any
    is_flat: bool = False


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A query in the context that plans it.

    Attributes:
        context: The context.
        frame: The datafusion frame to execute or explain.
        optimised: The optimised logical plan.
        schema: The schema of the result, after type coercion; ``frame.schema()`` is from before it.
        bridged: The plan name of the table of each bridged scan.
    """

    context: datafusion.SessionContext
    frame: Any
    optimised: Any
    schema: pa.Schema
    bridged: tuple[str, ...]

    @property
    def is_row_wise(self) -> bool:
        """Whether the query reads a bridged table and computes each row of the result from one row."""
        return bool(self.bridged) and is_row_wise(self.optimised)


def plan_query(context: datafusion.SessionContext, query: Query) -> PlannedQuery:
    """Plan a query of ``context``; claims and executes nothing."""
    logical = query.frame.logical_plan()
    bridged = tuple(bridged_scans(logical))
    if query.is_flat:
        context = _flat_context(context, logical)
    elif bridged:
        context = _context_over_bridges(context, logical)
    planned = _planned(context, logical, bridged)
    joins = _join_settings(logical, planned.optimised)
    if joins:
        context = _fork(context, joins)
        planned = _planned(context, logical, bridged)
    if bridged and has_clashing_filters(planned.optimised):
        context.remove_optimizer_rule(_FILTER_PUSHDOWN)
        planned = _planned(context, logical, bridged)
    return planned


def with_batch_rows(query: PlannedQuery, rows: int) -> PlannedQuery:
    """Return the query in a context in which the engine's batches have up to this many rows."""
    context = _fork(query.context, {"datafusion.execution.batch_size": rows})
    return replace(query, context=context, frame=context.create_dataframe_from_logical_plan(query.frame.logical_plan()))


def can_be_planned(context: datafusion.SessionContext, query: Query) -> bool:
    """Whether the engine can create a physical plan of a query; claims and executes nothing."""
    try:
        plan_query(context, query).frame.execution_plan()
    except Exception:  # noqa: BLE001 - datafusion raises bare Exceptions
        return False
    return True


def live_plan(query: PlannedQuery) -> Any:
    """Return a physical plan of a row-wise query in which no operator waits for more rows, with the scans' order.

    Operators take their batch size when the plan is created; sources take theirs when it is executed. Execute the
    plan in the session's context, where sources still read large batches.
    """
    live = _fork(query.context, _LIVE)
    return live.create_dataframe_from_logical_plan(query.frame.logical_plan()).execution_plan()


def creating_context(context: datafusion.SessionContext, logical: Any) -> datafusion.SessionContext:
    """Return the context for a CREATE statement.

    Args:
        context: The session's context.
        logical: The statement's logical plan, created in ``context``, so every name in it resolves there.
    """
    settings = _join_settings(logical, logical)
    if bridged_scans(logical):
        settings |= _OVER_BRIDGES
    if has_subquery(logical):
        settings |= _OVER_NULLS_THAT_COUNT
    return _fork(context, settings) if settings else context


def _context_over_bridges(context: datafusion.SessionContext, logical: Any) -> datafusion.SessionContext:
    """Return the context for a query over bridged tables.

    Raises:
        PlanError: The engine would return wrong rows with any settings.
    """
    if not filters_fields_above_outer_join(logical):
        return _fork(context, _OVER_BRIDGES)
    # The engine may push a filter on a field above an outer join to a column of the same name on the wrong side. It
    # does not if the field access is below the join, or if filters are not pushed down.
    fields_below_join = _fork(context, {**_OVER_BRIDGES, _LEAF_PUSHDOWN: True})
    if _can_be_optimised(fields_below_join, logical):
        return fields_below_join
    if filters_below_outer_join(logical):
        raise PlanError(
            "The engine would return wrong rows for a filter on a field of a struct above an outer join in this query.",
            hint="name the field in a subquery and join the subquery: (select id, s['a'] as s_a from t).",
        )
    no_filter_pushdown = _fork(context, _OVER_BRIDGES)
    no_filter_pushdown.remove_optimizer_rule(_FILTER_PUSHDOWN)
    return no_filter_pushdown


def _flat_context(context: datafusion.SessionContext, logical: Any) -> datafusion.SessionContext:
    settings: tuple[Mapping[str, Any], ...] = ({}, _OVER_BRIDGES)
    forks = [_fork(context, each) for each in settings]
    for fork in forks:
        fork.remove_optimizer_rule(_FILTER_PUSHDOWN)
    return next((fork for fork in forks if _can_be_optimised(fork, logical)), forks[0])


def _can_be_optimised(context: datafusion.SessionContext, logical: Any) -> bool:
    try:
        context.create_dataframe_from_logical_plan(logical).optimized_logical_plan()
    except Exception:  # noqa: BLE001 - datafusion raises bare Exceptions
        return False
    return True


def _join_settings(logical: Any, optimised: Any) -> dict[str, Any]:
    """Return the settings that the joins of a query need for a correct result."""
    settings: dict[str, Any] = {}
    if joins_count_nulls(logical) or has_anti_join(optimised):
        settings |= _OVER_NULLS_THAT_COUNT
    if has_outer_join(optimised):
        settings |= _OVER_OUTER_JOINS
    return settings


def _planned(context: datafusion.SessionContext, logical: Any, bridged: tuple[str, ...]) -> PlannedQuery:
    frame = context.create_dataframe_from_logical_plan(logical)
    optimised = frame.optimized_logical_plan()
    schema = context.create_dataframe_from_logical_plan(optimised).schema()
    return PlannedQuery(context, frame, optimised, schema, bridged)


def _fork(context: datafusion.SessionContext, settings: Mapping[str, Any]) -> datafusion.SessionContext:
    """Return a context with the same tables, functions and memory pool, and these settings changed."""
    # The only method that copies a context. The copy also resolves file paths as tables, so it is only given plans
    # and statements that were planned in the original.
    fork = context.enable_url_table()
    for key, value in settings.items():
        fork.sql(f"SET {key} = {value}")
    return fork
