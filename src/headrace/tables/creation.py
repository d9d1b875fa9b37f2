"""Tables are made, and given new columns, before rows are written to them."""

from __future__ import annotations

import logging
from typing import Any

import lance
import pyarrow as pa

from headrace._errors import SchemaMismatchError, StorageError, TableNotFoundError
from headrace.tables.align import Alignment
from headrace.tables.lance_store import LanceSnapshot, LanceStore, translated
from headrace.tables.settings import FileSettings

_log = logging.getLogger("headrace.tables")


def open_or_create(
    store: LanceStore,
    schema: pa.Schema,
    *,
    creates: bool,
    settings: FileSettings = FileSettings(),  # noqa: B008 - frozen
) -> LanceSnapshot:
    """Open the table; if there is none and ``creates``, make an empty one of ``schema``.

    Raises:
        TableNotFoundError: There is none, and it is not to be made.
        StorageError: It cannot be made.
    """
    try:
        return store.open()
    except TableNotFoundError:
        if not creates:
            raise
    arguments: dict[str, Any] = store.location.lance_arguments()
    if settings.storage_version is not None:
        arguments["data_storage_version"] = settings.storage_version
    try:
        with translated(store.location, "creating the table"):
            lance.write_dataset(schema.empty_table(), store.location.uri or None, mode="create", **arguments)
        _log.info("Created the table %s.", store.location)
    except StorageError as error:
        # Another writer may have made it at the same moment; then theirs is used.
        try:
            return store.open()
        except TableNotFoundError:
            raise error from None
    return store.open()


def require_fit(
    store: LanceStore, snapshot: LanceSnapshot, schema: pa.Schema, *, merges: bool, fills: bool = True
) -> LanceSnapshot:
    """Check that rows of ``schema`` fit the table; if ``merges``, add the columns it does not have.

    Returns:
        The table, which has the new columns.

    Raises:
        SchemaMismatchError: They do not fit.
    """
    new = [field for field in schema if field.name not in snapshot.schema.names]
    if new and merges:
        known = pa.schema([field for field in schema if field.name in snapshot.schema.names])
        Alignment(known, snapshot.schema, fills=fills)
        with translated(store.location, "adding columns to the table"):
            snapshot.dataset.add_columns(pa.schema([field.with_nullable(True) for field in new]))
        snapshot = store.open()
    Alignment(schema, snapshot.schema, fills=fills)
    return snapshot


def require_keys(schema: pa.Schema, keys: tuple[str, ...]) -> None:
    """Check that the table has the key columns.

    Raises:
        SchemaMismatchError: Naming the one it does not have.
    """
    for key in keys:
        if key not in schema.names:
            raise SchemaMismatchError(
                f"Key column {key!r} is not in the table, whose columns are {', '.join(schema.names)}."
            )
