"""Whether every epoch of a query is in the table once, and none is missing: read from the table, and the checkpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Set
from dataclasses import dataclass
from itertools import pairwise

from headrace.errors import LandingError
from headrace.tables.commit import bookmark, rowless
from headrace.tables.commit.epochs import NO_EPOCHS, Epochs
from headrace.tables.commit.ledger import NONE_LANDED, Stamp
from headrace.tables.lance_store import LanceStore
from headrace.tables.manage import history
from headrace.tables.manage.checkpoint import Checkpoint
from headrace.tables.manage.history import FORGOTTEN, LANDED, Event


@dataclass(frozen=True, slots=True)
class Account:
    """What became of the epochs of one query, since it was last forgotten or its checkpoint reset.

    Attributes:
        query: The query.
        checked: The epochs that can be accounted for.
        landed: Those that are in the table.
        empty: Those that had no rows.
        rows: Rows that landed with them, without those that a later whole result replaced.
        problems: What is wrong, in sentences; nothing if all is well.
        unchecked: The epochs that cannot be accounted for: the versions that told of them were removed, or the query
            was forgotten since.
        without: The epochs that were lost with an earlier table, which the query's owner has accepted.
    """

    query: str
    checked: Epochs
    landed: Epochs
    empty: Epochs
    rows: int
    problems: tuple[str, ...]
    unchecked: Epochs = NO_EPOCHS
    without: Epochs = NO_EPOCHS


def verify(store: LanceStore, *, query: str | None = None, checkpoint: Checkpoint | None = None) -> list[Account]:
    """Account for every query of a table, or for one.

    Args:
        store: The table.
        query: The one; with a checkpoint and without a name, the one the checkpoint belongs to.
        checkpoint: Spark's own note of what is done.

    Raises:
        LandingError: There is no such query in the table's history.
        TableNotFoundError: There is no table.
    """
    events = list(history.events(store))[::-1]
    kept = {event.version for event in events}
    by_query: dict[str, list[Event]] = {}
    for event in events:
        if event.query is not None:
            by_query.setdefault(event.query, []).append(event)
    removed = _removed(store, kept, by_query)
    by_query |= {name: [] for name in removed}
    if query is None and checkpoint is not None:
        fed = {event.query for event in events if event.checkpoint == checkpoint.id}
        fed |= {name for name, stamp in removed.items() if stamp.checkpoint == checkpoint.id}
        by_query = {name: found for name, found in by_query.items() if name in fed}
        if not by_query:
            raise LandingError(
                f"No version of {store.location} that is kept was made from this checkpoint, of query {checkpoint.id}.",
                hint="check that it is this table's; if it is, name the query.",
            )
    if query is not None:
        if query not in by_query:
            known = ", ".join(repr(name) for name in sorted(by_query))
            raise LandingError(
                f"No version of {store.location} that is kept is of query {query!r}.",
                hint=f"there are versions of {known}." if known else "there are none of any query.",
            )
        by_query = {query: by_query[query]}
    return [
        account(name, by_query[name], rowless.noted_empty(store, name), checkpoint, kept=kept)
        if name not in removed
        else _unaccounted(name, removed[name])
        for name in sorted(by_query)
    ]


def _removed(store: LanceStore, kept: Set[int], known: Container[str]) -> dict[str, Stamp]:
    """The queries of which only the bookmark is left, each with its newest stamp."""
    marks = [mark for mark in bookmark.read_all(store) if mark.stamp.query_id not in known]
    newest = max(kept, default=0)
    return {
        mark.stamp.query_id: mark.stamp
        for mark in marks
        if mark.at.version < newest and mark.at.version not in kept and mark.stamp.epoch != NONE_LANDED
    }


def _unaccounted(query: str, newest: Stamp) -> Account:
    return Account(query, NO_EPOCHS, NO_EPOCHS, NO_EPOCHS, 0, (), unchecked=Epochs.between(0, newest.epoch))


def account(
    query: str, events: list[Event], noted: Epochs, checkpoint: Checkpoint | None = None, *, kept: Set[int]
) -> Account:
    """Account for one query.

    Args:
        query: The query.
        events: Its versions, oldest first.
        noted: Epochs without rows of which no version tells yet.
        checkpoint: Spark's own note of what is done.
        kept: The versions of the table that were not removed.
    """
    generation, is_first = _last_generation(events)
    landed_events = [event for event in generation if event.what == LANDED and event.epoch is not None]
    landed = Epochs.of(*(event.epoch for event in landed_events if event.epoch is not None))
    empty, without = noted, NO_EPOCHS
    for event in generation:
        empty |= event.empty
        without |= event.without
    is_whole = not is_first or _is_kept(range(1, generation[0].version), kept)
    last = max(landed, default=-1)
    if checkpoint is not None:
        last = max(last, max(checkpoint.done, default=-1))
    untold = _untold(generation, kept, last, is_whole=is_whole) - without
    checked = Epochs.between(0, last) - untold - without
    standing = _since_last_result(landed_events)
    # A whole result has what all epochs before it brought.
    settled = Epochs.between(0, standing[0].epoch or 0) if standing and standing[0].is_result else NO_EPOCHS
    problems = [
        *_doubled(standing),
        *_missing(checked - landed - empty - settled, checkpoint),
        *_misfits(generation, landed, checkpoint),
    ]
    rows = sum(event.rows or 0 for event in standing)
    return Account(query, checked, landed, empty, rows, tuple(problems), untold, without)


def _since_last_result(landed: list[Event]) -> list[Event]:
    """The versions whose rows no later whole result replaced: from the last result on, or all."""
    results = [number for number, event in enumerate(landed) if event.is_result]
    return landed[results[-1] :] if results else landed


def _last_generation(events: list[Event]) -> tuple[list[Event], bool]:
    """What came since the query was forgotten or its checkpoint reset, and whether that is all there is."""
    start = 0
    for number, (before, event) in enumerate(pairwise(events), 1):
        is_reset = before.checkpoint and event.checkpoint and before.checkpoint != event.checkpoint
        if event.what == FORGOTTEN or is_reset:
            start = number
    return events[start:], start == 0


def _untold(events: list[Event], kept: Set[int], last: int, *, is_whole: bool) -> Epochs:
    """Epochs, up to the last, of which only versions could tell that were removed: that they landed, or had no rows."""
    if events[0].what == FORGOTTEN:  # The query may have gone on from its checkpoint, or begun anew.
        first = min((event.epoch for event in events if event.what == LANDED and event.epoch is not None), default=0)
        untold, known = Epochs.between(0, first - 1), first - 1
    else:
        untold, known = NO_EPOCHS, -1
    is_hole, before = not is_whole, events[0].version
    for event in events:
        is_hole |= not _is_kept(range(before, event.version), kept)
        is_landed, epoch = event.what == LANDED, -1 if event.epoch is None else event.epoch
        if is_hole:
            untold |= Epochs.between(known + 1, epoch - 1 if is_landed else epoch)
        is_hole, known, before = is_hole and not is_landed, max(known, epoch), event.version
    return untold | Epochs.between(known + 1, last) if is_hole else untold


def _is_kept(versions: range, kept: Set[int]) -> bool:
    return all(version in kept for version in versions)


def _doubled(landed: Iterable[Event]) -> Iterable[str]:
    landed = list(landed)
    for epoch, times in sorted(Counter(event.epoch for event in landed).items()):
        if times > 1:
            versions = " and ".join(str(event.version) for event in landed if event.epoch == epoch)
            yield f"Epoch {epoch} landed {times} times, in versions {versions}."


def _missing(missing: Epochs, checkpoint: Checkpoint | None) -> Iterable[str]:
    if missing:
        which = f"epochs {missing}" if len(missing) > 1 else f"epoch {missing}"
        yield (
            f"No version holds rows of {which}, and it is not noted that there were none; "
            f"{'later epochs landed' if checkpoint is None else 'the checkpoint says that all is done'}."
        )


def _misfits(events: list[Event], landed: Epochs, checkpoint: Checkpoint | None) -> Iterable[str]:
    if checkpoint is None:
        return
    fed = {event.checkpoint for event in events if event.checkpoint}
    if fed and checkpoint.id not in fed:
        yield f"What landed came from checkpoint {', '.join(sorted(fed))}, and this one is {checkpoint.id}."
    newest, planned = max(landed, default=-1), max(checkpoint.planned, default=-1)
    if newest > planned:
        yield (
            f"Epoch {newest} has landed, and the checkpoint goes no further than epoch {planned}: it was put back to "
            f"an earlier state, and rows may be taken for landed that are not."
        )
