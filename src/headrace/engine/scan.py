"""One scan as the engine reads it: small batches concatenated, large ones sliced, all wrapped in the struct."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.dataset

from headrace.arrow.fill import filler
from headrace.arrow.layout import has_fragile_columns, importable
from headrace.arrow.sizes import batch_size_in_bytes
from headrace.channel.channel import Channel
from headrace.engine.execution import Execution
from headrace.engine.lifo_slot import free_lifo_slot
from headrace.engine.shares import SharedScan
from headrace.engine.tables import ScanRequest, ScanTable
from headrace.errors import EngineError

# Small queued batches are concatenated before the engine gets them; a single one is never delayed.
# From SMALL_BYTES on, copying a batch costs more than passing it to the engine.
GATHER_ROWS = 64 * 1024
GATHER_BYTES = 1024 * 1024
SMALL_BYTES = 256 * 1024
# Take more than one concatenated batch needs: each take wakes the writers.
TAKE_ROWS = 4 * GATHER_ROWS
TAKE_BYTES = 4 * GATHER_BYTES
# Large batches are sliced: the engine buffers a number of batches, whatever their size.
SLICE_BYTES = 1024 * 1024
# How long a scan that is not live waits for more batches, in seconds.
_GATHER_SECONDS = 0.01
# Seconds without a batch after which a worker frees its LIFO slot.
_FREE_SLOT_AFTER = (0.01, 0.1, 1.0)


class ScanBatches:
    """The iterator from which the engine reads the batches of one partition.

    The engine may drop it before its end, on any thread and with an abort pending, which Python code would swallow.
    So the iterator has no finalizer. It owns a guard that releases the scan when both are dropped, and discards the
    guard, here, as soon as the scan is released.

    Args:
        table: The table to scan.
        execution: The execution that the scan belongs to.
        shared: What it shares with the other scans of its partition.
        request: The columns and partition to read.
        projected: The schema of the batches.
        wanted: Whether the engine needs any rows; False for a filter that is never true.
        is_flat: Whether the batches have the table's columns instead of the struct.
    """

    def __init__(
        self,
        table: ScanTable,
        execution: Execution,
        shared: SharedScan,
        request: ScanRequest,
        projected: pa.Schema,
        *,
        wanted: bool,
        is_flat: bool,
    ) -> None:
        self._scan = _PartitionScan(table, execution, shared, request, projected, wanted=wanted, is_flat=is_flat)
        execution.scan_opened(self)
        self._guard: _ReleaseOnDrop | None = _ReleaseOnDrop(self._scan)
        self._discard_guard()

    def __iter__(self) -> ScanBatches:
        return self

    def __next__(self) -> pa.RecordBatch:
        try:
            return self._scan.next()
        finally:
            self._discard_guard()

    def release(self) -> None:
        """Release the scan now, or when the engine's current call returns: the execution has ended."""
        self._scan.end_execution()
        self._discard_guard()

    def _discard_guard(self) -> None:
        if self._scan.released:
            self._guard = None


class _ReleaseOnDrop:
    """Releases a scan when it is dropped."""

    __slots__ = ("_scan",)

    def __init__(self, scan: _PartitionScan) -> None:
        self._scan = scan

    def __del__(self) -> None:
        self._scan.release()


class _PartitionScan:
    """A scan of one partition: batches are concatenated, sliced and wrapped as the engine reads them."""

    def __init__(
        self,
        table: ScanTable,
        execution: Execution,
        shared: SharedScan,
        request: ScanRequest,
        projected: pa.Schema,
        *,
        wanted: bool,
        is_flat: bool,
    ) -> None:
        self._table = table
        self._is_flat = is_flat
        self._execution = execution
        self._shared = shared
        self._wanted = wanted
        self._request = request
        self._projected = projected
        self._fillers: dict[str, pa.Array] = {}
        self._channel: Channel | None = None
        self._groups: Iterator[list[pa.RecordBatch]] = iter(())
        self._row_bytes = 1.0
        self._is_fragile = has_fragile_columns(table.schema)
        self._ready: deque[pa.RecordBatch] = deque()
        self._lock = threading.RLock()
        self._in_engine_call = False
        self._execution_ended = False
        self.released = False

    def next(self) -> pa.RecordBatch:
        """Return the next batch; wait for it.

        Raises:
            StopIteration: The scan has ended.
            EngineError: The table failed, or the execution has ended.
        """
        with self._lock:
            if self.released and self._execution_ended:
                # Raise: StopIteration would make a truncated scan look complete.
                raise EngineError(f"The scan of table {self._table.name!r} was cancelled.")
            if self.released:
                raise StopIteration
            self._in_engine_call = True
        try:
            if not self._ready and self._wanted:
                self._fill()
            if self._ready:
                return self._ready.popleft()
        except BaseException as error:
            interrupt = isinstance(error, (KeyboardInterrupt, SystemExit))
            self._execution.record(self._table, error, raise_as_is=interrupt and self._table.runs_here)
            self.release()
            # Not the error itself: a StopIteration would look like the end, and the engine keeps only the text.
            raise EngineError(f"The scan of table {self._table.name!r} failed.") from error
        finally:
            with self._lock:
                self._in_engine_call = False
            if self._execution_ended:
                self.release()
        self.release()
        raise StopIteration

    def end_execution(self) -> None:
        """Release the scan now, or when the engine's current call returns."""
        with self._lock:
            self._execution_ended = True
            in_engine_call = self._in_engine_call
        if not in_engine_call:
            self.release()

    def release(self) -> None:
        """Drop the batches and cancel the channel; later calls do nothing."""
        with self._lock:
            if self.released:
                return
            self.released = True
        self._ready.clear()
        self._groups = iter(())
        self._shared.leave("the query needs no more of its rows")
        self._execution.scan_released()

    def _fill(self) -> None:
        """Prepare the next batches, waiting for them; prepares none at the end of the stream."""
        if self._channel is None:
            self._channel = self._shared.open(lambda: self._execution.open(self._table, self._request))
        while not self._ready:
            group = next(self._groups, None)
            if group is None:
                taken = _take(self._channel, self._shared.scans, is_live=self._execution.rules.is_live)
                if not taken:
                    return
                self._row_bytes = _row_bytes(taken)
                self._groups = _groups(taken, self._row_bytes)
                continue
            max_rows = max(1, min(self._execution.rules.max_rows, int(SLICE_BYTES / self._row_bytes)))
            for batch in _concatenated(group):
                parts = _slices(batch, max_rows, copy=self._execution.rules.exact_sizes)
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
        """Add placeholders for the columns that the query does not read and the provider left out."""
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


def _take(channel: Channel, scans: int, *, is_live: bool) -> list[pa.RecordBatch]:
    """Take what is queued, or this scan's share of it; wait for the first batch.

    An operator that needs many rows anyway gets more of them at once: each take wakes the writers.
    """
    for seconds in _FREE_SLOT_AFTER:
        if channel.wait(seconds):
            break
        free_lifo_slot()
    rows, size = TAKE_ROWS // scans, TAKE_BYTES // scans
    if not is_live:
        channel.gather(rows, size, _GATHER_SECONDS)
    return channel.take(rows, size)


def _row_bytes(batches: Iterable[pa.RecordBatch]) -> float:
    """Return the bytes per row of the first batch with rows: computing it for each batch is too slow."""
    for batch in batches:
        if batch.num_rows:
            return max(1.0, batch_size_in_bytes(batch) / int(batch.num_rows))
    return 1.0


def _groups(batches: Iterable[pa.RecordBatch], row_bytes: float) -> Iterator[list[pa.RecordBatch]]:
    """Yield each large batch by itself, and the small ones between them in groups to concatenate."""
    small_rows = SMALL_BYTES / row_bytes
    most_rows = min(GATHER_ROWS, GATHER_BYTES / row_bytes)
    group: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        batch_rows = batch.num_rows
        rows += batch_rows
        if group and (batch_rows >= small_rows or rows > most_rows):
            yield group
            group, rows = [], batch_rows
        group.append(batch)
        if batch_rows >= small_rows:
            yield group
            group, rows = [], 0
    if group:
        yield group


def _slices(batch: pa.RecordBatch, max_rows: int, *, copy: bool) -> Iterable[pa.RecordBatch]:
    if batch.num_rows <= max_rows:
        # Some functions of the engine fail on a batch without rows.
        return (batch,) if batch.num_rows else ()
    parts = (batch.slice(start, max_rows) for start in range(0, batch.num_rows, max_rows))
    return (pa.concat_batches([part, part.slice(0, 0)]) for part in parts) if copy else parts


def _concatenated(batches: list[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    if len(batches) == 1:
        return batches
    try:
        return [pa.concat_batches(batches)]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # Dictionaries that cannot be unified: keep the batches separate.
        return batches
