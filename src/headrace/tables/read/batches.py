"""Batches on their way to Spark: small ones are combined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa


def combined(batches: Iterable[pa.RecordBatch], *, rows: int, size: int) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in fewer batches: Spark takes longer for a batch than for a thousand rows.

    A batch with half the rows or bytes is not copied.

    Args:
        batches: Batches of one schema; those without rows are dropped.
        rows: The most rows of a combined batch.
        size: Its most bytes.
    """
    held: list[pa.RecordBatch] = []
    held_rows = held_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        is_small = batch.num_rows * 2 < rows and (nbytes := batch.nbytes) * 2 < size
        if held and (not is_small or held_rows + batch.num_rows > rows or held_bytes + nbytes > size):
            yield _one(held)
            held, held_rows, held_bytes = [], 0, 0
        if not is_small:
            yield batch
            continue
        held.append(batch)
        held_rows += batch.num_rows
        held_bytes += nbytes
    if held:
        yield _one(held)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
