"""A table in memory that keeps the contract of a store, with Lance's rules about what conflicts with what.

It is a fake of our own seam only: what is shown on it is true of Lance because one contract suite runs on both.
Everything in it is deterministic, and a table can be shared by any number of stores.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import pyarrow as pa

from headrace.errors import CommitConflictError, StorageError, TableNotFoundError
from headrace.tables.store import Append, Column, Entry, Fence, Kind, Merge, Operation, Published, Replace

Fragment = Mapping[str, Any]


class Did(Enum):
    """What a version did, as finely as Lance tells changes apart."""

    APPEND = Kind.APPEND, "append"
    OVERWRITE = Kind.REPLACE, "overwrite"
    RESTORE = Kind.RESTORE, "restore"
    FENCE = Kind.PROJECT, "fence"
    PROJECT = Kind.PROJECT, "drop or rename columns"
    MERGE = Kind.OTHER, "add or retype columns"
    UPDATE = Kind.OTHER, "update or merge rows"
    DELETE = Kind.OTHER, "delete rows"
    REWRITE = Kind.OTHER, "compact"
    CONFIG = Kind.OTHER, "change settings or indices"

    @property
    def kind(self) -> Kind:
        return self.value[0]


_FATAL = {Did.OVERWRITE, Did.RESTORE}
_RETRYABLE = {
    Append: {Did.FENCE},
    Fence: {Did.APPEND, Did.FENCE, Did.PROJECT, Did.MERGE, Did.UPDATE},
    Merge: {Did.FENCE, Did.MERGE, Did.REWRITE},
}


@dataclass(frozen=True)
class Version:
    """A version: what it did, and the table as it is in it. ``gone`` are rows that were deleted from fragments."""

    entry: Entry
    did: Did
    schema: pa.Schema
    columns: Mapping[int, Column]
    fragments: tuple[Fragment, ...] = ()
    gone: frozenset[tuple[str, int]] = frozenset()
    touched: frozenset[tuple[str, int]] = frozenset()

    @property
    def files(self) -> set[str]:
        return {file["path"] for fragment in self.fragments for file in fragment["files"]}


@dataclass(frozen=True)
class MergedRows:
    """A merge as it was worked out against one version."""

    read_version: int
    removed: frozenset[tuple[str, int]]
    fragments: tuple[Fragment, ...]


@dataclass
class MemoryTable:
    """The table itself: kept versions, data files with their rows, notes, tags."""

    versions: dict[int, Version] = field(default_factory=dict)
    files: dict[str, tuple[int, ...]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    tags: set[int] = field(default_factory=set)
    _numbers: Any = field(default_factory=itertools.count)

    @property
    def newest(self) -> Version:
        return self.versions[max(self.versions)]

    def create(self, schema: pa.Schema) -> None:
        """Create or recreate the table: nothing of the earlier one is kept, not even its notes."""
        self.drop()
        columns = dict(enumerate(Column(each.name, str(each.type), each.nullable) for each in schema))
        self.add(Did.OVERWRITE, schema=schema, columns=columns, fragments=(), gone=frozenset())

    def drop(self) -> None:
        self.versions, self.files, self.notes, self.tags = {}, {}, {}, set()

    def write_file(self, rows: Iterable[int]) -> Fragment:
        """A data file that no version knows yet."""
        path, rows = f"file-{next(self._numbers)}.lance", tuple(rows)
        self.files[path] = rows
        return {"physical_rows": len(rows), "files": [{"path": path}]}

    def add(
        self,
        did: Did,
        *,
        at: int | None = None,
        properties: Mapping[str, str] | None = None,
        restored: int | None = None,
        touched: frozenset[tuple[str, int]] = frozenset(),
        **changed: Any,
    ) -> Published:
        """Make a version on top of the newest, or in a hole where Lance would do that too."""
        number = at or max(self.versions, default=0) + 1
        entry = Entry(number, f"uuid-{next(self._numbers)}", did.kind, dict(properties or {}), restored)
        if self.versions:
            self.versions[number] = replace(self.newest, entry=entry, did=did, touched=touched, **changed)
        else:
            self.versions[number] = Version(entry, did, **changed)
        return Published(number, entry.uuid)

    def rows(self, version: int | None = None) -> list[int]:
        """The rows of a version; a data file that is gone makes it unreadable."""
        seen = self.newest if version is None else self.versions[version]
        return sorted(row for path, row in self.places(seen))

    def places(self, version: Version) -> list[tuple[str, int]]:
        every = [file["path"] for fragment in version.fragments for file in fragment["files"]]
        missing = [path for path in every if path not in self.files]
        if missing:
            raise StorageError(f"Data file {missing[0]} was not found.")
        return [(path, row) for path in every for row in self.files[path] if (path, row) not in version.gone]

    def clean(self, retain: int, *, unverified: bool = False) -> None:
        """Remove all but the newest versions and the tagged ones, and the files only they need."""
        kept = set(sorted(self.versions)[-retain:]) | self.tags
        known = {path for version in self.versions.values() for path in version.files}
        self.versions = {number: version for number, version in self.versions.items() if number in kept}
        needed = {path for version in self.versions.values() for path in version.files}
        gone = known - needed | (set() if not unverified else set(self.files) - needed)
        self.files = {path: rows for path, rows in self.files.items() if path not in gone}


@dataclass(frozen=True)
class MemorySnapshot:
    """The table as it was; its history is read when it is asked for, as Lance does."""

    table: MemoryTable
    seen: Version

    @property
    def version(self) -> int:
        return self.seen.entry.version

    @property
    def schema(self) -> pa.Schema:
        return self.seen.schema

    def columns(self) -> Mapping[int, Column]:
        return self.seen.columns

    def columns_of_new(self, schema: pa.Schema) -> Mapping[int, Column]:
        return dict(enumerate(Column(each.name, str(each.type), each.nullable) for each in schema))

    def entry(self, version: int) -> Entry | None:
        found = self.table.versions.get(version)
        return found.entry if found else None

    def kept_versions(self, above: int) -> Sequence[int]:
        return sorted((number for number in self.table.versions if above < number <= self.version), reverse=True)

    def latest(self) -> int:
        return self.table.newest.entry.version

    def tagged(self) -> set[int]:
        return self.table.tags

    def data_files(self, version: int) -> set[str]:
        found = self.table.versions.get(version)
        return found.files if found else set()


class MemoryStore:
    """A store on a table in memory."""

    def __init__(self, table: MemoryTable) -> None:
        self.table = table

    def open(self) -> MemorySnapshot:
        if not self.table.versions:
            raise TableNotFoundError("There is no table in memory.")
        return MemorySnapshot(self.table, self.table.newest)

    def publish(self, operation: Operation, *, read_version: int, properties: Mapping[str, str]) -> Published:
        table = self.table
        newest = self.open().version
        if isinstance(operation, Merge):
            read_version = operation.transaction.read_version
        if read_version not in table.versions:
            if newest > read_version:
                raise CommitConflictError(f"Version {read_version} was cleaned up.", retryable=True)
            raise StorageError(f"There is no version {read_version}.")
        if isinstance(operation, Replace):
            return self._replace(operation, read_version, properties)
        self._require_no_conflict(operation, read_version)
        if isinstance(operation, Fence):
            return table.add(Did.FENCE, properties=properties)
        if isinstance(operation, Append):
            fragments = table.newest.fragments + tuple(operation.fragments)
            return table.add(Did.APPEND, properties=properties, fragments=fragments)
        merged: MergedRows = operation.transaction
        return table.add(
            Did.UPDATE,
            properties=properties,
            fragments=table.newest.fragments + merged.fragments,
            gone=table.newest.gone | merged.removed,
            touched=merged.removed,
        )

    def _replace(self, operation: Replace, read_version: int, properties: Mapping[str, str]) -> Published:
        if read_version + 1 in self.table.versions:
            raise CommitConflictError(f"Version {read_version + 1} was made meanwhile.", retryable=True)
        columns = self.open().columns_of_new(operation.schema)
        return self.table.add(
            Did.OVERWRITE,
            at=read_version + 1,
            properties=properties,
            schema=operation.schema,
            columns=columns,
            fragments=tuple(operation.fragments),
            gone=frozenset(),
        )

    def _require_no_conflict(self, operation: Operation, read_version: int) -> None:
        """What came since, as far as it is kept: versions that cleanup removed conflict with nothing."""
        for number in sorted(self.table.versions):
            other = self.table.versions[number]
            if number <= read_version:
                continue
            if other.did in _FATAL:
                raise CommitConflictError(f"Version {number} did {other.did.value[1]}.", retryable=False)
            overlaps = isinstance(operation, Merge) and bool(other.touched & operation.transaction.removed)
            if other.did in _RETRYABLE[type(operation)] or overlaps:
                raise CommitConflictError(f"Version {number} did {other.did.value[1]}.", retryable=True)

    def missing_files(self, files: Sequence[str]) -> list[str]:
        return [file for file in files if file not in self.table.files]

    def delete_files(self, files: Sequence[str]) -> None:
        for file in files:
            self.table.files.pop(file, None)

    def list_notes(self) -> list[str]:
        return sorted(self.table.notes)

    def delete_note(self, name: str) -> None:
        self.table.notes.pop(name, None)

    def read_note(self, name: str) -> str | None:
        return self.table.notes.get(name)

    def write_note(self, name: str, text: str) -> None:
        self.open()
        self.table.notes[name] = text
