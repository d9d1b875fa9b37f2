"""Check that every epoch of a query is in the table once and none is missing, from its history and the checkpoint."""

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
    """The result of checking one query, since it was last forgotten or its checkpoint was reset.

    Attributes:
        query: The query.
        checked: The epochs that were checked.
        landed: The epochs that are in the table.
        empty: The epochs that had no rows.
        rows: The rows that landed, without those that a later complete result replaced.
        problems: What is wrong, one sentence each; empty if nothing is.
        unchecked: The epochs that could not be checked: cleanup removed their versions, or the query was forgotten
            since.
        without: The epochs that were lost with an earlier table, and that the query's owner has accepted as lost.
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
    """Check every query of a table, or one.

    Args:
        store: The table.
        query: The query to check; None for the one the checkpoint belongs to, or without a checkpoint for all.
        checkpoint: The query's checkpoint, to compare with.

    Raises:
        LandingError: The table's history has no such query, or none with this checkpoint.
        TableNotFoundError: The table does not exist.
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
                f"No kept version of {store.location} was written from this checkpoint (Spark query {checkpoint.id}).",
                hint="check that the checkpoint belongs to this table; if it does, name the query.",
            )
    if query is not None:
        if query not in by_query:
            known = ", ".join(repr(name) for name in sorted(by_query))
            raise LandingError(
                f"No kept version of {store.location} was written by query {query!r}.",
                hint=f"the table has versions of {known}." if known else "it has no versions of any streaming query.",
            )
        by_query = {query: by_query[query]}
    return [
        account(name, by_query[name], rowless.noted_empty(store, name), checkpoint, kept=kept)
        if name not in removed
        else _unaccounted(name, removed[name])
        for name in sorted(by_query)
    ]


def _removed(store: LanceStore, kept: Set[int], known: Container[str]) -> dict[str, Stamp]:
    """Return the queries whose versions were all removed, each with the newest stamp from its bookmark."""
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
    """Check one query.

    Args:
        query: The query.
        events: Its versions, oldest first.
        noted: Epochs without rows that are only in the query's note, not yet in a version.
        checkpoint: The query's checkpoint, to compare with.
        kept: The table's versions that were not removed.
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
    unchecked = _unchecked(generation, kept, last, is_whole=is_whole) - without
    checked = Epochs.between(0, last) - unchecked - without
    current = _since_last_result(landed_events)
    # A complete result includes the rows of all epochs before it.
    included = Epochs.between(0, current[0].epoch or 0) if current and current[0].is_result else NO_EPOCHS
    problems = [
        *_doubled(current),
        *_missing(checked - landed - empty - included, checkpoint),
        *_checkpoint_problems(generation, landed, checkpoint),
    ]
    rows = sum(event.rows or 0 for event in current)
    return Account(query, checked, landed, empty, rows, tuple(problems), unchecked, without)


def _since_last_result(landed: list[Event]) -> list[Event]:
    """Return the versions whose rows are current: from the last complete result on, or all."""
    results = [number for number, event in enumerate(landed) if event.is_result]
    return landed[results[-1] :] if results else landed


def _last_generation(events: list[Event]) -> tuple[list[Event], bool]:
    """Return the versions since the query was last forgotten or its checkpoint reset, and whether those are all."""
    start = 0
    for number, (before, event) in enumerate(pairwise(events), 1):
        is_reset = before.checkpoint and event.checkpoint and before.checkpoint != event.checkpoint
        if event.what == FORGOTTEN or is_reset:
            start = number
    return events[start:], start == 0


def _unchecked(events: list[Event], kept: Set[int], last: int, *, is_whole: bool) -> Epochs:
    """Return the epochs up to ``last`` that only removed versions could show as landed or empty."""
    if events[0].what == FORGOTTEN:  # The query may have continued from its checkpoint, or started over.
        first = min((event.epoch for event in events if event.what == LANDED and event.epoch is not None), default=0)
        unchecked, known = Epochs.between(0, first - 1), first - 1
    else:
        unchecked, known = NO_EPOCHS, -1
    is_gap, before = not is_whole, events[0].version
    for event in events:
        is_gap |= not _is_kept(range(before, event.version), kept)
        is_landed, epoch = event.what == LANDED, -1 if event.epoch is None else event.epoch
        if is_gap:
            unchecked |= Epochs.between(known + 1, epoch - 1 if is_landed else epoch)
        is_gap, known, before = is_gap and not is_landed, max(known, epoch), event.version
    return unchecked | Epochs.between(known + 1, last) if is_gap else unchecked


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
        yield (
            f"No version has rows of {missing.named}, and there is no record that there were none, but "
            f"{'later epochs landed' if checkpoint is None else 'the checkpoint records all as done'}."
        )


def _checkpoint_problems(events: list[Event], landed: Epochs, checkpoint: Checkpoint | None) -> Iterable[str]:
    if checkpoint is None:
        return
    fed = {event.checkpoint for event in events if event.checkpoint}
    if fed and checkpoint.id not in fed:
        yield f"The epochs landed from checkpoint {', '.join(sorted(fed))}, but this checkpoint is {checkpoint.id}."
    newest, planned = max(landed, default=-1), max(checkpoint.planned, default=-1)
    if newest > planned:
        yield (
            f"Epoch {newest} has landed, but the checkpoint's last epoch is {planned}: the checkpoint was restored to "
            f"an earlier state, and the query may skip epochs whose rows have not landed."
        )
