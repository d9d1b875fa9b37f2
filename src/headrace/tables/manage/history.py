"""A table's history in words: what each version did, and for which query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from headrace.tables.commit import ledger
from headrace.tables.commit.epochs import NO_EPOCHS, Epochs
from headrace.tables.commit.rowless import rowless_before
from headrace.tables.lance_store import LanceSnapshot, LanceStore
from headrace.tables.read.changes import VersionChange, change_at

# What a version did, by the kind of its transaction.
_WORDS = {
    "append": "appended",
    "overwrite": "overwritten",
    "delete": "deleted",
    "update": "updated",
    "rewrite": "compacted",
    "createindex": "indexed",
    "updateconfig": "configured",
    "project": "columns dropped",
    "merge": "columns added",
    "datareplacement": "column rewritten",
    "restore": "restored",
    "change": "other",  # What pylance has no class for: of its own, the fragment numbers that a compaction reserves.
}
_FIRST = "created"
LANDED = "landed"
FENCED = "fenced"
FORGOTTEN = "forgotten"


@dataclass(frozen=True, slots=True)
class Event:
    """One version of a table.

    Attributes:
        version: Its number.
        made: When it was made.
        what: What it did: ``landed`` an epoch, ``fenced`` off earlier runs of a query, ``forgotten`` a query, or in a
            word what another writer did.
        query: The streaming query it is stamped with.
        epoch: The epoch it landed; for a fence, the newest that had landed before.
        rows: How many rows it brought; not known of changes and compactions.
        files: How many data files it brought.
        run: The run of the query.
        checkpoint: Spark's query id, which stays the same as long as the checkpoint does.
        skipped: Epochs that this run found landed and skipped, before this version.
        empty: Epochs of the query that had no rows, before this version.
        is_result: Whether what it landed is a whole result, in the place of all that was there.
        without: Epochs that are not in the table and that the query was told to do without.
    """

    version: int
    made: datetime
    what: str
    query: str | None = None
    epoch: int | None = None
    rows: int | None = None
    files: int | None = None
    run: str | None = None
    checkpoint: str | None = None
    skipped: Epochs = NO_EPOCHS
    empty: Epochs = NO_EPOCHS
    is_result: bool = False
    without: Epochs = NO_EPOCHS


def events(store: LanceStore, *, last: int | None = None) -> Iterator[Event]:
    """The versions that are kept, newest first.

    Args:
        store: The table.
        last: How many at most; all if not given.

    Raises:
        TableNotFoundError: There is no table.
        StorageError: It cannot be read.
    """
    snapshot = store.open()
    dates = snapshot.dates()
    for version in sorted(dates, reverse=True)[:last]:
        event = _event(store, snapshot, version, dates[version])
        if event is not None:
            yield event


def _event(store: LanceStore, snapshot: LanceSnapshot, version: int, made: datetime) -> Event | None:
    entry = snapshot.entry(version)
    if entry is None:
        return None
    properties = entry.properties
    if ledger.QUERY_ID in properties or ledger.FENCE in properties:
        return stamped_event(version, made, properties)
    change = change_at(store, snapshot, version)
    if change is None:
        return None
    return Event(
        version,
        made,
        _FIRST if version == 1 else _word(change),
        rows=change.rows if change.added else None,
        files=sum(len(added.files) for added in change.added) or None,
    )


def stamped_event(version: int, made: datetime, properties: Mapping[str, str]) -> Event:
    """A version that a streaming query made, from its transaction's properties."""
    is_fence, passed = ledger.FENCE in properties, rowless_before(properties)
    epoch = _number(properties.get(ledger.LAST_EPOCH if is_fence else ledger.EPOCH_ID))
    what = LANDED
    if is_fence:
        what = FORGOTTEN if properties.get(ledger.FORGETS) else FENCED
    return Event(
        version,
        made,
        what,
        properties.get(ledger.FENCE if is_fence else ledger.QUERY_ID),
        None if epoch == ledger.NONE_LANDED else epoch,
        _number(properties.get(ledger.ROWS)),
        _number(properties.get(ledger.FILES)),
        properties.get(ledger.RUN_ID),
        properties.get(ledger.CHECKPOINT),
        passed.skipped,
        passed.empty or NO_EPOCHS,
        not is_fence and properties.get(ledger.MODE) == "complete",
        Epochs.parse(properties.get(ledger.WITHOUT, "")),
    )


def _word(change: VersionChange) -> str:
    if change.kind == "update" and not change.alters:
        return "merged"
    return _WORDS.get(change.kind, change.kind)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.removeprefix("-").isdecimal() else None
