"""Counts the rows of a batch that are null in every column, as Spark's readers make them of malformed lines."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def count_null_rows(batch: pa.RecordBatch) -> int:
    """Return the number of rows that are null in every column.

    A column without nulls decides it at once: the columns are compared only if each has a null.
    """
    if not batch.num_columns or not all(column.null_count for column in batch.columns):
        return 0
    found = batch.column(0).is_null()
    for column in batch.columns[1:]:
        found = pc.and_(found, column.is_null())
        if not found.true_count:
            return 0
    return int(found.true_count)
