"""The DataFusion contexts behind one session: tables are registered here, and queries planned and executed.

A Python table is registered as a view that selects each field of the bridge's struct. DataFusion pushes a filter on
a top-level column into a pyarrow dataset and treats it as applied. pyarrow's semantics of NOT IN, NaN and string views
are not SQL's, so the result would be wrong. A filter on a field of a struct stays in the plan, where DataFusion
applies it.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import datafusion
import pyarrow as pa
from datafusion import RuntimeEnvBuilder, SessionConfig, SQLOptions

from headrace.engine.batch_rows import ENGINE_BATCH_ROWS, rows_that_fit
from headrace.engine.dataset import CATALOG, ROW, SCHEMA, TableDataset
from headrace.engine.errors import message_of, translate, unwrapped
from headrace.engine.execution import Execution, Hint, ScanRules, planning
from headrace.engine.flat import flat_context
from headrace.engine.gone import call_when_gone
from headrace.engine.hints import scan_hints
from headrace.engine.names import TableName, quoted
from headrace.engine.plan_facts import (
    bridged_scans,
    depends_on_scan_order,
    has_nested_lateral,
    is_correlated,
    scans,
)
from headrace.engine.planner import (
    PlannedQuery,
    Query,
    can_be_planned,
    creating_context,
    live_plan,
    plan_query,
    with_batch_rows,
)
from headrace.engine.runtime import workers
from headrace.engine.scan import GATHER_ROWS
from headrace.engine.settings import Settings
from headrace.engine.shutdown import register_exit_hook
from headrace.engine.tables import ScanTable
from headrace.errors import ConfigurationError, PlanError, StorageError

# Registers a table that DataFusion implements, under a quoted name.
Register = Callable[[datafusion.SessionContext, str], None]

_CREATES = re.compile(r"\bcreate\b", re.IGNORECASE)


class Engine:
    """The engine behind one session.

    The first engine of a process starts the worker threads and registers the exit hook; importing does neither.
    """

    def __init__(self, settings: Settings) -> None:
        register_exit_hook()
        workers.start(lambda: datafusion.SessionContext().sql("select 1").collect())
        self._settings = settings
        self._context = datafusion.SessionContext(_config(settings), _runtime_environment(settings))
        _configure(self._context, settings)
        # Bridged tables are registered in this context, so that the user's context has only the views.
        self._tables = datafusion.SessionContext(SessionConfig().with_default_catalog_and_schema(CATALOG, SCHEMA))
        # Not a WeakValueDictionary: its Python callbacks would run where the engine frees a table.
        self._bridges: dict[str, weakref.ref[TableDataset]] = {}
        self._numbers = count(2)
        # With more partitions the engine buffers more batches between operators, so make them smaller.
        self._partitions = settings.partitions
        self._slice_rows = max(ENGINE_BATCH_ROWS, min(GATHER_ROWS, 4 * GATHER_ROWS // self._partitions))
        self._paths: dict[TableName, Path] = {}

    # -- tables -------------------------------------------------------------------------------------

    def add_table(
        self, name: TableName, table: ScanTable, *, wants_hints: bool, when_gone: Callable[[], None] | None = None
    ) -> None:
        """Register a Python table.

        Args:
            name: The table's name in queries.
            table: The table.
            wants_hints: Whether the provider uses the hints of a scan.
            when_gone: Called when no plan can read the table any more, for example after DROP TABLE.
        """
        with translating(planning=True):
            plan_name = self._plan_name(name)
            dataset = TableDataset(table, plan_name, hinted=table.schema if wants_hints else None)
            self._tables.register_table(quoted(plan_name), dataset)
            row = datafusion.col(ROW)
            columns = [row[column].alias(column) for column in table.schema.names]
            view = self._tables.table(TableName((CATALOG, SCHEMA, plan_name)).sql).select(*columns).into_view()
            # From here on only plans refer to the dataset, so it is freed with the last of them.
            self._tables.deregister_table(quoted(plan_name))
            self._context.register_table(name.sql, view)
            self._bridges[plan_name] = weakref.ref(dataset)
        if when_gone is not None:
            call_when_gone(dataset, when_gone)

    def add_native(self, name: TableName, register: Register, path: Path | None = None) -> None:
        """Register a table that DataFusion or a DataFusion extension implements.

        Args:
            name: The table's name in queries.
            register: Registers the table in a DataFusion context.
            path: The local file or folder that the table reads. Planning checks that it exists, since the engine
                reads a missing one as an empty table.
        """
        with translating(planning=True):
            register(self._context, name.sql)
        self._paths.pop(self.resolved(name), None)
        if path is not None:
            self._paths[self.resolved(name)] = path

    def resolved(self, name: TableName) -> TableName:
        """Return the full name, with the default catalog and schema where it has none."""
        return name.resolved(*self._settings.default_place)

    def has_table(self, name: TableName) -> bool:
        """Whether a query can name this table.

        Raises:
            PlanError: There is no such schema or catalog.
        """
        with translating(planning=True):
            return bool(self._context.table_exist(name.sql))

    def remove_table(self, name: TableName) -> None:
        """Deregister a table; later queries cannot name it."""
        with translating(planning=True):
            self._context.deregister_table(name.sql)

    def remove_all_tables(self) -> None:
        """Deregister every table.

        A provider may refer to its session. That reference cycle runs through the engine, where the garbage collector
        cannot break it.
        """
        with translating(planning=True):
            catalogs = [self._context.catalog(name) for name in self._context.catalog_names()]
            for schema in [catalog.schema(name) for catalog in catalogs for name in catalog.schema_names()]:
                for name in schema.table_names():
                    schema.deregister_table(name)

    def _plan_name(self, name: TableName) -> str:
        # Older frames may still read a table that was deregistered, so a reused name gets a new plan name.
        plain = re.sub(r"\W", "_", str(name).lower())
        bridged = self._bridged()
        for gone in self._bridges.keys() - bridged.keys():
            del self._bridges[gone]
        if plain not in bridged:
            return plain
        return f"{plain}_{next(self._numbers)}"

    def _bridged(self) -> dict[str, TableDataset]:
        """Return the bridged tables that a plan still refers to, by plan name."""
        bridges = list(self._bridges.items())
        return {name: dataset for name, bridge in bridges if (dataset := bridge()) is not None}

    # -- queries ------------------------------------------------------------------------------------

    def sql(self, text: str, parameters: Mapping[str, Any], *, read_only: bool, execution: Execution) -> Query:
        """Plan a statement; DDL is executed in this call and reads the tables that it names."""
        options = SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)
        execution.begin()
        with planning(execution, execution.rules), translating(execution, planning=True):
            if read_only:
                query = Query(self._context.sql(text, options, param_values=dict(parameters)))
            else:
                context = self._context if _CREATES.search(text) is None else self._creating_context(text, parameters)
                query = Query(context.sql(text, param_values=dict(parameters)))
        with translating(planning=True):
            return self._flattened(text, parameters) if self._misleads_optimiser(query) else query

    def table(self, name: TableName) -> Query:
        """Return a query for all rows of a table."""
        with translating(planning=True):
            return Query(self._context.table(name.sql))

    def plan(self, query: Query) -> PlannedQuery:
        """Plan a query for execution; claims and executes nothing.

        Raises:
            PlanError: The query cannot be planned.
            StorageError: A file that it reads does not exist any more.
        """
        with translating(planning=True):
            self._require_paths(query.frame.logical_plan())
            planned = plan_query(self._context, query)
            rows = self._batch_rows(planned)
            return planned if rows is None else with_batch_rows(planned, rows)

    def explain(self, query: Query) -> str:
        """Return the optimised and the physical plan as text; claims and executes nothing."""
        with translating(planning=True):
            planned = plan_query(self._context, query)
            logical = planned.optimised.display_indent()
            with planning(None, self._rules(planned)):
                plan = live_plan(planned) if planned.is_row_wise else planned.frame.execution_plan()
            physical = plan.display_indent()
        return f"logical_plan\n{logical.rstrip()}\n\nphysical_plan\n{physical.rstrip()}"

    def schema(self, query: Query) -> pa.Schema:
        """Return the schema of a query's result."""
        with translating(planning=True):
            return plan_query(self._context, query).schema

    def execution(
        self, query: PlannedQuery | None, on_end: Callable[[Execution], None], *, partitioned: bool = False
    ) -> Execution:
        """Return a new execution of a query."""
        hints: Mapping[str, Hint] = {}
        schemas = {name: dataset.hinted for name, dataset in self._bridged().items() if dataset.hinted is not None}
        if query is not None and schemas:
            with translating(planning=True):
                hints = scan_hints(query.optimised, schemas)
        return Execution(hints, self._rules(query, partitioned=partitioned), on_end)

    def streams(self, query: PlannedQuery, execution: Execution, *, partitioned: bool) -> list[Any]:
        """Start an execution; return one stream per partition, or one that merges them."""
        frame = query.frame
        with translating(execution, planning=True):
            if type(frame.logical_plan().to_variant()).__name__ == "Explain":
                return [frame.execute_stream().rbs]
            with planning(execution, execution.rules):
                if query.is_row_wise:
                    plan = live_plan(query)
                    streams = [self._context.execute(plan, partition) for partition in range(plan.partition_count)]
                else:
                    streams = frame.execute_stream_partitioned() if partitioned else [frame.execute_stream()]
                # `rbs` is the stream without its Python wrapper, which would add a frame between pump and engine.
                return [stream.rbs for stream in streams]

    def _rules(self, query: PlannedQuery | None, *, partitioned: bool = False) -> ScanRules:
        """Return how the engine reads the tables of a query; None is a statement that creates a table."""
        limited = self._settings.memory_limit is not None
        return ScanRules(
            max_rows=self._settings.batch_size or (ENGINE_BATCH_ROWS if limited else self._slice_rows),
            exact_sizes=limited,
            shares=1 if query is None else self._shares(query, partitioned=partitioned),
            is_live=query is not None and query.is_row_wise,
        )

    def _batch_rows(self, query: PlannedQuery) -> int | None:
        if query.bridged or not self._settings.has_free_batch_rows:
            return None

        def schema_of(name: TableName) -> pa.Schema | None:
            return self._context.table(name.sql).schema() if self._context.table_exist(name.sql) else None

        return rows_that_fit(query.optimised, query.schema, schema_of)

    def _shares(self, query: PlannedQuery, *, partitioned: bool) -> int:
        """Return among how many scans the batches of each table may be shared, which gives up their order."""
        if query.is_row_wise and not partitioned:
            is_ordered = self._settings.ordered
        else:
            # The readers of separate partitions have no common order to keep.
            is_ordered = depends_on_scan_order(query.optimised)
        return 1 if is_ordered else min(self._partitions, workers.spare(len(query.bridged)))

    @staticmethod
    def free_dropped() -> None:
        """Free the Python objects that the engine has dropped.

        A thread without the GIL cannot free them. PyO3 frees them in the next thread that calls the engine.
        """
        SQLOptions()

    def _creating_context(self, query: str, parameters: Mapping[str, Any]) -> datafusion.SessionContext:
        """Return the context for a statement that may create a table from rows, which it reads immediately."""
        try:
            plan = self._context.sql(f"EXPLAIN {query}", param_values=dict(parameters)).logical_plan()
        except Exception:  # noqa: BLE001 - executing the statement raises the same error
            return self._context
        self._require_paths(plan)
        _require_no_nested_lateral(plan)
        return creating_context(self._context, plan)

    def _misleads_optimiser(self, query: Query) -> bool:
        """Whether the optimiser would drop conditions of the query, or fail, because bridged tables are views."""
        plan = query.frame.logical_plan()
        if not is_correlated(plan) or not bridged_scans(plan):
            return False
        return has_nested_lateral(plan) or not can_be_planned(self._context, query)

    def _flattened(self, text: str, parameters: Mapping[str, Any]) -> Query:
        flat = flat_context(self._context, self._bridged())
        query = Query(flat.sql(text, param_values=dict(parameters)), is_flat=True)
        _require_no_nested_lateral(query.frame.logical_plan())
        return query

    def _require_paths(self, plan: Any) -> None:
        for name, path in self._paths.items():
            if not scans(plan, name):
                continue
            try:
                path.stat()
            except OSError as error:
                raise StorageError(
                    f"Table {name.parts[-1]!r}: {str(path)!r} cannot be read any more: {error.strerror}.",
                    hint="restore it, or deregister the table.",
                ) from error


def _require_no_nested_lateral(plan: Any) -> None:
    if has_nested_lateral(plan) and bridged_scans(plan):
        raise PlanError(
            "The engine would return wrong rows for a LATERAL subquery that contains another subquery, in a statement "
            "that creates a table or view from Python tables, and in a view over them.",
            hint="run the SELECT by itself, with the names of the tables in it.",
        )


@contextmanager
def translating(execution: Execution | None = None, *, planning: bool = False) -> Iterator[None]:
    """Translate exceptions of the engine into headrace errors."""
    try:
        yield
    except BaseException as error:  # noqa: BLE001 - an engine panic is not an Exception
        ours = translate(error, execution, planning=planning)
        raise ours from (ours.__cause__ if ours is not error else error.__cause__)


def _config(settings: Settings) -> SessionConfig:
    config = SessionConfig().with_information_schema(True)
    if settings.target_partitions is not None:
        config = config.with_target_partitions(settings.target_partitions)
    if settings.batch_size is not None:
        config = config.with_batch_size(settings.batch_size)
    return config


def _configure(context: datafusion.SessionContext, settings: Settings) -> None:
    for key, value in settings.config.items():
        escaped = value.replace("'", "''")
        try:
            context.sql(f"SET {key} = '{escaped}'")
        except Exception as error:
            raise ConfigurationError(
                f"The engine refuses the setting {key!r} with the value {value!r}: {unwrapped(message_of(error))}",
                hint="SHOW ALL lists the engine's settings.",
            ) from error


def _runtime_environment(settings: Settings) -> RuntimeEnvBuilder:
    runtime = RuntimeEnvBuilder()
    if settings.memory_limit is not None:
        runtime = runtime.with_fair_spill_pool(settings.memory_limit)
    if settings.spill is False:
        return runtime.with_disk_manager_disabled()
    return (
        runtime.with_disk_manager_os()
        if settings.spill is True
        else runtime.with_disk_manager_specified(settings.spill)
    )
