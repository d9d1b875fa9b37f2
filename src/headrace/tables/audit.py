"""Whether every epoch of a query is in the table once, and none is missing: read from the table, and the checkpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from headrace._errors import LandingError
from headrace.tables import chronicle, passed
from headrace.tables.checkpoint import Checkpoint
from headrace.tables.chronicle import FORGOTTEN, LANDED, Event
from headrace.tables.epochs import Epochs
from headrace.tables.lance_store import LanceStore


@dataclass(frozen=True, slots=True)
class Account:
    """What became of the epochs of one query, since it was last forgotten or its checkpoint reset.

    Attributes:
        query: The query.
        checked: The epochs that can be accounted for; earlier ones went with their versions.
        landed: Those that are in the table.
        empty: Those that had no rows.
        rows: Rows that landed with them.
        problems: What is wrong, in sentences; nothing if all is well.
    """

    query: str
    checked: Epochs
    landed: Epochs
    empty: Epochs
    rows: int
    problems: tuple[str, ...]


def audit(store: LanceStore, *, query: str | None = None, checkpoint: Checkpoint | None = None) -> list[Account]:
    """Account for every query of a table, or for one.

    Args:
        store: The table.
        query: The one; with a checkpoint and without a name, the one the checkpoint belongs to.
        checkpoint: Spark's own note of what is done.

    Raises:
        LandingError: There is no such query in the table's history.
        TableNotFoundError: There is no table.
    """
    events = list(chronicle.events(store))[::-1]
    is_whole = [event.version for event in events] == list(range(1, len(events) + 1))
    by_query: dict[str, list[Event]] = {}
    for event in events:
        if event.query is not None:
            by_query.setdefault(event.query, []).append(event)
    if query is None and checkpoint is not None:
        fed = {event.query for event in events if event.checkpoint == checkpoint.id}
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
        _account(name, by_query[name], passed.noted_empty(store, name), checkpoint, is_whole=is_whole)
        for name in sorted(by_query)
    ]


def _account(
    query: str, events: list[Event], noted: Epochs, checkpoint: Checkpoint | None, *, is_whole: bool
) -> Account:
    generation, is_first = _last_generation(events)
    landed_events = [event for event in generation if event.what == LANDED and event.epoch is not None]
    landed = Epochs.of(*(event.epoch for event in landed_events if event.epoch is not None))
    empty = noted
    for event in generation:
        empty |= event.empty
    first = _first_known(generation, is_whole=is_whole or not is_first)
    last = max(landed, default=-1)
    if checkpoint is not None:
        last = max(last, max(checkpoint.done, default=-1))
    checked = Epochs.between(first, last)
    problems = [
        *_doubled(landed_events),
        *_missing(checked - landed - empty, checkpoint),
        *_misfits(generation, landed, checkpoint),
    ]
    rows = sum(event.rows or 0 for event in landed_events)
    return Account(query, checked, landed, empty, rows, tuple(problems))


def _last_generation(events: list[Event]) -> tuple[list[Event], bool]:
    """What came since the query was forgotten or its checkpoint reset, and whether that is all there is."""
    start = 0
    for number, (before, event) in enumerate(pairwise(events), 1):
        is_reset = before.checkpoint and event.checkpoint and before.checkpoint != event.checkpoint
        if event.what == FORGOTTEN or is_reset:
            start = number
    return events[start:], start == 0


def _first_known(events: list[Event], *, is_whole: bool) -> int:
    """The first epoch of which the versions that are kept must tell."""
    first = events[0]
    if first.what == FORGOTTEN:  # The query may have gone on from its checkpoint, or begun anew.
        return min((event.epoch for event in events if event.what == LANDED and event.epoch is not None), default=0)
    if is_whole or first.epoch is None:
        return 0
    return first.epoch if first.what == LANDED else first.epoch + 1


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
