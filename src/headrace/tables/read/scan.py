"""Scan a table batch by batch: planned on the driver, read on executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.align import Alignment
from headrace.arrow.convert import is_blob
from headrace.errors import ConfigurationError, DataLossError, SchemaMismatchError, TableNotFoundError
from headrace.tables.lance_errors import translated
from headrace.tables.lance_store import LanceSnapshot, LanceStore
from headrace.tables.location import Location
from headrace.tables.read.changes import files_of, fragments_of, is_untouched, live_rows, size_of
from headrace.tables.read.splits import Split
from headrace.tables.settings import ReadSettings

CHANGE_TYPE = "_change_type"
COMMIT_VERSION = "_commit_version"
FEED_FIELDS = (pa.field(CHANGE_TYPE, pa.string()), pa.field(COMMIT_VERSION, pa.int64()))

_CREATED = "_row_created_at_version"
_INSERT = "insert"
_UPDATE = "update_postimage"

# The size of a batch for Spark, and how much Lance reads ahead.
_BATCH_BYTES = 4 * 1024 * 1024
_BATCH_ROWS = 64 * 1024
_BATCHES_AHEAD = 2
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
            found.append(Split(version, fragment.id, 0, limit, size_of(fragment), version, files_of(fragment)))
    return found


def read(
    splits: Iterable[Split], location: Location, schema: pa.Schema, *, condition: str = "", with_changes: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the given splits.

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
    versions = _Versions(LanceStore(location))
    wanted = pa.schema(list(schema)[: -len(FEED_FIELDS)]) if with_changes else schema
    columns = [*wanted.names, *([_CREATED] if with_changes else [])]
    for part in splits:
        dataset = versions.dataset(part)
        require_columns(wanted, dataset.schema, f"version {part.version} of {location}")
        with translated(location, f"reading fragment {part.fragment} of version {part.version}"):
            scanner = dataset.get_fragment(part.fragment).scanner(
                columns=columns,
                filter=condition or None,
                offset=part.start or None,
                limit=part.rows,
                batch_size=_BATCH_ROWS,
                batch_size_bytes=_BATCH_BYTES,
                batch_readahead=_BATCHES_AHEAD,
                io_buffer_size=_BUFFER_BYTES,
                blob_handling="all_binary",
            )
            for batch in scanner.to_batches():
                if batch.num_rows:
                    yield _shaped(batch, wanted, schema, part if with_changes else None)


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


class _Versions:
    """The versions that splits refer to, each opened once."""

    def __init__(self, store: LanceStore) -> None:
        self._store = store
        self._opened: dict[int | None, LanceSnapshot | None] = {}

    def dataset(self, part: Split) -> Any:
        """Return the split's version; if it was removed, the newest one, if the fragment is untouched there.

        Raises:
            DataLossError: The version was removed, and the newest one does not have the fragment unchanged.
        """
        snapshot = self._open(part.version)
        if snapshot is None:
            snapshot = self._open(None)
            fragments = [] if snapshot is None else fragments_of(snapshot)
            if not any(each.id == part.fragment and is_untouched(each, part.files) for each in fragments):
                raise DataLossError(
                    f"Version {part.version} of {self._store.location} was removed by a cleanup while it was read.",
                    hint="restart the query; keep versions for longer than a query needs to read them.",
                )
        assert snapshot is not None
        return snapshot.dataset

    def _open(self, version: int | None) -> LanceSnapshot | None:
        if version not in self._opened:
            try:
                self._opened[version] = self._store.open(version=version)
            except TableNotFoundError:
                self._opened[version] = None
        return self._opened[version]


def _shaped(batch: pa.RecordBatch, wanted: pa.Schema, schema: pa.Schema, part: Split | None) -> pa.RecordBatch:
    created = batch.column(_CREATED) if part is not None else None
    rows = batch.select(wanted.names)
    arrays = [_cast_to_microseconds(array) for array in rows.columns]
    source = pa.schema([field.with_type(array.type) for field, array in zip(rows.schema, arrays, strict=True)])
    shaped = Alignment(source, wanted).apply(pa.RecordBatch.from_arrays(arrays, schema=source))
    if part is None:
        return shaped
    is_new = pa.scalar(True) if part.is_snapshot else pc.equal(created, part.commit)
    kinds = pc.if_else(is_new, pa.repeat(_INSERT, batch.num_rows), pa.repeat(_UPDATE, batch.num_rows))
    commits = pa.repeat(pa.scalar(part.commit, pa.int64()), batch.num_rows)
    return pa.RecordBatch.from_arrays([*shaped.columns, kinds, commits], schema=schema)


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
