"""The interface between the commit protocol and a table.

The Lance table (`lance_store`) and the in-memory table of the simulation tests implement the same contract, so what
the simulation shows about the protocol also applies to Lance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import pyarrow as pa


class Kind(Enum):
    """The kind of a version's transaction, as far as the commit protocol distinguishes them."""

    APPEND = "append"
    REPLACE = "overwrite"
    RESTORE = "restore"
    PROJECT = "project"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Column:
    """A column when rows were written; compared at commit to detect that the table's schema has changed."""

    name: str
    type: str
    is_nullable: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """One version in the table's history.

    Attributes:
        version: The version number.
        uuid: The id of its transaction.
        kind: The kind of its transaction.
        properties: The transaction's properties.
        restored: For a restore, the version that was restored.
    """

    version: int
    uuid: str
    kind: Kind
    properties: Mapping[str, str] = field(default_factory=dict)
    restored: int | None = None


@dataclass(frozen=True, slots=True)
class Append:
    """Add rows. Lance rebases it onto concurrent appends; a concurrent fence makes it fail."""

    fragments: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Replace:
    """Replace all rows. Any concurrent version makes it fail."""

    schema: pa.Schema
    fragments: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Merge:
    """Update and insert rows, as Lance planned it against one version. A concurrent fence makes it fail."""

    transaction: Any


@dataclass(frozen=True, slots=True)
class Fence:
    """Change no rows, but make every append and merge in flight fail. Fails if one of them was committed first."""


Operation = Append | Replace | Merge | Fence


@dataclass(frozen=True, slots=True)
class Published:
    """A version that was committed, and the id of its transaction."""

    version: int
    uuid: str


class Snapshot(Protocol):
    """The table as it was when it was opened."""

    @property
    def version(self) -> int:
        """The version that was opened."""

    @property
    def schema(self) -> pa.Schema:
        """The table's schema, with metadata."""

    def columns(self) -> Mapping[int, Column]:
        """Return the columns by field id, nested ones included."""

    def columns_of_new(self, schema: pa.Schema) -> Mapping[int, Column]:
        """Return the columns, by field id, of a table newly created with ``schema``."""

    def entry(self, version: int) -> Entry | None:
        """Return one version of the history; None if cleanup has removed it."""

    def kept_versions(self, above: int) -> Sequence[int]:
        """Return the kept versions greater than ``above``, newest first."""

    def latest(self) -> int:
        """Return the table's newest version now, which may be newer than this one."""

    def tagged(self) -> Set[int]:
        """Return the versions that have a tag now; cleanup keeps them."""

    def data_files(self, version: int) -> Set[str]:
        """Return the data files that a version has now; empty if cleanup has removed it."""


class Store(Protocol):
    """A table that can be read and changed."""

    def open(self) -> Snapshot:
        """Open the newest version, without a cache.

        Raises:
            TableNotFoundError: The table does not exist.
            StorageError: The table cannot be read.
        """

    def publish(self, operation: Operation, *, read_version: int, properties: Mapping[str, str]) -> Published:
        """Commit one new version.

        Raises:
            CommitConflictError: A concurrent transaction conflicts. The version was not committed.
            StorageError: The commit failed, and the version is not in the table.
            CommitUnknownError: The commit failed, and the table cannot be read to find out whether it landed.
        """

    def missing_files(self, files: Sequence[str]) -> list[str]:
        """Return the data files among ``files`` that do not exist."""

    def delete_files(self, files: Sequence[str]) -> None:
        """Delete data files, best effort; files that do not exist are ignored."""

    def list_notes(self) -> Sequence[str]:
        """Return the names of the notes in the table's directory."""

    def read_note(self, name: str) -> str | None:
        """Return the text of a note, or None if there is none of this name."""

    def write_note(self, name: str, text: str) -> None:
        """Write a small text file into the table's directory, where cleanup does not delete it.

        Raises:
            StorageError: The note cannot be written.
        """

    def delete_note(self, name: str) -> None:
        """Delete a note, best effort."""
