"""Plain DataFusion: what a query over the tables should give."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import datafusion
import pyarrow as pa

import headrace
from support.differential.tables import Table, quoted

_SCAN = re.compile(r"^ *TableScan: (.+?)(?= projection=| *$|,)", re.MULTILINE)

_SORT = re.compile(r"^ *Sort: .*", re.MULTILINE)
_SORT_KEY = re.compile(r" (?:ASC|DESC) NULLS ")
_TOP_ROWS = re.compile(r"SortPreservingMergeExec: \[(.*)\], fetch=.*\n *SortExec: TopK\(.*?\), expr=\[(.*)\]")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a query: batches of a schema, or a refusal.

    Attributes:
        schema: Names, types and nullability of the rows.
        batches: The rows.
        refusal: What was raised instead.
        certain: Which columns are not null whatever the optimizer finds out: those, a schema must say so of.
    """

    schema: pa.Schema | None
    batches: tuple[pa.RecordBatch, ...]
    refusal: BaseException | None = None
    certain: tuple[bool, ...] = ()


class Plain:
    """DataFusion over tables in memory, with what it answered.

    Args:
        tables: The tables.
        target_partitions: As the session has it.
        batch_size: As the session has it.
        register: Registers a table under a quoted name; by default, its batches.
        reorders: Whether the sides of joins may be swapped, as by default.
    """

    def __init__(
        self,
        tables: Iterable[Table],
        *,
        target_partitions: int,
        batch_size: int | None,
        register: Callable[[datafusion.SessionContext, str, Table], None] | None = None,
        reorders: bool = False,
    ) -> None:
        _start_engine()
        config = datafusion.SessionConfig().with_target_partitions(target_partitions).with_information_schema(True)
        config = config if batch_size is None else config.with_batch_size(batch_size)
        if not reorders:
            # A filter above an outer join whose sides were swapped goes into the wrong one, and rows are lost.
            config = config.set("datafusion.optimizer.join_reordering", "false")
        self._context = datafusion.SessionContext(config)
        # The rule that takes fields out of structs early makes valid queries fail; plans without it give their rows.
        self._patient = datafusion.SessionContext(config)
        self._patient.sql("set datafusion.optimizer.enable_leaf_expression_pushdown = false")
        self._answers: dict[str, Answer] = {}
        for table in tables:
            for context in (self._context, self._patient):
                (register or _register_batches)(context, quoted(table.name), table)

    def ask(self, query: str) -> Answer:
        """What the engine answers as it is by default."""
        if query not in self._answers:
            self._answers[query] = _ask(self._context, query)
        return self._answers[query]

    def ask_patiently(self, query: str) -> Answer:
        """What the engine answers without the optimizer's rule that refuses valid queries."""
        return _ask(self._patient, query)

    def scans_twice(self, query: str) -> bool:
        """Whether the optimised plan of a query scans a table more than once.

        What is inside an expression does not count: a subquery that is there twice is run once.
        """
        plan = self._plan(query)
        return "Subquery:" not in plan and _repeats(plan)

    def drops_sort_keys(self, query: str) -> bool:
        """Whether the optimizer leaves keys out of a sort, as it does after a constant one: any order may then come."""
        plans = self._context.sql(query).logical_plan().display_indent(), self._plan(query)
        asked, kept = (sum(len(_SORT_KEY.findall(line)) for line in _SORT.findall(plan)) for plan in plans)
        return kept < asked

    def compares_top_rows_by_fewer_keys(self, query: str) -> bool:
        """Whether the branches of a UNION share the limit of a sort by fewer keys than the query has.

        A key that is constant in each branch is left out there, and rows of one branch are then compared with rows of
        another without it: which rows are lost is a matter of timing.
        """
        plan = str(self._context.sql(query).execution_plan())
        return any(merged.count("@") > sorted_by.count("@") for merged, sorted_by in _TOP_ROWS.findall(plan))

    def names_twice(self, query: str) -> bool:
        """Whether a query names a table more than once, be it in a part that the optimizer removes."""
        return _repeats(self._context.sql(query).logical_plan().display_indent())

    def is_recursive(self, query: str) -> bool:
        """Whether a query runs a part of its plan again and again."""
        return "RecursiveQuery" in self._context.sql(query).logical_plan().display_indent()

    def _plan(self, query: str) -> str:
        # Asked of queries that were answered, by one of the two.
        context = self._context if self.ask(query).refusal is None else self._patient
        return str(context.sql(query).optimized_logical_plan().display_indent())


@cache
def _start_engine() -> None:
    """The first to use the engine decides how many workers it has, and a session needs more than cores."""
    headrace.SessionContext().close()


def _ask(context: datafusion.SessionContext, query: str) -> Answer:
    try:
        frame = context.sql(query)
        batches = tuple(batch.to_pyarrow() for batch in frame.execute_stream())
        # The frame's own schema is that of the plan before types are made one, which no batch need have.
        analysed = context.create_dataframe_from_logical_plan(frame.optimized_logical_plan()).schema()
        certain = tuple(not field.nullable for field in frame.schema())
        return Answer(_with_types(analysed, batches), batches, None, certain)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - panics of the engine are no Exceptions
        return Answer(None, (), error)


def _repeats(plan: str) -> bool:
    scans = [name.removeprefix("datafusion.").removeprefix("public.") for name in _SCAN.findall(plan)]
    return len(scans) > len(set(scans))


def _with_types(schema: pa.Schema, batches: tuple[pa.RecordBatch, ...]) -> pa.Schema:
    """The types that the batches have, where there are any."""
    if not batches or any(batch.schema.types != batches[0].schema.types for batch in batches):
        return schema
    return pa.schema([field.with_type(kind) for field, kind in zip(schema, batches[0].schema.types, strict=True)])


def _register_batches(context: datafusion.SessionContext, name: str, table: Table) -> None:
    context.register_record_batches(name, partitions_of(table))


def partitions_of(table: Table) -> list[list[pa.RecordBatch]]:
    """A table's rows as DataFusion takes them: some of its functions panic over a batch without rows."""
    partitions = [[copied(batch) for batch in partition if batch.num_rows] for partition in table.partitions]
    nothing = pa.RecordBatch.from_pylist([], schema=table.schema)
    return [partition for partition in partitions if partition] or [[nothing]]


def copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows without an offset: DataFusion panics when it imports some slices of nested arrays."""
    return pa.concat_batches([batch, batch.slice(0, 0)])
