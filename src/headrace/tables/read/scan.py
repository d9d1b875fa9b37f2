"""Rows out of a table, batch by batch. Planned on the driver, read on executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.align import Alignment
from headrace.arrow.convert import is_blob
from headrace.errors import ConfigurationError, DataLossError, SchemaMismatchError, TableNotFoundError
from headrace.tables.lance_store import LanceSnapshot, LanceStore, translated
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

# A batch on its way to Spark, and what Lance reads ahead for it.
_BATCH_BYTES = 4 * 1024 * 1024
_BATCH_ROWS = 64 * 1024
_BATCHES_AHEAD = 2
_BUFFER_BYTES = 32 * 1024 * 1024


def open_for(settings: ReadSettings) -> LanceSnapshot:
    """The version that a batch read is about.

    Raises:
        TableNotFoundError: There is no table.
        ConfigurationError: There is no such version.
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
                f"timestamp is {settings.timestamp.isoformat()}, and the oldest version of {settings.location} that is "
                f"kept was made at {min(dates.values()).isoformat()}.",
            )
    if version is None:
        return newest
    if isinstance(version, str) and version not in (tags := _tags(newest)):
        raise ConfigurationError(
            f"There is no version {version!r} of {settings.location}.",
            hint=f"its tags are {', '.join(sorted(tags))}." if tags else "it has no tags; name a version's number.",
        )
    try:
        return store.open(version=version)
    except TableNotFoundError:
        kept = newest.kept_versions(0)
        raise ConfigurationError(
            f"There is no version {version!r} of {settings.location}.",
            hint=f"the versions that are kept are {kept[-1]} to {kept[0]}, as far as none between them was cleaned up.",
        ) from None


def _tags(snapshot: LanceSnapshot) -> list[str]:
    with translated(snapshot.location, "listing the tags"):
        return list(snapshot.dataset.tags.list())


def table_schema(snapshot: LanceSnapshot, columns: tuple[str, ...]) -> pa.Schema:
    """The schema of some columns, or of all.

    Raises:
        ConfigurationError: One of them is not there.
    """
    schema = snapshot.schema
    for name in columns:
        if name not in schema.names:
            raise ConfigurationError(
                f"columns names {name!r}, and the columns of the table are {', '.join(schema.names)}."
            )
    return pa.schema([schema.field(name) for name in columns]) if columns else schema


def whole_table(snapshot: LanceSnapshot, *, is_filtered: bool) -> list[Split]:
    """All rows of one version; where they are filtered, fragments cannot be cut by row numbers."""
    found = []
    version = snapshot.version
    for fragment in fragments_of(snapshot):
        if rows := live_rows(fragment):
            taken = None if is_filtered else rows
            found.append(Split(version, fragment.id, 0, taken, size_of(fragment), version, files_of(fragment)))
    return found


def read(
    splits: Iterable[Split], location: Location, schema: pa.Schema, *, condition: str = "", with_changes: bool = False
) -> Iterator[pa.RecordBatch]:
    """The rows of some splits.

    Args:
        splits: Which rows.
        location: The table.
        schema: What the batches are to be.
        condition: Rows that do not meet it are left out; then splits are whole fragments.
        with_changes: Whether the schema's last columns say what became of a row, and in which version.

    Raises:
        DataLossError: The version was cleaned up.
        SchemaMismatchError: The columns do not fit the schema.
        StorageError: The table cannot be read.
    """
    versions = _Versions(LanceStore(location))
    wanted = pa.schema(list(schema)[: -len(FEED_FIELDS)]) if with_changes else schema
    columns = [*wanted.names, *([_CREATED] if with_changes else [])]
    for part in splits:
        dataset = versions.holding(part)
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
    """Check that a table's columns can be read as what is wanted.

    Raises:
        SchemaMismatchError: A column is not there, or of another kind.
    """
    require_columns(wanted, found, where)
    fields = [found.field(name) for name in wanted.names]
    Alignment(pa.schema([field.with_type(_scanned(field.type)) for field in fields]), wanted)


def _scanned(kind: pa.DataType) -> pa.DataType:
    """The type a column has in a scan, which reads the content of blobs."""
    return pa.large_binary() if is_blob(kind) else in_microseconds(kind)


def require_columns(wanted: pa.Schema, found: pa.Schema, where: str) -> None:
    """Check that columns are still there."""
    missing = [name for name in wanted.names if name not in found.names]
    if missing:
        raise SchemaMismatchError(
            f"Column {missing[0]!r} is not in {where}, whose columns are {', '.join(found.names)}.",
            hint="leave it out of the schema or the columns option.",
        )


class _Versions:
    """The versions that splits are of, each opened once."""

    def __init__(self, store: LanceStore) -> None:
        self._store = store
        self._opened: dict[int | None, LanceSnapshot | None] = {}

    def holding(self, part: Split) -> Any:
        """The version of a slice; if that was cleaned up, the newest, where the slice is there as it was."""
        snapshot = self._open(part.version)
        if snapshot is None:
            snapshot = self._open(None)
            fragments = [] if snapshot is None else fragments_of(snapshot)
            if not any(each.id == part.fragment and is_untouched(each, part.files) for each in fragments):
                raise DataLossError(
                    f"Version {part.version} of {self._store.location} was cleaned up while it was read.",
                    hint="restart the query; keep versions for longer than a query takes to read them.",
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
    arrays = [_coarser(array) for array in rows.columns]
    source = pa.schema([field.with_type(array.type) for field, array in zip(rows.schema, arrays, strict=True)])
    shaped = Alignment(source, wanted).apply(pa.RecordBatch.from_arrays(arrays, schema=source))
    if part is None:
        return shaped
    is_new = pa.scalar(True) if part.is_snapshot else pc.equal(created, part.commit)
    kinds = pc.if_else(is_new, pa.repeat(_INSERT, batch.num_rows), pa.repeat(_UPDATE, batch.num_rows))
    rowless_before = [kinds, pa.repeat(pa.scalar(part.commit, pa.int64()), batch.num_rows)]
    return pa.RecordBatch.from_arrays([*shaped.columns, *rowless_before], schema=schema)


def _coarser(array: pa.Array) -> pa.Array:
    """Times in microseconds, which is all Spark has."""
    kind = in_microseconds(array.type)
    return array if kind.equals(array.type) else array.cast(kind, safe=False)


def in_microseconds(kind: pa.DataType) -> pa.DataType:
    """The same type with nanoseconds made microseconds, inside of nested types too."""
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
