"""Tables are made, and given new columns, before rows are written to them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import lance
import pyarrow as pa
from lance.dataset import LanceDataset, LanceOperation

from headrace.arrow.align import Alignment
from headrace.errors import SchemaMismatchError, StorageError, TableNotFoundError
from headrace.tables.lance_store import LanceSnapshot, LanceStore, translated
from headrace.tables.location import Location
from headrace.tables.settings import FileSettings

_log = logging.getLogger("headrace.tables")


def open_or_create(
    store: LanceStore,
    schema: pa.Schema,
    *,
    creates: bool,
    settings: FileSettings = FileSettings(),  # noqa: B008 - frozen
    before_creation: Callable[[], None] = lambda: None,
) -> LanceSnapshot:
    """Open the table; if there is none and ``creates``, make an empty one of ``schema``.

    Args:
        store: The table.
        schema: The schema of one that is made.
        creates: Whether to make it.
        settings: How its files are cut.
        before_creation: Called before it is made; what it raises is raised, and nothing is made.

    Raises:
        TableNotFoundError: There is none, and it is not to be made.
        StorageError: It cannot be made.
    """
    try:
        return store.open()
    except TableNotFoundError:
        if not creates:
            raise
    before_creation()
    try:
        with translated(store.location, "creating the table"):
            _create(store.location, schema, settings)
        _log.info("Created the table %s.", store.location)
    except StorageError as error:
        # Another writer may have made it at the same moment; then theirs is used.
        try:
            return store.open()
        except TableNotFoundError:
            raise error from None
    return store.open()


def _create(location: Location, schema: pa.Schema, settings: FileSettings) -> None:
    arguments: dict[str, Any] = location.lance_arguments()
    if location.uri and settings.storage_version is None:
        # Of two that do this at once exactly one succeeds; a write in Lance's mode "create" may overwrite the other's.
        LanceDataset.commit(location.uri, LanceOperation.Overwrite(schema, []), max_retries=0, **arguments)
        return
    if settings.storage_version is not None:
        arguments["data_storage_version"] = settings.storage_version
    lance.write_dataset(schema.empty_table(), location.uri or None, mode="create", **arguments)


def require_fit(
    store: LanceStore, snapshot: LanceSnapshot, schema: pa.Schema, *, merges: bool, fills: bool = True
) -> LanceSnapshot:
    """Check that rows of ``schema`` fit the table; if ``merges``, add the columns it does not have.

    Returns:
        The table, which has the new columns.

    Raises:
        SchemaMismatchError: They do not fit.
    """
    for is_last in (False, False, True):
        new = [field for field in schema if field.name not in snapshot.schema.names]
        if not new or not merges:
            break
        known = pa.schema([field for field in schema if field.name in snapshot.schema.names])
        Alignment(known, snapshot.schema, fills=fills)
        try:
            with translated(store.location, "adding columns to the table"):
                snapshot.dataset.add_columns(pa.schema([field.with_nullable(True) for field in new]))
        except StorageError:
            # Another writer may have added them at the same moment.
            if is_last:
                raise
        snapshot = store.open()
    Alignment(schema, snapshot.schema, fills=fills)
    return snapshot


def require_keys(rows: pa.Schema, table: pa.Schema, keys: tuple[str, ...]) -> None:
    """Check that the table has the key columns, and that keys which differ in the rows differ in the table.

    Raises:
        SchemaMismatchError: Naming the column that the table does not have, or rounds.
    """
    for key in keys:
        if key not in table.names:
            raise SchemaMismatchError(
                f"Key column {key!r} is not in the table, whose columns are {', '.join(table.names)}."
            )
        source, target = rows.field(key).type, table.field(key).type
        if pa.types.is_floating(source) and pa.types.is_floating(target) and source.bit_width > target.bit_width:
            raise SchemaMismatchError(
                f"Key column {key!r} is {source} in the rows and {target} in the table: two keys could be rounded to "
                f"the same one.",
                hint=f"cast it to {target} in the query, where the rows of a key can be reduced to one.",
            )
