"""A bounded queue of record batches that counts what passes through it; it has no lock."""

from __future__ import annotations

import math
import sys
from collections import deque

import pyarrow as pa

from headrace._checks import require_count
from headrace.arrow.sizes import BatchSizes


class BatchQueue:
    """Batches in order, bounded in number and optionally in bytes.

    Sizes are computed from the rows where that is possible and nothing depends on their last byte: for most batches,
    measuring takes longer than queueing.

    Attributes:
        capacity: The maximum number of queued batches.
        max_bytes: The maximum number of queued bytes, or None for no limit.
        rows: Queued rows.
        removed_batches: Batches taken or dropped since the start.
        removed_rows: Rows in the removed batches.
    """

    __slots__ = (
        "_batches",
        "_measured",
        "_measured_bytes",
        "_most_bytes",
        "_removed_bytes",
        "_row_bytes",
        "_size_of",
        "capacity",
        "max_bytes",
        "removed_batches",
        "removed_rows",
        "rows",
    )

    def __init__(self, capacity: int, max_bytes: int | None, sizes: BatchSizes) -> None:
        self.capacity = require_count(capacity, "capacity")
        self.max_bytes = None if max_bytes is None else require_count(max_bytes, "max_bytes")
        self.rows = self.removed_batches = self.removed_rows = 0
        self._batches: deque[pa.RecordBatch] = deque()
        self._size_of = sizes.of
        self._most_bytes = sys.maxsize if max_bytes is None else max_bytes
        self._row_bytes = None if max_bytes is not None else sizes.row_bytes
        # The sizes of the queued batches, if they are measured.
        self._measured: deque[int] = deque()
        self._measured_bytes = self._removed_bytes = 0

    def __len__(self) -> int:
        return len(self._batches)

    def offer(self, batch: pa.RecordBatch) -> int:
        """Queue a batch and return how many are queued, or return 0 if there is no room.

        Any batch fits into an empty queue.
        """
        batches = self._batches
        if len(batches) >= self.capacity:
            return 0
        if self._row_bytes is None:
            size = self._size_of(batch)
            if batches and self._measured_bytes + size > self._most_bytes:
                return 0
            self._measured.append(size)
            self._measured_bytes += size
        batches.append(batch)
        self.rows += batch.num_rows
        return len(batches)

    def take(self, max_rows: int, max_bytes: int) -> list[pa.RecordBatch]:
        """Take at least one batch, and more while the total is at most ``max_rows`` and ``max_bytes``."""
        if self.rows <= max_rows and self.bytes <= max_bytes:
            taken = list(self._batches)
            self.clear()
            return taken
        taken = []
        rows, size = 0, 0.0
        while self._batches:
            batch_rows = self._batches[0].num_rows
            batch_size = self._measured[0] if self._row_bytes is None else batch_rows * self._row_bytes
            if taken and (rows + batch_rows > max_rows or size + batch_size > max_bytes):
                break
            taken.append(self._batches.popleft())
            if self._row_bytes is None:
                self._measured.popleft()
            rows += batch_rows
            size += batch_size
        self._count_removed(len(taken), rows, int(size))
        return taken

    def clear(self) -> None:
        """Drop all queued batches."""
        self._count_removed(len(self._batches), self.rows, self._measured_bytes)
        self._batches.clear()
        self._measured.clear()

    def enough(self, max_rows: int, max_bytes: int) -> int:
        """Return how many batches, of the average size so far, fill a take, or half of the queue if that is less."""
        half = (self.capacity + 1) // 2
        rows = self.rows + self.removed_rows
        if not rows:
            return half
        if self.max_bytes is not None:
            max_bytes = min(max_bytes, self.max_bytes // 2)
        part = min(max_rows / rows, max_bytes / max(1, self.bytes + self.removed_bytes))
        return max(1, min(half, math.ceil((len(self._batches) + self.removed_batches) * part)))

    @property
    def bytes(self) -> int:
        """Queued bytes."""
        return self._measured_bytes if self._row_bytes is None else int(self.rows * self._row_bytes)

    @property
    def removed_bytes(self) -> int:
        """Bytes in the removed batches."""
        return self._removed_bytes if self._row_bytes is None else int(self.removed_rows * self._row_bytes)

    def _count_removed(self, batches: int, rows: int, size: int) -> None:
        self.removed_batches += batches
        self.removed_rows += rows
        self.rows -= rows
        if self._row_bytes is None:
            self._removed_bytes += size
            self._measured_bytes -= size
