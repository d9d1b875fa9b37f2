"""Scan a table batch by batch: planned on the driver, read on executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC
from typing import Any

import pyarrow as pa

from headrace.arrow.align import Alignment
from headrace.arrow.convert import is_blob
from headrace.errors import ConfigurationError, SchemaMismatchError, TableNotFoundError
from headrace.tables.lance_errors import translated
from headrace.tables.lance_store import LanceSnapshot, LanceStore
from headrace.tables.location import Location
from headrace.tables.read.batches import combined
from headrace.tables.read.changes import files_of, fragments_of, live_rows, size_of
from headrace.tables.read.shape import Shape, in_microseconds
from headrace.tables.read.splits import Split
from headrace.tables.read.versions import Versions
from headrace.tables.settings import ReadSettings

# The size of a batch for Spark, and how much Lance reads ahead.
_BATCH_BYTES = 4 * 1024 * 1024
_BATCH_ROWS = 64 * 1024
_BATCHES_AHEAD = 2
_FRAGMENTS_AHEAD = 8
_BUFFER_BYTES = 32 * 1024 * 1024


def open_for(settings: ReadSettings) -> LanceSnapshot:
    """Open the version that a batch read asks for.

    Raises:
        TableNotFoundError: The table does not exist.
        ConfigurationError: The table has no such version or tag, or none as old as the timestamp.
    """
    store = LanceStore(settings.location)
    newest = store.open()
    version = settings.version
    if settings.timestamp is not None:
        moment = settings.timestamp.astimezone(UTC)
        dates = newest.dates()
        version = max((number for number, made in dates.items() if made <= moment), default=None)
        if version is None:
            raise ConfigurationError(
                f"timestamp is {settings.timestamp.isoformat()}, but the oldest kept version of {settings.location} "
                f"is from {min(dates.values()).isoformat()}.",
            )
    if version is None:
        return newest
    if isinstance(version, str) and version not in (tags := _tags(newest)):
        raise ConfigurationError(
            f"There is no version {version!r} of {settings.location}.",
            hint=f"its tags are {', '.join(sorted(tags))}." if tags else "it has no tags; give a version number.",
        )
    try:
        return store.open(version=version)
    except TableNotFoundError:
        kept = newest.kept_versions(0)
        raise ConfigurationError(
            f"There is no version {version!r} of {settings.location}.",
            hint=f"the oldest kept version is {kept[-1]}, the newest {kept[0]}; cleanup may have removed some between.",
        ) from None


def _tags(snapshot: LanceSnapshot) -> list[str]:
    with translated(snapshot.location, "listing the tags"):
        return list(snapshot.dataset.tags.list())


def table_schema(snapshot: LanceSnapshot, columns: tuple[str, ...]) -> pa.Schema:
    """Return the schema of the given columns; of all if none are given.

    Raises:
        ConfigurationError: The table does not have one of them.
    """
    schema = snapshot.schema
    for name in columns:
        if name not in schema.names:
            raise ConfigurationError(
                f"The columns option names {name!r}, but the table's columns are {', '.join(schema.names)}."
            )
    return pa.schema([schema.field(name) for name in columns]) if columns else schema


def whole_table(snapshot: LanceSnapshot, *, is_filtered: bool) -> list[Split]:
    """Return all rows of one version as splits; with a filter, each must be a whole fragment, not a row range."""
    found = []
    version = snapshot.version
    for fragment in fragments_of(snapshot):
        if rows := live_rows(fragment):
            limit = None if is_filtered else rows
            size, files = size_of(fragment), files_of(fragment)
            found.append(Split(version, fragment.id, 0, limit, size, version, files, is_whole=True))
    return found


def read(
    splits: Iterable[Split], location: Location, schema: pa.Schema, *, condition: str = "", with_changes: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the given splits, in their order.

    Args:
        splits: The rows to read.
        location: The table.
        schema: The schema of the batches.
        condition: A filter in Lance's SQL; with one, splits must be whole fragments.
        with_changes: Whether the schema ends with the columns ``_change_type`` and ``_commit_version``.

    Raises:
        DataLossError: A version was removed by a cleanup.
        SchemaMismatchError: The columns do not fit the schema.
        StorageError: The table cannot be read.
    """
    shape = Shape(schema, with_changes=with_changes)
    versions = Versions(LanceStore(location))
    for snapshot, parts in versions.scans(splits, by_commit=shape.with_changes):
        first = parts[0]
        require_columns(shape.wanted, snapshot.schema, f"version {first.version} of {location}")
        with translated(location, f"reading fragment {first.fragment} of version {first.version}"):
            batches = _scanner(snapshot.dataset, parts, shape.columns, condition).to_batches()
            for batch in combined(batches, rows=_BATCH_ROWS, size=_BATCH_BYTES):
                yield shape.apply(batch, first)


def _scanner(dataset: Any, parts: Sequence[Split], columns: list[str], condition: str) -> Any:
    arguments = {
        "columns": columns,
        "filter": condition or None,
        "batch_size": _BATCH_ROWS,
        "batch_size_bytes": _BATCH_BYTES,
        "batch_readahead": _BATCHES_AHEAD,
        "io_buffer_size": _BUFFER_BYTES,
        "blob_handling": "all_binary",
    }
    fragments = [dataset.get_fragment(part.fragment) for part in parts]
    if len(parts) > 1:
        return dataset.scanner(
            fragments=fragments, scan_in_order=True, fragment_readahead=_FRAGMENTS_AHEAD, **arguments
        )
    return fragments[0].scanner(offset=parts[0].start or None, limit=parts[0].rows, **arguments)


def require_fit(wanted: pa.Schema, found: pa.Schema, where: str) -> None:
    """Check that a table's columns can be read with the wanted schema.

    Raises:
        SchemaMismatchError: A column is missing, or its type cannot be converted.
    """
    require_columns(wanted, found, where)
    fields = [found.field(name) for name in wanted.names]
    Alignment(pa.schema([field.with_type(_scanned(field.type)) for field in fields]), wanted)


def _scanned(kind: pa.DataType) -> pa.DataType:
    """Return the type that a column has in a scan, which reads the content of blobs."""
    return pa.large_binary() if is_blob(kind) else in_microseconds(kind)


def require_columns(wanted: pa.Schema, found: pa.Schema, where: str) -> None:
    """Check that no wanted column is missing.

    Raises:
        SchemaMismatchError: A column is missing.
    """
    missing = [name for name in wanted.names if name not in found.names]
    if missing:
        raise SchemaMismatchError(
            f"Column {missing[0]!r} is not in {where}, whose columns are {', '.join(found.names)}.",
            hint="remove it from the schema or from the columns option.",
        )
