"""Epochs that commit no version: epochs without rows, and replays that were skipped.

The run's next stamp lists them. Until then, a note beside the table lists the epochs without rows, so that they are
not reported as lost.
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
    """The epochs without a version since the run's last stamp, as far as this process knows.

    Attributes:
        empty: Epochs without rows; None if this process has not seen one.
        skipped: Replayed epochs that were skipped.
    """

    empty: Epochs | None = None
    skipped: Epochs = NO_EPOCHS

    def properties(self) -> dict[str, str]:
        """Return the properties that list the epochs in the run's next version."""
        named = {EMPTY: str(self.empty or ""), SKIPPED: str(self.skipped)}
        return {name: text for name, text in named.items() if text}

    def add_skipped(self, epoch: int) -> None:
        """Add a replayed epoch that was skipped."""
        self.skipped |= Epochs.of(epoch)

    def add_empty(self, epoch: int, store: Store, query_id: str, run: str) -> None:
        """Add an epoch without rows, and write the note.

        Raises:
            TableNotFoundError: The table does not exist.
            StorageError: The note cannot be written.
        """
        name = _name(query_id, run)
        store.open()
        known = Epochs.parse(store.read_note(name) or "") if self.empty is None else self.empty
        self.empty = known | Epochs.of(epoch)
        store.write_note(name, str(self.empty))

    def clear(self, store: Store, query_id: str, run: str) -> None:
        """Forget the epochs and delete the note: a version lists them."""
        self.skipped = NO_EPOCHS
        if self.empty:
            self.empty = NO_EPOCHS
            store.delete_note(_name(query_id, run))


def rowless_before(properties: Mapping[str, str]) -> RowlessEpochs:
    """Return the epochs that a version's properties list."""
    return RowlessEpochs(Epochs.parse(properties.get(EMPTY, "")), Epochs.parse(properties.get(SKIPPED, "")))


def noted_empty(store: Store, query_id: str) -> Epochs:
    """Return the epochs without rows that no version lists yet."""
    found = NO_EPOCHS
    for name in _notes(store, query_id):
        found |= Epochs.parse(store.read_note(name) or "")
    return found


def forget(store: Store, query_id: str) -> None:
    """Delete the notes of a query."""
    for name in _notes(store, query_id):
        store.delete_note(name)


def _notes(store: Store, query_id: str) -> list[str]:
    return [name for name in store.list_notes() if name.startswith(f"{_NOTE}{bookmark.key_of(query_id)}")]


def _name(query_id: str, run: str) -> str:
    return f"{_NOTE}{bookmark.key_of(query_id, run)}.txt"
