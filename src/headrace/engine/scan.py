"""One scan in the hands of the engine: batches gathered, sliced and wrapped as it pulls them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.dataset

from headrace.arrow.batches import batch_size_in_bytes
from headrace.arrow.fill import filler
from headrace.arrow.layout import has_fragile_columns, importable
from headrace.channel.channel import Channel
from headrace.engine.execution import Execution
from headrace.engine.tables import ScanRequest, ScanTable
from headrace.errors import EngineError

# Small batches that wait together are gathered before the engine sees them; a lone one is never held back.
# From SMALL_BYTES on, copying a batch costs more than handing it over.
GATHER_ROWS = 64 * 1024
GATHER_BYTES = 1024 * 1024
SMALL_BYTES = 256 * 1024
# So much is taken from the channel at a time, to be gathered in several goes: taking wakes the writers.
TAKE_ROWS = 4 * GATHER_ROWS
TAKE_BYTES = 4 * GATHER_BYTES
# Large batches are handed over in slices: the engine holds so many batches, whatever their size.
SLICE_BYTES = 1024 * 1024


class Batches:
    """The batches of one partition, gathered, sliced and wrapped; released when the engine lets go of it."""

    def __init__(
        self,
        table: ScanTable,
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
        self._taken: deque[pa.RecordBatch] = deque()
        self._row_bytes = 1.0
        self._is_fragile = has_fragile_columns(table.schema)
        self._ready: deque[pa.RecordBatch] = deque()
        self._lock = threading.RLock()
        self._in_engine_call = False
        self._execution_over = False
        self._released = False
        execution.scan_opened(self)

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> pa.RecordBatch:
        with self._lock:
            if self._released and self._execution_over:
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
            self._release_now()
            # Not as itself: a StopIteration would look like the end, and the engine keeps only the text.
            raise EngineError(f"The scan of table {self._table.name!r} failed.") from error
        finally:
            with self._lock:
                self._in_engine_call = False
            if self._execution_over:
                self._release_now()
        self._release_now()
        raise StopIteration

    def release(self) -> None:
        """The run is over: release now, or when the call the engine is in returns."""
        with self._lock:
            self._execution_over = True
            in_engine_call = self._in_engine_call
        if not in_engine_call:
            self._release_now()

    def _fill(self) -> None:
        """Make the next batches ready, waiting for them; none are at the end of the stream."""
        if self._channel is None:
            self._channel = self._execution.open(self._table, self._request)
        while not self._ready:
            if not self._taken:
                self._taken.extend(self._channel.take(TAKE_ROWS, TAKE_BYTES))
                if not self._taken:
                    return
                self._row_bytes = _row_bytes(self._taken)
            for batch in _gather(self._taken, self._row_bytes):
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

    def _release_now(self) -> None:
        with self._lock:
            if self._released:
                return
            self._released = True
        self._ready.clear()
        self._taken.clear()
        if self._channel is not None:
            self._channel.cancel("the query needs no more of its rows")
        self._execution.scan_released()
        # No finalizer any more: the engine drops it at a moment of its own choosing, maybe with an abort pending.
        self.__class__ = Batches


class HeldBatches(Batches):
    """Batches that are not released yet."""

    def __del__(self) -> None:
        self._release_now()


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
