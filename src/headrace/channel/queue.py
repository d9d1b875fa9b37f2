"""A bounded queue of record batches that counts what passes through it; it has no lock."""

from __future__ import annotations

from collections import deque

import pyarrow as pa

from headrace._checks import require_count


class BatchQueue:
    """Batches in order, bounded in number and optionally in bytes.

    Attributes:
        capacity: The maximum number of queued batches.
        max_bytes: The maximum number of queued bytes, or None for no limit.
        rows: Queued rows.
        bytes: Queued bytes.
        removed_batches: Batches taken or dropped since the start.
        removed_rows: Rows in the removed batches.
        removed_bytes: Bytes in the removed batches.
    """

    __slots__ = (
        "_batches",
        "bytes",
        "capacity",
        "max_bytes",
        "removed_batches",
        "removed_bytes",
        "removed_rows",
        "rows",
    )

    def __init__(self, capacity: int, max_bytes: int | None = None) -> None:
        self.capacity = require_count(capacity, "capacity")
        self.max_bytes = None if max_bytes is None else require_count(max_bytes, "max_bytes")
        self._batches: deque[tuple[pa.RecordBatch, int]] = deque()
        self.rows = self.bytes = 0
        self.removed_batches = self.removed_rows = self.removed_bytes = 0

    def __len__(self) -> int:
        return len(self._batches)

    def has_room(self, size: int) -> bool:
        """Whether a batch of ``size`` bytes fits; any batch fits into an empty queue."""
        if not self._batches:
            return True
        if len(self._batches) >= self.capacity:
            return False
        return self.max_bytes is None or self.bytes + size <= self.max_bytes

    def put(self, batch: pa.RecordBatch, size: int) -> None:
        """Queue a batch; the caller has checked ``has_room``."""
        self._batches.append((batch, size))
        self.rows += batch.num_rows
        self.bytes += size

    def take(self, max_rows: int, max_bytes: int) -> list[pa.RecordBatch]:
        """Take at least one batch, and more while the total is at most ``max_rows`` and ``max_bytes``."""
        if self.rows <= max_rows and self.bytes <= max_bytes:
            taken = [batch for batch, _ in self._batches]
            self.clear()
            return taken
        taken = []
        rows = size = 0
        while self._batches:
            batch, batch_bytes = self._batches[0]
            if taken and (rows + batch.num_rows > max_rows or size + batch_bytes > max_bytes):
                break
            self._batches.popleft()
            taken.append(batch)
            rows += batch.num_rows
            size += batch_bytes
        self._count_removed(len(taken), rows, size)
        return taken

    def clear(self) -> None:
        """Drop all queued batches."""
        self._count_removed(len(self._batches), self.rows, self.bytes)
        self._batches.clear()

    def _count_removed(self, batches: int, rows: int, size: int) -> None:
        self.removed_batches += batches
        self.removed_rows += rows
        self.removed_bytes += size
        self.rows -= rows
        self.bytes -= size
