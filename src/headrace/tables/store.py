"""The seam between the commit protocol and a table: what the protocol may ask, and nothing more.

The real table (`lance_store`) and the in-memory one the tests simulate with hold the same contract, so what is
shown about the protocol on the one holds on the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import pyarrow as pa


class Kind(Enum):
    """What a version did to the table, as far as the ledger cares."""

    APPEND = "append"
    REPLACE = "overwrite"
    RESTORE = "restore"
    PROJECT = "project"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Column:
    """A column as it was when rows were written: enough to see whether they still fit."""

    name: str
    type: str
    is_nullable: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """One version in the table's history.

    Attributes:
        version: Its number.
        uuid: Its transaction's own id.
        kind: What it did.
        properties: What its writer attached to it.
        restored: For a restore, the version it put back.
    """

    version: int
    uuid: str
    kind: Kind
    properties: Mapping[str, str] = field(default_factory=dict)
    restored: int | None = None


@dataclass(frozen=True, slots=True)
class Append:
    """Add rows. Lands on top of whatever others appended meanwhile, but never on top of a fence."""

    fragments: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Replace:
    """Replace all rows. Lands only if nothing at all came between."""

    schema: pa.Schema
    fragments: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Merge:
    """Update and insert rows, as Lance worked it out against one version. Never lands on top of a fence."""

    transaction: Any


@dataclass(frozen=True, slots=True)
class Fence:
    """Change nothing, but make every append and merge in flight fail. Fails itself if one slipped in before."""


Operation = Append | Replace | Merge | Fence


@dataclass(frozen=True, slots=True)
class Published:
    """A version that was made, and how to recognise it again."""

    version: int
    uuid: str


class Snapshot(Protocol):
    """The table as it was at one moment."""

    @property
    def version(self) -> int:
        """The newest version at that moment."""

    @property
    def schema(self) -> pa.Schema:
        """The table's schema, with metadata."""

    def columns(self) -> Mapping[int, Column]:
        """The columns, nested ones too, by field id."""

    def columns_of_new(self, schema: pa.Schema) -> Mapping[int, Column]:
        """The columns the table would have if it were made anew of ``schema``, by field id."""

    def entry(self, version: int) -> Entry | None:
        """One version of the history, or None if it is no longer kept."""

    def kept_versions(self, above: int) -> Sequence[int]:
        """The versions that are still kept, down to but without ``above``, newest first."""

    def latest(self) -> int:
        """The newest version now, which may be newer than this one."""

    def tagged(self) -> Set[int]:
        """The versions that have a tag now, which cleanup leaves."""

    def data_files(self, version: int) -> Set[str]:
        """The data files of a version as it is now; none if it is no longer kept."""


class Store(Protocol):
    """A table that can be read and changed."""

    def open(self) -> Snapshot:
        """Look at the newest version, afresh.

        Raises:
            TableNotFoundError: There is no table.
            StorageError: It cannot be read.
        """

    def publish(self, operation: Operation, *, read_version: int, properties: Mapping[str, str]) -> Published:
        """Make one new version.

        Raises:
            CommitConflictError: A concurrent change is in the way. The version was not made.
            StorageError: It failed, and the version is not in the table.
            CommitUnknownError: It failed, and the table could not be asked whether the version is there.
        """

    def missing_files(self, files: Sequence[str]) -> list[str]:
        """Those of the data files that are not there."""

    def delete_files(self, files: Sequence[str]) -> None:
        """Remove data files, as far as possible; those that are gone already do not matter."""

    def list_notes(self) -> Sequence[str]:
        """Names of the notes kept beside the table."""

    def read_note(self, name: str) -> str | None:
        """A small text kept beside the table, or None."""

    def write_note(self, name: str, text: str) -> None:
        """Keep a small text beside the table, where cleanup does not reach it.

        Raises:
            StorageError: It cannot be written.
        """

    def delete_note(self, name: str) -> None:
        """Remove a note, as far as possible."""
