"""A bounded queue of record batches, and the count of what has gone through it; no thread and no lock in it."""

from __future__ import annotations

from collections import deque

import pyarrow as pa

from headrace._checks import require_count


class BatchQueue:
    """Batches in order, bounded in number and, if asked, in bytes.

    Attributes:
        capacity: The most batches queued.
        max_bytes: The most bytes queued, or None.
        rows: Rows queued.
        bytes: Bytes queued.
        gone_batches: Batches taken or dropped since the start.
        gone_rows: Rows in them.
        gone_bytes: Bytes in them.
    """

    __slots__ = ("_batches", "bytes", "capacity", "gone_batches", "gone_bytes", "gone_rows", "max_bytes", "rows")

    def __init__(self, capacity: int, max_bytes: int | None = None) -> None:
        self.capacity = require_count(capacity, "capacity")
        self.max_bytes = None if max_bytes is None else require_count(max_bytes, "max_bytes")
        self._batches: deque[tuple[pa.RecordBatch, int]] = deque()
        self.rows = self.bytes = 0
        self.gone_batches = self.gone_rows = self.gone_bytes = 0

    def __len__(self) -> int:
        return len(self._batches)

    def has_room(self, size: int) -> bool:
        """Whether a batch of that many bytes may be put; into an empty queue any may, or it could never be."""
        if not self._batches:
            return True
        if len(self._batches) >= self.capacity:
            return False
        return self.max_bytes is None or self.bytes + size <= self.max_bytes

    def put(self, batch: pa.RecordBatch, size: int) -> None:
        """Queue a batch, of which ``has_room`` was asked before."""
        self._batches.append((batch, size))
        self.rows += batch.num_rows
        self.bytes += size

    def take(self, max_rows: int, max_bytes: int) -> list[pa.RecordBatch]:
        """Take whole batches while they add up to at most ``max_rows`` and ``max_bytes``, and one in any case."""
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
        self._count_gone(len(taken), rows, size)
        return taken

    def clear(self) -> None:
        """Drop everything."""
        self._count_gone(len(self._batches), self.rows, self.bytes)
        self._batches.clear()

    def _count_gone(self, batches: int, rows: int, size: int) -> None:
        self.gone_batches += batches
        self.gone_rows += rows
        self.gone_bytes += size
        self.rows -= rows
        self.bytes -= size
