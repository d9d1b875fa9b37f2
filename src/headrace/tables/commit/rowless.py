"""Epochs that pass without a version of their own: those without rows, and those that had landed before.

The run's next version tells of them. Until then a note beside the table tells of those without rows, so that one of
them can be told from one that was lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.tables.commit import bookmark
from headrace.tables.commit.epochs import NO_EPOCHS, Epochs
from headrace.tables.store import Store

EMPTY = "headrace.emptyEpochs"
SKIPPED = "headrace.skippedEpochs"

_NOTE = "empty-"


@dataclass(slots=True)
class RowlessEpochs:
    """What has passed since the run's last version, as far as this process knows.

    Attributes:
        empty: Epochs without rows; None if this process has yet to see one.
        skipped: Epochs that had landed before.
    """

    empty: Epochs | None = None
    skipped: Epochs = NO_EPOCHS

    def properties(self) -> dict[str, str]:
        """What the run's next version says of it."""
        named = {EMPTY: str(self.empty or ""), SKIPPED: str(self.skipped)}
        return {name: text for name, text in named.items() if text}

    def add_skipped(self, epoch: int) -> None:
        """An epoch had landed before."""
        self.skipped |= Epochs.of(epoch)

    def add_empty(self, epoch: int, store: Store, query_id: str, run: str) -> None:
        """An epoch had no rows.

        Raises:
            TableNotFoundError: There is no table.
            StorageError: It cannot be noted.
        """
        name = _name(query_id, run)
        store.open()
        known = Epochs.parse(store.read_note(name) or "") if self.empty is None else self.empty
        self.empty = known | Epochs.of(epoch)
        store.write_note(name, str(self.empty))

    def clear(self, store: Store, query_id: str, run: str) -> None:
        """A version has told of it."""
        self.skipped = NO_EPOCHS
        if self.empty:
            self.empty = NO_EPOCHS
            store.delete_note(_name(query_id, run))


def rowless_before(properties: Mapping[str, str]) -> RowlessEpochs:
    """What a version says has passed before it."""
    return RowlessEpochs(Epochs.parse(properties.get(EMPTY, "")), Epochs.parse(properties.get(SKIPPED, "")))


def noted_empty(store: Store, query_id: str) -> Epochs:
    """The epochs without rows that no version has told of yet."""
    found = NO_EPOCHS
    for name in _notes(store, query_id):
        found |= Epochs.parse(store.read_note(name) or "")
    return found


def forget(store: Store, query_id: str) -> None:
    """Remove what is noted of a query."""
    for name in _notes(store, query_id):
        store.delete_note(name)


def _notes(store: Store, query_id: str) -> list[str]:
    return [name for name in store.list_notes() if name.startswith(f"{_NOTE}{bookmark.key_of(query_id)}")]


def _name(query_id: str, run: str) -> str:
    return f"{_NOTE}{bookmark.key_of(query_id, run)}.txt"
