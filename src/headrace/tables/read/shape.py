"""The form in which Spark receives a scan's batches: its types, and the columns of the change feed."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.align import Alignment
from headrace.tables.read.splits import Split

CHANGE_TYPE = "_change_type"
COMMIT_VERSION = "_commit_version"
FEED_FIELDS = (pa.field(CHANGE_TYPE, pa.string()), pa.field(COMMIT_VERSION, pa.int64()))

_CREATED = "_row_created_at_version"
_INSERT = "insert"
_UPDATE = "update_postimage"


class Shape:
    """Converts the batches of scans to one schema.

    Args:
        schema: The schema that Spark expects.
        with_changes: Whether it ends with the columns of the change feed, which are not in the table.
    """

    def __init__(self, schema: pa.Schema, *, with_changes: bool) -> None:
        self.wanted = pa.schema(list(schema)[: -len(FEED_FIELDS)]) if with_changes else schema
        self.columns = [*self.wanted.names, *([_CREATED] if with_changes else [])]
        self._schema = schema
        self.with_changes = with_changes
        self._alignment: tuple[pa.Schema, Alignment] | None = None

    def apply(self, batch: pa.RecordBatch, part: Split) -> pa.RecordBatch:
        """Convert a batch of rows that one version added.

        Args:
            batch: The rows, with `columns`.
            part: The split, or one of the splits, that they belong to.

        Raises:
            SchemaMismatchError: The columns do not fit the schema.
        """
        rows = batch.select(self.wanted.names)
        arrays = [_cast_to_microseconds(array) for array in rows.columns]
        source = pa.schema([field.with_type(array.type) for field, array in zip(rows.schema, arrays, strict=True)])
        if self._alignment is None or not self._alignment[0].equals(source):
            self._alignment = source, Alignment(source, self.wanted)
        shaped = self._alignment[1].apply(pa.RecordBatch.from_arrays(arrays, schema=source))
        if not self.with_changes:
            return shaped
        is_new = pa.scalar(True) if part.is_snapshot else pc.equal(batch.column(_CREATED), part.commit)
        kinds = pc.if_else(is_new, pa.repeat(_INSERT, batch.num_rows), pa.repeat(_UPDATE, batch.num_rows))
        commits = pa.repeat(pa.scalar(part.commit, pa.int64()), batch.num_rows)
        return pa.RecordBatch.from_arrays([*shaped.columns, kinds, commits], schema=self._schema)


def _cast_to_microseconds(array: pa.Array) -> pa.Array:
    """Cast nanoseconds to microseconds: Spark has no finer times."""
    kind = in_microseconds(array.type)
    return array if kind.equals(array.type) else array.cast(kind, safe=False)


def in_microseconds(kind: pa.DataType) -> pa.DataType:
    """Return the type with nanoseconds replaced by microseconds, also inside nested types."""
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    if pa.types.is_duration(kind) and kind.unit == "ns":
        return pa.duration("us")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(in_microseconds(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(in_microseconds(kind.value_type)))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(in_microseconds(kind.value_type)))
    return kind
