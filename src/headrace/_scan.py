"""The bridge: a table of ours as a pyarrow Dataset, which DataFusion knows how to scan.

At planning DataFusion asks the dataset for its fragments, one per partition; at execution it asks a
fragment for batches, on a worker thread. The dataset has one column, a struct of all the table's: what
queries see is a view that takes the struct apart (see ``_engine`` for why).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.dataset

from headrace._arrow import batch_size_in_bytes
from headrace._arrow_fill import filler
from headrace._channel import Channel
from headrace._errors import EngineError
from headrace._execution import Execution, Hint, Table, current_execution
from headrace._layout import has_fragile_columns, importable
from headrace._provider import ScanRequest

# Small batches that wait together are gathered before the engine sees them; a lone one is never held back.
# From SMALL_BYTES on, copying a batch costs more than handing it over.
GATHER_ROWS = 64 * 1024
GATHER_BYTES = 1024 * 1024
SMALL_BYTES = 256 * 1024
# So much is taken from the channel at a time, to be gathered in several goes: taking wakes the writers.
DRAIN_ROWS = 4 * GATHER_ROWS
DRAIN_BYTES = 4 * GATHER_BYTES
# Large batches are handed over in slices: the engine holds so many batches, whatever their size.
SLICE_BYTES = 1024 * 1024
# The one column of the dataset, and the schema that only such datasets are planned in.
ROW = "row"
CATALOG, SCHEMA = "headrace", "tables"


class TableDataset(pyarrow.dataset.Dataset):  # type: ignore[misc]
    """A table as DataFusion sees it.

    Args:
        table: The table.
        plan_name: What plans call it.
        hinted: Its schema, if its scans can make use of a hint.
    """

    # A slot, not a property: the engine panics if Ctrl-C arrives in Python code that it asks for the schema.
    __slots__ = ("_is_flat", "_plan_name", "_table", "hinted", "schema")

    def __init__(self, table: Table, plan_name: str, *, hinted: pa.Schema | None, is_flat: bool = False) -> None:
        self._table = table
        self._plan_name = plan_name
        self._is_flat = is_flat
        self.schema = table.schema if is_flat else _row_schema(table.schema)
        self.hinted = hinted

    def flat(self) -> TableDataset:
        """The same table with its own columns; it must be planned where no filter is pushed into scans."""
        return TableDataset(self._table, self._plan_name, hinted=None, is_flat=True)

    def scanner(self, columns: Sequence[str] | None = None, filter: object = None) -> _Scanner:
        """Called at planning, to learn the projected schema."""
        return _Scanner(_projected(self.schema, columns), None)

    def get_fragments(self, filter: object = None) -> list[_Fragment]:
        """Called at planning, once per physical scan; claims the scan if the plan is going to be run."""
        execution = current_execution()
        if execution is not None:
            execution.claim(self._table, holder=self)
        partitions = range(self._table.partitions)
        return [_Fragment(self._table, execution, self._plan_name, i, is_flat=self._is_flat) for i in partitions]


class _Fragment:
    """One partition in one physical scan."""

    def __init__(
        self, table: Table, execution: Execution | None, plan_name: str, partition: int, *, is_flat: bool
    ) -> None:
        self._table = table
        self._execution = execution
        self._plan_name = plan_name
        self._partition = partition
        self._is_flat = is_flat
        self._scanned = False

    def scanner(
        self,
        schema: pa.Schema,
        columns: Sequence[str] | None = None,
        filter: object = None,
        batch_size: int | None = None,
    ) -> _Scanner:
        """Called at execution, on a worker thread."""
        if self._execution is None:
            raise EngineError(f"Table {self._table.name!r} was planned for no execution and cannot be scanned.")
        if self._scanned:
            # A recursive query runs the same plan again and again.
            self._execution.claim_again(self._table)
        self._scanned = True
        names = tuple(self._table.schema.names)
        projected = _projected(schema, columns)
        hint = self._execution.hints.get(self._plan_name, Hint())
        if self._is_flat:
            hint = Hint(tuple(projected.names))
        request = ScanRequest(
            # Where only the number of rows counts, one column carries it.
            columns=(hint.columns or names) if len(projected) else names[:1],
            filter=hint.filter,
            limit=hint.limit,
            partition=self._partition,
            partitions=self._table.partitions,
        )
        wanted = filter is None or _holds(filter, self._table.name)
        batches = _HeldBatches(self._table, self._execution, request, projected, wanted=wanted, is_flat=self._is_flat)
        return _Scanner(projected, batches)


class _Scanner:
    def __init__(self, projected_schema: pa.Schema, batches: _Batches | None) -> None:
        self.projected_schema = projected_schema
        self._batches = batches

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        if self._batches is None:
            raise EngineError("A scanner made for planning cannot be read.")
        return self._batches


class _Batches:
    """The batches of one partition, gathered, sliced and wrapped; released when the engine lets go of it."""

    def __init__(
        self,
        table: Table,
        execution: Execution,
        request: ScanRequest,
        projected: pa.Schema,
        *,
        wanted: bool,
        is_flat: bool,
    ) -> None:
        self._table = table
        self._is_flat = is_flat
        self._execution = execution
        self._wanted = wanted
        self._request = request
        self._projected = projected
        self._fillers: dict[str, pa.Array] = {}
        self._channel: Channel | None = None
        self._drained: deque[pa.RecordBatch] = deque()
        self._row_bytes = 1.0
        self._is_fragile = has_fragile_columns(table.schema)
        self._ready: deque[pa.RecordBatch] = deque()
        self._lock = threading.RLock()
        self._in_engine_call = False
        self._retired = False
        self._released = False
        execution.scan_opened(self)

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> pa.RecordBatch:
        with self._lock:
            if self._released and self._retired:
                # Its run is over; a clean end here could make what is left of it look whole.
                raise EngineError(f"The scan of table {self._table.name!r} was cut off.")
            if self._released:
                raise StopIteration
            self._in_engine_call = True
        try:
            if not self._ready and self._wanted:
                self._fill()
            if self._ready:
                return self._ready.popleft()
        except BaseException as error:
            interrupt = isinstance(error, (KeyboardInterrupt, SystemExit))
            self._execution.record(self._table, error, as_itself=interrupt and self._table.runs_here)
            self._release()
            # Not as itself: a StopIteration would look like the end, and the engine keeps only the text.
            raise EngineError(f"The scan of table {self._table.name!r} failed.") from error
        finally:
            with self._lock:
                self._in_engine_call = False
            if self._retired:
                self._release()
        self._release()
        raise StopIteration

    def retire(self) -> None:
        """The run is over: release now, or when the call the engine is in returns."""
        with self._lock:
            self._retired = True
            in_engine_call = self._in_engine_call
        if not in_engine_call:
            self._release()

    def _fill(self) -> None:
        """Make the next batches ready, waiting for them; none are at the end of the stream."""
        if self._channel is None:
            self._channel = self._execution.open(self._table, self._request)
        while not self._ready:
            if not self._drained:
                self._drained.extend(self._channel.drain(DRAIN_ROWS, DRAIN_BYTES))
                if not self._drained:
                    return
                self._row_bytes = _row_bytes(self._drained)
            for batch in _gather(self._drained, self._row_bytes):
                max_rows = max(1, min(self._execution.max_rows, int(SLICE_BYTES / self._row_bytes)))
                parts = _slices(batch, max_rows, copy=self._execution.exact_sizes)
                self._ready.extend(map(self._wrap, parts))

    def _wrap(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not len(self._projected):
            return batch.select([])
        if self._is_flat:
            return importable(batch.select(self._projected.names).replace_schema_metadata(self._projected.metadata))
        if batch.num_columns < len(self._table.schema):
            batch = self._complete(batch)
        if self._is_fragile:
            batch = importable(batch)
        return pa.RecordBatch.from_arrays([batch.to_struct_array()], schema=self._projected)

    def _complete(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Columns the query does not read, and the provider left out, get values that nobody looks at."""
        rows = batch.num_rows
        columns = []
        for field in self._table.schema:
            if field.name in batch.schema.names:
                columns.append(batch.column(field.name))
                continue
            if field.name not in self._fillers or len(self._fillers[field.name]) < rows:
                self._fillers[field.name] = filler(field, rows)
            columns.append(self._fillers[field.name].slice(0, rows))
        return pa.RecordBatch.from_arrays(columns, schema=self._table.schema)

    def _release(self) -> None:
        with self._lock:
            if self._released:
                return
            self._released = True
        self._ready.clear()
        self._drained.clear()
        if self._channel is not None:
            self._channel.cancel("the query needs no more of its rows")
        self._execution.scan_released()
        # No finalizer any more: the engine drops it at a moment of its own choosing, maybe with an abort pending.
        self.__class__ = _Batches


class _HeldBatches(_Batches):
    """Batches that are not released yet."""

    def __del__(self) -> None:
        self._release()


def _row_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(ROW, pa.struct(list(schema)), nullable=False)], schema.metadata)


def _projected(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    return schema if columns is None else pa.schema([schema.field(name) for name in columns], schema.metadata)


def _holds(condition: object, table: str) -> bool:
    """Whether a condition that names no column is true; the engine keeps all others to itself."""
    if isinstance(condition, (bool, pa.Scalar)):
        return pa.scalar(condition).as_py() is True
    try:
        one_row = pyarrow.dataset.dataset(pa.table({"": [0]}))
        return bool(one_row.count_rows(filter=condition))
    except pa.ArrowInvalid as error:
        raise EngineError(f"A filter reached the bridge of table {table!r}: {condition}.") from error


def _row_bytes(batches: Iterable[pa.RecordBatch]) -> float:
    """What a row takes, by the first batch that has any: asking each batch costs more than handing it over."""
    for batch in batches:
        if batch.num_rows:
            return max(1.0, batch_size_in_bytes(batch) / int(batch.num_rows))
    return 1.0


def _gather(batches: deque[pa.RecordBatch], row_bytes: float) -> Iterable[pa.RecordBatch]:
    """Take one large batch, or the small ones at the front as one; nothing if there is nothing."""
    small_rows = SMALL_BYTES / row_bytes
    most_rows = min(GATHER_ROWS, GATHER_BYTES / row_bytes)
    gathered: list[pa.RecordBatch] = []
    rows = 0
    while batches:
        batch_rows = batches[0].num_rows
        rows += batch_rows
        if gathered and (batch_rows >= small_rows or rows > most_rows):
            break
        gathered.append(batches.popleft())
        if batch_rows >= small_rows:
            break
    return gathered if len(gathered) < 2 else _concatenate(gathered)


def _slices(batch: pa.RecordBatch, max_rows: int, *, copy: bool) -> Iterable[pa.RecordBatch]:
    if batch.num_rows <= max_rows:
        # A batch without rows says nothing, and some of the engine's functions fail on it.
        return (batch,) if batch.num_rows else ()
    parts = (batch.slice(start, max_rows) for start in range(0, batch.num_rows, max_rows))
    return (pa.concat_batches([part, part.slice(0, 0)]) for part in parts) if copy else parts


def _concatenate(batches: list[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    try:
        return [pa.concat_batches(batches)]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # Dictionaries that do not fit into one; apart they are just as good.
        return batches
