"""Protocols for objects that export Arrow data, for type annotations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeAlias

import pyarrow as pa


class ArrowStreamExportable(Protocol):
    """An object that exports a stream of batches through the Arrow PyCapsule interface.

    pyarrow's tables and readers, and the frames of Polars, pandas and DuckDB, are such objects.
    """

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule with an ``ArrowArrayStream``."""


class ArrowArrayExportable(Protocol):
    """An object that exports one batch through the Arrow PyCapsule interface, as ``pyarrow.RecordBatch`` does."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Return two capsules: an ``ArrowSchema`` and an ``ArrowArray``."""


class BatchReader(Protocol):
    """An object that is read batch by batch, as ``pyarrow.RecordBatchReader`` is; ``close`` is optional."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""

    def read_next_batch(self) -> pa.RecordBatch:
        """Return the next batch, or raise StopIteration at the end."""


# Data to write to a table.
ArrowExportable: TypeAlias = ArrowStreamExportable | ArrowArrayExportable
# Data that a scan of a provider returns.
BatchSource: TypeAlias = ArrowStreamExportable | ArrowArrayExportable | BatchReader | Iterable[pa.RecordBatch]
