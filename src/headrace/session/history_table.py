"""The history of a Lance table as a table with one row per version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.engine.tables import ScanRequest
from headrace.session.provider import TableProvider

if TYPE_CHECKING:
    from headrace.tables.manage.history import Event

SCHEMA = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        pa.field("made", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("what", pa.string(), nullable=False),
        ("query", pa.string()),
        ("epoch", pa.int64()),
        ("rows", pa.int64()),
        ("files", pa.int64()),
        ("run", pa.string()),
        ("checkpoint", pa.string()),
        ("skipped", pa.string()),
        ("empty", pa.string()),
    ]
)

_ROWS_AT_ONCE = 256


class TableHistory(TableProvider):
    """Reads the history of a Lance table for every scan, newest version first."""

    def __init__(self, uri: str, storage_options: Mapping[str, str]) -> None:
        from headrace.tables.lance_store import LanceStore
        from headrace.tables.location import Location

        self._store = LanceStore(Location(uri, dict(storage_options)))
        self._store.open()

    def schema(self) -> pa.Schema:
        """Return the schema: the version, and the facts recorded about it."""
        return SCHEMA

    def scan(self) -> Iterator[pa.RecordBatch]:
        """Read every version."""
        return self._events(None)

    def scan_with(self, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        """Read as many versions as the query needs."""
        return self._events(request.limit)

    def _events(self, limit: int | None) -> Iterator[pa.RecordBatch]:
        from headrace.tables.manage import history

        events = history.events(self._store, last=limit)
        while some := list(islice(events, _ROWS_AT_ONCE)):
            yield pa.RecordBatch.from_pylist([_row(event) for event in some], schema=SCHEMA)


def _row(event: Event) -> dict[str, Any]:
    row = {name: getattr(event, name) for name in SCHEMA.names}
    return row | {"skipped": str(event.skipped) or None, "empty": str(event.empty) or None}
