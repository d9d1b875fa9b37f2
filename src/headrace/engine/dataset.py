"""The bridge: a Python table as a pyarrow Dataset, which DataFusion can scan.

During planning, DataFusion asks the dataset for its fragments, one per partition. During execution, it asks a fragment
for batches, on a worker thread. The dataset has one column: a struct of the table's columns. Queries see a view that
selects the fields of the struct; `engine` says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.dataset

from headrace.engine.execution import Execution, Hint, current_planning
from headrace.engine.scan import ScanBatches
from headrace.engine.shares import SharedPartition
from headrace.engine.tables import ScanRequest, ScanTable
from headrace.errors import EngineError

# The dataset's only column, and the catalog and schema that plans name bridged tables in.
ROW = "row"
CATALOG, SCHEMA = "headrace", "tables"


class TableDataset(pyarrow.dataset.Dataset):  # type: ignore[misc]
    """A table in the form that DataFusion scans.

    Args:
        table: The table.
        plan_name: The table's name in plans.
        hinted: The table's schema if its scans use hints, else None.
        is_flat: Whether the dataset has the table's columns instead of the struct.
    """

    # `schema` is a slot: the engine panics if a KeyboardInterrupt is raised in a Python property that it reads.
    __slots__ = ("_is_flat", "_plan_name", "_table", "hinted", "schema")

    def __init__(self, table: ScanTable, plan_name: str, *, hinted: pa.Schema | None, is_flat: bool = False) -> None:
        self._table = table
        self._plan_name = plan_name
        self._is_flat = is_flat
        self.schema = table.schema if is_flat else _row_schema(table.schema)
        self.hinted = hinted

    def flat(self) -> TableDataset:
        """Return a dataset with the table's columns; plan it only where no filter is pushed into scans."""
        return TableDataset(self._table, self._plan_name, hinted=None, is_flat=True)

    def scanner(self, columns: Sequence[str] | None = None, filter: object = None) -> _Scanner:
        """Return the projected schema; DataFusion calls this during planning."""
        return _Scanner(_projected(self.schema, columns), None)

    def get_fragments(self, filter: object = None) -> list[_Fragment]:
        """Return one fragment per share of a partition, and claim the table if the plan will be executed.

        DataFusion calls this during planning, once per physical scan.
        """
        planning = current_planning()
        execution = None if planning is None else planning.execution
        partitions = self._table.partitions
        shares = 1 if planning is None else planning.rules.shares_of(partitions)
        if execution is not None:
            execution.claim(self._table, partitions * shares, holder=self)
        return [
            _Fragment(self._table, execution, self._plan_name, partition, is_flat=self._is_flat)
            for partition in (SharedPartition(number, shares) for number in range(partitions))
            for _ in range(shares)
        ]


class _Fragment:
    """One partition of one physical scan, or a share of it."""

    def __init__(
        self,
        table: ScanTable,
        execution: Execution | None,
        plan_name: str,
        partition: SharedPartition,
        *,
        is_flat: bool,
    ) -> None:
        self._table = table
        self._execution = execution
        self._plan_name = plan_name
        self._partition = partition
        self._is_flat = is_flat
        self._scans = 0

    def scanner(
        self,
        schema: pa.Schema,
        columns: Sequence[str] | None = None,
        filter: object = None,
        batch_size: int | None = None,
    ) -> _Scanner:
        """Open the partition; DataFusion calls this during execution, on a worker thread."""
        if self._execution is None:
            raise EngineError(f"Table {self._table.name!r} was planned for no execution and cannot be scanned.")
        if self._scans:
            # A recursive query executes the same plan repeatedly.
            self._execution.claim_again(self._table)
        shared = self._partition.scan(self._scans)
        self._scans += 1
        names = tuple(self._table.schema.names)
        projected = _projected(schema, columns)
        hint = self._execution.hints.get(self._plan_name, Hint())
        if self._is_flat:
            hint = Hint(tuple(projected.names))
        request = ScanRequest(
            # If the query only counts rows, one column is enough.
            columns=(hint.columns or names) if len(projected) else names[:1],
            filter=hint.filter,
            limit=hint.limit,
            partition=self._partition.number,
            partitions=self._table.partitions,
        )
        wanted = filter is None or _is_true(filter, self._table.name)
        batches = ScanBatches(
            self._table, self._execution, shared, request, projected, wanted=wanted, is_flat=self._is_flat
        )
        return _Scanner(projected, batches)


class _Scanner:
    def __init__(self, projected_schema: pa.Schema, batches: ScanBatches | None) -> None:
        self.projected_schema = projected_schema
        self._batches = batches

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        if self._batches is None:
            raise EngineError("A scanner made for planning cannot be read.")
        return self._batches


def _row_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(ROW, pa.struct(list(schema)), nullable=False)], schema.metadata)


def _projected(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    return schema if columns is None else pa.schema([schema.field(name) for name in columns], schema.metadata)


def _is_true(condition: object, table: str) -> bool:
    """Whether a filter that names no column is true; the engine applies all other filters itself."""
    if isinstance(condition, (bool, pa.Scalar)):
        return pa.scalar(condition).as_py() is True
    try:
        one_row = pyarrow.dataset.dataset(pa.table({"": [0]}))
        return bool(one_row.count_rows(filter=condition))
    except pa.ArrowInvalid as error:
        raise EngineError(f"A filter reached the bridge of table {table!r}: {condition}.") from error
