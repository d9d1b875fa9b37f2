"""Create a table, and add columns to one, before rows are written to it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import lance
import pyarrow as pa
from lance.dataset import LanceDataset, LanceOperation

from headrace.arrow.align import Alignment
from headrace.errors import SchemaMismatchError, StorageError, TableNotFoundError
from headrace.tables.lance_errors import translated
from headrace.tables.lance_store import LanceSnapshot, LanceStore, no_table
from headrace.tables.location import Location
from headrace.tables.settings import FileSettings
from headrace.tables.spelling import Words

_log = logging.getLogger("headrace.tables")


def open_or_create(
    store: LanceStore,
    schema: pa.Schema,
    *,
    creates: bool,
    settings: FileSettings = FileSettings(),  # noqa: B008 - frozen
    words: Words = Words(),  # noqa: B008 - frozen
    before_creation: Callable[[], None] = lambda: None,
) -> LanceSnapshot:
    """Open the table; if it does not exist and ``creates`` is true, create an empty one with ``schema``.

    Args:
        store: The table.
        schema: The schema of a new table.
        creates: Whether to create a table that does not exist.
        settings: The file format version of a new table.
        words: How hints name settings.
        before_creation: Called before the table is created. If it raises, nothing is created.

    Raises:
        TableNotFoundError: The table does not exist, and ``creates`` is false.
        StorageError: The table cannot be created.
    """
    try:
        return store.open()
    except TableNotFoundError:
        if not creates:
            hint = f"check the path, create the table, or set {words.create_table}."
            raise no_table(store.location, hint) from None
    before_creation()
    try:
        with translated(store.location, "creating the table"):
            _create(store.location, schema, settings)
        _log.info("Created the table %s.", store.location)
    except StorageError as error:
        # Another writer may have created it at the same time; then use that one.
        try:
            return store.open()
        except TableNotFoundError:
            raise error from None
    return store.open()


def _create(location: Location, schema: pa.Schema, settings: FileSettings) -> None:
    arguments: dict[str, Any] = location.lance_arguments()
    if location.uri and settings.storage_version is None:
        # Of two concurrent commits exactly one succeeds; of two writes in mode "create", one may overwrite the other.
        LanceDataset.commit(location.uri, LanceOperation.Overwrite(schema, []), max_retries=0, **arguments)
        return
    if settings.storage_version is not None:
        arguments["data_storage_version"] = settings.storage_version
    lance.write_dataset(schema.empty_table(), location.uri or None, mode="create", **arguments)


def require_fit(
    store: LanceStore,
    snapshot: LanceSnapshot,
    schema: pa.Schema,
    *,
    new: pa.Schema | None = None,
    merges: bool,
    fills: bool = True,
    words: Words = Words(),  # noqa: B008 - frozen
) -> LanceSnapshot:
    """Check that rows with ``schema`` fit the table; if ``merges`` is true, first add the columns it does not have.

    Args:
        store: The table.
        snapshot: Its newest version.
        schema: The rows' schema.
        new: The schema that a new table would have; None for the rows'.
        merges: Whether to add columns.
        fills: Whether columns that the rows do not have are filled with null.
        words: How hints name settings.

    Returns:
        A snapshot of the table with the new columns.

    Raises:
        SchemaMismatchError: The rows do not fit.
        StorageError: The columns cannot be added.
    """
    for is_last in (False, False, True):
        missing = [field for field in new or schema if field.name not in snapshot.schema.names]
        if not missing or not merges:
            break
        known = pa.schema([field for field in schema if field.name in snapshot.schema.names])
        Alignment(known, snapshot.schema, fills=fills)
        try:
            with translated(store.location, "adding columns to the table"):
                snapshot.dataset.add_columns(pa.schema([field.with_nullable(True) for field in missing]))
        except StorageError:
            # Another writer may have added them at the same time.
            if is_last:
                raise
        snapshot = store.open()
    Alignment(schema, snapshot.schema, fills=fills, add_setting=words.merge_schema)
    return snapshot


def require_keys(rows: pa.Schema, table: pa.Schema, keys: tuple[str, ...]) -> None:
    """Check that the table has the key columns, and that keys that differ in the rows also differ in the table.

    Raises:
        SchemaMismatchError: The table does not have a key column, or would round its values.
    """
    for key in keys:
        if key not in table.names:
            raise SchemaMismatchError(
                f"Key column {key!r} is not in the table, whose columns are {', '.join(table.names)}."
            )
        source, target = rows.field(key).type, table.field(key).type
        if pa.types.is_floating(source) and pa.types.is_floating(target) and source.bit_width > target.bit_width:
            raise SchemaMismatchError(
                f"Key column {key!r} is {source} in the rows and {target} in the table: rounding could make two keys "
                f"equal.",
                hint=f"cast it to {target} in the query, and keep one row per key there.",
            )
