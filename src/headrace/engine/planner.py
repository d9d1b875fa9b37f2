"""How a frame is planned: in which context, and what its optimised plan says about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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

# A bridged table is a view over a struct. The optimiser moves what takes the struct apart past joins and
# subqueries, and unions of it into one filter, and then finds its own columns no more.
_LEAF_PUSHDOWN = "datafusion.optimizer.enable_leaf_expression_pushdown"
_OVER_BRIDGES: Mapping[str, Any] = {
    _LEAF_PUSHDOWN: False,
    "datafusion.optimizer.enable_unions_to_filter": False,
}
# The filter that a hash join hands to the scan of its other side drops nulls, which decide NOT IN, INTERSECT and
# IS NOT DISTINCT FROM.
_OVER_NULLS_THAT_COUNT: Mapping[str, Any] = {"datafusion.optimizer.enable_join_dynamic_filter_pushdown": False}
# Filters above an outer join whose sides were swapped go into the wrong one.
_OVER_OUTER_JOINS: Mapping[str, Any] = {"datafusion.optimizer.join_reordering": False}
_FILTER_PUSHDOWN = "push_down_filter"
_LIVE: Mapping[str, Any] = {
    "datafusion.execution.batch_size": 1,
    "datafusion.execution.target_partitions": 1,
    "datafusion.optimizer.enable_round_robin_repartition": False,
}


@dataclass(frozen=True, slots=True)
class Query:
    """A frame, and how it must be planned.

    Attributes:
        frame: The frame.
        is_flat: Whether it scans bridged tables without their struct, so that no filter may be pushed into a scan.
    """

    frame: Any
    is_flat: bool = False


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A frame in the context that plans it.

    Attributes:
        context: That context.
        frame: The frame to execute or explain.
        optimised: Its optimised logical plan.
        schema: The schema of its result. Not the frame's own, which is from before types are coerced.
        bridged: The plan names of the bridged tables it scans, once per scan.
    """

    context: datafusion.SessionContext
    frame: Any
    optimised: Any
    schema: pa.Schema
    bridged: tuple[str, ...]

    @property
    def is_row_wise(self) -> bool:
        """Whether the query reads a bridged table, and looks at one row at a time."""
        return bool(self.bridged) and is_row_wise(self.optimised)


def plan_query(context: datafusion.SessionContext, query: Query) -> PlannedQuery:
    """Plan a query of ``context``; nothing is claimed or executed."""
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


def can_be_planned(context: datafusion.SessionContext, query: Query) -> bool:
    """Whether a physical plan of a query can be made; nothing is claimed or executed."""
    try:
        plan_query(context, query).frame.execution_plan()
    except Exception:  # noqa: BLE001 - datafusion raises bare Exceptions
        return False
    return True


def live_plan(query: PlannedQuery) -> Any:
    """A physical plan of the query in which no operator gathers rows.

    Operators fix how many rows they gather when the plan is made, sources when it is executed. So the plan is to be
    executed in the session's own context, where sources still read large batches.
    """
    live = _fork(query.context, _LIVE)
    return live.create_dataframe_from_logical_plan(query.frame.logical_plan()).execution_plan()


def creating_context(context: datafusion.SessionContext, logical: Any) -> datafusion.SessionContext:
    """The context for a statement that creates something, by its plan.

    Args:
        context: The session's.
        logical: The statement's plan, made in ``context``: every name in it was found there.
    """
    settings = _join_settings(logical, logical)
    if bridged_scans(logical):
        settings |= _OVER_BRIDGES
    if has_subquery(logical):
        settings |= _OVER_NULLS_THAT_COUNT
    return _fork(context, settings) if settings else context


def _context_over_bridges(context: datafusion.SessionContext, logical: Any) -> datafusion.SessionContext:
    """The context for a query over bridged tables.

    Raises:
        PlanError: The engine would answer it wrongly in any of them.
    """
    if not filters_fields_above_outer_join(logical):
        return _fork(context, _OVER_BRIDGES)
    # Above an outer join, a filter on a field may be applied to a column of the same name on the wrong side: unless the
    # field is taken out below the join, or no filter is there that could take it in.
    taking_out = _fork(context, {**_OVER_BRIDGES, _LEAF_PUSHDOWN: True})
    if _can_be_optimised(taking_out, logical):
        return taking_out
    if filters_below_outer_join(logical):
        raise PlanError(
            "The engine would answer a filter on a field of a struct above an outer join wrongly here.",
            hint="name the field in a subquery, and join that: (select id, s['a'] as s_a from t).",
        )
    filtering_above = _fork(context, _OVER_BRIDGES)
    filtering_above.remove_optimizer_rule(_FILTER_PUSHDOWN)
    return filtering_above


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
    """What a query's joins need, for the engine's answer to be right."""
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
    """A context with the same tables, functions, memory and settings, but for these."""
    # The one method that copies a context. The copy would also take a path for a table, so the SQL it is given was
    # planned in the original before.
    fork = context.enable_url_table()
    for key, value in settings.items():
        fork.sql(f"SET {key} = {value}")
    return fork
