"""Probe a location: create a table, land an epoch in it twice, and remove the table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import lance
import pyarrow as pa

from headrace.tables.commit.ledger import QueryRun, Task
from headrace.tables.commit.payload import AppendPayload
from headrace.tables.commit.protocol import EpochCommitter
from headrace.tables.lance_errors import translated
from headrace.tables.lance_store import LanceStore
from headrace.tables.location import Location
from headrace.tables.settings import Rules
from headrace.tables.write import create
from headrace.tables.write.data_files import write_rows

_SCHEMA = pa.schema([("x", pa.int64())])


@contextmanager
def probe_table(location: Location) -> Iterator[int]:
    """Create a table and land the same epoch twice, as after a crash; remove the table at the end.

    Yields:
        The number of rows in the table; 1 is correct.

    Raises:
        HeadraceError: The table cannot be created, written to or removed.
    """
    store = LanceStore(location)
    create.open_or_create(store, _SCHEMA, creates=True)
    try:
        batch = pa.record_batch([[1]], schema=_SCHEMA)
        for run in ("first", "second"):
            message = write_rows([batch], location, Task(0))
            EpochCommitter(store, Rules("doctor"), QueryRun(run)).commit(0, AppendPayload([message]))
        yield int(store.open().dataset.count_rows())
    finally:
        with translated(location, "removing the table"):
            lance.LanceDataset.drop(location.uri, storage_options=location.options())
