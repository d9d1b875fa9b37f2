"""How many bytes batches hold: measured, or computed from their rows if all rows have the same width."""

from __future__ import annotations

import pyarrow as pa

# Computing nbytes costs more than queueing a batch; below this size the sum of the buffer sizes is close enough.
_EXACT_SIZE_FROM = 64 * 1024


def batch_size_in_bytes(batch: pa.RecordBatch) -> int:
    """Return the size of a batch in bytes; a slice of a large batch counts only the sliced rows."""
    size = int(batch.get_total_buffer_size())
    return size if size < _EXACT_SIZE_FROM else int(batch.nbytes)


class BatchSizes:
    """The sizes of the batches of one schema.

    Attributes:
        row_bytes: The bytes of the values of a row, without the bits that mark nulls; None if rows differ in width,
            or the schema is not known.
    """

    __slots__ = ("_row_bytes_with_nulls", "row_bytes")

    def __init__(self, schema: pa.Schema | None = None) -> None:
        widths = [None] if schema is None else [_bits(field.type) for field in schema]
        known = None not in widths
        self.row_bytes = sum(values for values, _ in filter(None, widths)) / 8 if known else None
        self._row_bytes_with_nulls = sum(sum(width) for width in filter(None, widths)) / 8

    def of(self, batch: pa.RecordBatch) -> int:
        """Return what ``batch_size_in_bytes`` returns, faster if all rows have the same width."""
        if self.row_bytes is None:
            return batch_size_in_bytes(batch)
        # A slice shares the buffers of a larger batch.
        size: int = batch.get_total_buffer_size()
        most = batch.num_rows * self._row_bytes_with_nulls
        return size if size <= most else int(most)


def _bits(kind: pa.DataType) -> tuple[int, int] | None:
    """Return the bits of a value and those that mark nulls; None for types whose values differ in size."""
    if pa.types.is_struct(kind):
        widths = [_bits(kind.field(i).type) for i in range(kind.num_fields)]
        if None in widths:
            return None
        return sum(values for values, _ in filter(None, widths)), 1 + sum(nulls for _, nulls in filter(None, widths))
    if pa.types.is_fixed_size_list(kind):
        width = _bits(kind.value_type)
        return None if width is None else (width[0] * kind.list_size, width[1] * kind.list_size + 1)
    if pa.types.is_dictionary(kind) or kind.num_fields:
        return None
    try:
        return int(kind.bit_width), 1
    except ValueError:
        return None
