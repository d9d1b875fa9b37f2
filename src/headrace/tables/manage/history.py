"""A table's history: what each version did, and for which query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from headrace.tables.commit import ledger
from headrace.tables.commit.epochs import NO_EPOCHS, Epochs
from headrace.tables.commit.rowless import rowless_before
from headrace.tables.lance_store import LanceSnapshot, LanceStore
from headrace.tables.read.changes import VersionChange, change_at

# The word shown for each operation of Lance.
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
    "change": "other",  # An operation without a class in pylance, such as the fragment ids that a compaction reserves.
}
_FIRST = "created"
LANDED = "landed"
FENCED = "fenced"
FORGOTTEN = "forgotten"


@dataclass(frozen=True, slots=True)
class Event:
    """One version of a table.

    Attributes:
        version: The version number.
        made: When it was committed.
        what: What it did: ``landed`` an epoch, ``fenced`` off earlier runs of a query, ``forgotten`` a query, or a
            word for another writer's operation.
        query: The streaming query in its stamp; None for other writers.
        epoch: The epoch it landed; for a fence, the newest epoch that had landed before.
        rows: The number of rows it added; None if not known, as for changes and compactions.
        files: The number of data files it added.
        run: The run id of the query.
        checkpoint: Spark's query id, which is the same for the checkpoint's whole life.
        skipped: Epochs that this run skipped before this version, because they had landed already.
        empty: Epochs of the query before this version that had no rows.
        is_result: Whether it landed a complete result, which replaced all rows.
        without: Epochs that are not in the table, and that the query's owner has accepted as lost.
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
    """Yield the kept versions, newest first.

    Args:
        store: The table.
        last: The most versions to yield; None for all.

    Raises:
        TableNotFoundError: The table does not exist.
        StorageError: The table cannot be read.
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
    """Return the event of a version committed by a streaming query, from its transaction's properties."""
    is_fence, rowless = ledger.FENCE in properties, rowless_before(properties)
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
        rowless.skipped,
        rowless.empty or NO_EPOCHS,
        not is_fence and properties.get(ledger.MODE) == "complete",
        Epochs.parse(properties.get(ledger.WITHOUT, "")),
    )


def _word(change: VersionChange) -> str:
    if change.kind == "update" and not change.alters:
        return "merged"
    return _WORDS.get(change.kind, change.kind)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.removeprefix("-").isdecimal() else None
