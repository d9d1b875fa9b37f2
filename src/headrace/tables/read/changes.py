"""How one version changed the rows of a table, read from its transaction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lance.dataset import LanceOperation

from headrace.errors import ReadingError, TableNotFoundError
from headrace.tables.lance_store import LanceSnapshot, LanceStore

# These operations neither add nor change rows.
_WITHOUT_ROWS = (
    LanceOperation.Rewrite,
    LanceOperation.CreateIndex,
    LanceOperation.UpdateConfig,
    LanceOperation.Project,
)

_WITHOUT_NEW_FILES = (LanceOperation.CreateIndex, LanceOperation.UpdateConfig)


@dataclass(frozen=True, slots=True)
class Added:
    """A fragment that a version added.

    Attributes:
        files: Its data files; they identify the fragment in later versions.
        rows: Its rows.
        bytes: The size of its data files; files of unknown size count as 0.
    """

    files: tuple[str, ...]
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class VersionChange:
    """How one version changed the rows.

    Attributes:
        version: The version.
        transaction: The id of its transaction.
        kind: The name of its operation, for messages.
        added: The fragments it added, in order.
        alters: Whether it changed or removed existing rows.
        has_updates: Whether `added` contains the new state of existing rows.
        keeps: Whether all earlier fragments are in the version unchanged. If not known, False.
    """

    version: int
    transaction: str
    kind: str
    added: tuple[Added, ...] = ()
    alters: bool = False
    has_updates: bool = False
    keeps: bool = False

    @property
    def rows(self) -> int:
        """The number of rows it added."""
        return sum(fragment.rows for fragment in self.added)


def change_at(store: LanceStore, snapshot: LanceSnapshot, version: int) -> VersionChange | None:
    """Return how a version changed the rows; None if cleanup has removed the version.

    Raises:
        ReadingError: The table does not record how many rows its fragments have.
        StorageError: The table cannot be read.
    """
    transaction = snapshot.transaction(version)
    if transaction is None:
        return None
    operation = transaction.operation
    name = type(operation).__name__.lower()
    if isinstance(operation, LanceOperation.Append):
        return VersionChange(version, transaction.uuid, name, _added(operation.fragments), keeps=True)
    if isinstance(operation, LanceOperation.Overwrite):
        alters = bool(_fragments_before(store, version, unknown=[None]))
        return VersionChange(version, transaction.uuid, name, _added(operation.fragments), alters)
    if isinstance(operation, LanceOperation.Delete):
        alters = bool(operation.updated_fragments or operation.deleted_fragment_ids)
        return VersionChange(version, transaction.uuid, name, alters=alters)
    if isinstance(operation, LanceOperation.Update):
        alters = bool(operation.removed_fragment_ids or operation.updated_fragments)
        has_updates = alters and not operation.fields_modified
        return VersionChange(version, transaction.uuid, name, _added(operation.new_fragments), alters, has_updates)
    if isinstance(operation, LanceOperation.Restore):
        return VersionChange(version, transaction.uuid, name, alters=True)
    if isinstance(operation, _WITHOUT_ROWS):
        keeps = isinstance(operation, _WITHOUT_NEW_FILES)
        return VersionChange(version, transaction.uuid, name, keeps=keeps)
    return _compared(store, version, transaction.uuid, "change" if name in ("baseoperation", "nonetype") else name)


def fragments_of(snapshot: LanceSnapshot) -> list[Any]:
    """Return the metadata of a version's fragments, in order."""
    return [fragment.metadata for fragment in snapshot.dataset.get_fragments()]


def live_rows(fragment: Any) -> int:
    """Return the number of rows of a fragment that are not deleted."""
    return _known(fragment.physical_rows) - _deleted_rows(fragment)


def size_of(fragment: Any) -> int:
    """Return the size of a fragment's data files; files of unknown size count as 0."""
    return sum(file.file_size_bytes or 0 for file in fragment.files)


def is_untouched(fragment: Any, files: tuple[str, ...]) -> bool:
    """Whether a fragment still consists of exactly these data files, with no deletions or overlays."""
    return files_of(fragment) == files and fragment.deletion_file is None and not fragment.overlays


def files_of(fragment: Any) -> tuple[str, ...]:
    """Return the data files of a fragment."""
    return tuple(file.path for file in fragment.files)


def _added(fragments: Iterable[Any]) -> tuple[Added, ...]:
    return tuple(
        Added(files_of(fragment), rows, size_of(fragment))
        for fragment in fragments
        if (rows := _known(fragment.physical_rows))
    )


def _fragments_before(store: LanceStore, version: int, unknown: list[Any]) -> list[Any]:
    """Return the fragments of the previous version, or ``unknown`` if cleanup has removed it."""
    if version <= 1:
        return []
    try:
        return fragments_of(store.open(version=version - 1))
    except TableNotFoundError:
        return unknown


def _compared(store: LanceStore, version: int, transaction: str, kind: str) -> VersionChange:
    """Compare the fragments before and after a version whose transaction does not say how it changed the rows."""
    try:
        after = fragments_of(store.open(version=version))
    except TableNotFoundError:
        return VersionChange(version, transaction, kind, alters=True)
    before = {fragment.id: fragment for fragment in _fragments_before(store, version, unknown=after)}
    added = [fragment for fragment in after if fragment.id not in before]
    kept = {fragment.id: fragment for fragment in after if fragment.id in before}
    alters = any(
        number not in kept
        or _deleted_rows(fragment) != _deleted_rows(kept[number])
        or fragment.overlays != kept[number].overlays
        or not set(files_of(fragment)) <= set(files_of(kept[number]))
        for number, fragment in before.items()
    )
    return VersionChange(version, transaction, kind, _added(added), alters)


def _deleted_rows(fragment: Any) -> int:
    return 0 if fragment.deletion_file is None else _known(fragment.deletion_file.num_deleted_rows)


def _known(rows: int | None) -> int:
    if rows is None:
        raise ReadingError(
            "The table was written by an old version of Lance that did not record how many rows a fragment has.",
            hint="compact it with a newer Lance, and start reading from the version after that.",
        )
    return rows
