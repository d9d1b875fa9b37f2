"""What one version did to the rows of a table, read from its transaction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lance.dataset import LanceOperation

from headrace.errors import ReadingError, TableNotFoundError
from headrace.tables.lance_store import LanceSnapshot, LanceStore

# These leave every row as it was, and bring none.
_QUIET = (
    LanceOperation.Rewrite,
    LanceOperation.CreateIndex,
    LanceOperation.UpdateConfig,
    LanceOperation.Project,
)


@dataclass(frozen=True, slots=True)
class Added:
    """A fragment that a version added.

    Attributes:
        files: Its data files, by which it is found again.
        rows: Rows in it.
        bytes: Bytes in its files, as far as they are known.
    """

    files: tuple[str, ...]
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class VersionChange:
    """What one version did.

    Attributes:
        version: The version.
        transaction: Its transaction's id.
        kind: What it is called in a message.
        added: The fragments it added, in order.
        alters: Whether rows that were there before are changed or gone.
        has_updates: Whether `added` holds the new state of rows that were there before.
    """

    version: int
    transaction: str
    kind: str
    added: tuple[Added, ...] = ()
    alters: bool = False
    has_updates: bool = False

    @property
    def rows(self) -> int:
        """Rows it added."""
        return sum(fragment.rows for fragment in self.added)


def change_at(store: LanceStore, snapshot: LanceSnapshot, version: int) -> VersionChange | None:
    """What a version did, or None if it is no longer kept.

    Raises:
        StorageError: The table cannot be read.
    """
    transaction = snapshot.transaction(version)
    if transaction is None:
        return None
    operation = transaction.operation
    name = type(operation).__name__.lower()
    if isinstance(operation, LanceOperation.Append):
        return VersionChange(version, transaction.uuid, name, _added(operation.fragments))
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
    if isinstance(operation, _QUIET):
        return VersionChange(version, transaction.uuid, name)
    return _compared(store, version, transaction.uuid, "change" if name in ("baseoperation", "nonetype") else name)


def fragments_of(snapshot: LanceSnapshot) -> list[Any]:
    """The metadata of a version's fragments, in order."""
    return [fragment.metadata for fragment in snapshot.dataset.get_fragments()]


def live_rows(fragment: Any) -> int:
    """Rows of a fragment that are not deleted."""
    return _known(fragment.physical_rows) - _deleted_rows(fragment)


def size_of(fragment: Any) -> int:
    """Bytes in the data files of a fragment, as far as they are known."""
    return sum(file.file_size_bytes or 0 for file in fragment.files)


def is_untouched(fragment: Any, files: tuple[str, ...]) -> bool:
    """Whether a fragment is still what it was when it consisted of these files and nothing of it was deleted."""
    return files_of(fragment) == files and fragment.deletion_file is None and not fragment.overlays


def files_of(fragment: Any) -> tuple[str, ...]:
    """The data files of a fragment."""
    return tuple(file.path for file in fragment.files)


def _added(fragments: Iterable[Any]) -> tuple[Added, ...]:
    return tuple(
        Added(files_of(fragment), rows, size_of(fragment))
        for fragment in fragments
        if (rows := _known(fragment.physical_rows))
    )


def _fragments_before(store: LanceStore, version: int, unknown: list[Any]) -> list[Any]:
    """The fragments of the version before, or ``unknown`` if it is no longer kept."""
    if version <= 1:
        return []
    try:
        return fragments_of(store.open(version=version - 1))
    except TableNotFoundError:
        return unknown


def _compared(store: LanceStore, version: int, transaction: str, kind: str) -> VersionChange:
    """Work a change out from the fragments before and after it, where its transaction does not tell."""
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
            "The table was written by a Lance so old that it did not note how many rows its fragments have.",
            hint="compact it with a newer one, and read it from there on.",
        )
    return rows
