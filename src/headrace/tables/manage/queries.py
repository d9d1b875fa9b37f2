"""The streaming queries that a table knows, and how one is forgotten."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, replace

from headrace.errors import LandingError
from headrace.tables.commit import bookmark, ledger, rowless
from headrace.tables.commit.bookmark import Bookmark
from headrace.tables.commit.ledger import NONE_LANDED, QueryRun, Stamp
from headrace.tables.commit.lookup import StampReader
from headrace.tables.commit.retry import Pause, until_committed
from headrace.tables.commit.take_over import take_over
from headrace.tables.settings import Rules
from headrace.tables.store import Published, Store


@dataclass(frozen=True, slots=True)
class Query:
    """A query that has landed something, or was about to.

    Attributes:
        id: Its key.
        stamp: Its newest stamp.
        version: The version that carries the stamp; with that gone, a restart relies on the bookmark alone.
    """

    id: str
    stamp: Stamp
    version: int

    @property
    def is_forgotten(self) -> bool:
        """Whether nothing of it counts as landed."""
        return self.stamp.epoch == NONE_LANDED


def known(store: Store) -> list[Query]:
    """The queries that keep a bookmark beside the table, by their names.

    Raises:
        TableNotFoundError: There is no table.
    """
    store.open()
    return [_query(store, mark.stamp.query_id, mark) for mark in bookmark.read_all(store)]


def forget(store: Store, query_id: str, *, pause: Pause = time.sleep) -> Published:
    """Make a query count as new, whatever it has landed. A run of it that is still active stops.

    Args:
        store: The table.
        query_id: The query.
        pause: Called with seconds between two attempts.

    Returns:
        The version that says so.

    Raises:
        LandingError: No epoch of the query is known in the table.
        CommitConflictError: Other writers keep changing the table.
    """
    run = QueryRun(f"forget-{uuid.uuid4().hex}")
    stamps = StampReader(store, Rules(query_id), run)

    def attempt(_: bool) -> Bookmark:
        lookup = stamps.look_up()
        if lookup.newest is None:
            others = ", ".join(repr(each.id) for each in known(store))
            raise LandingError(
                f"No query {query_id!r} has landed anything in the table.",
                hint=f"it knows {others}." if others else "it knows no query.",
            )
        fence = ledger.next_stamp(lookup.newest, query_id, NONE_LANDED, run, fence_after=lookup.read_version)
        return take_over(stamps, lookup, replace(fence, given_up=()), {ledger.FORGETS: "true"})

    hint = "other writers keep changing the table; try again when it is quieter."
    mark = until_committed(attempt, f"Forgetting query {query_id!r}", hint=hint, pause=pause)
    rowless.forget(store, query_id)
    return mark.at


def _query(store: Store, query_id: str, mark: Bookmark) -> Query:
    lookup = StampReader(store, Rules(query_id), None).look_up()
    version = lookup.scan.stamped_at if lookup.scan is not None else 0
    return Query(query_id, lookup.newest or mark.stamp, version or mark.at.version)
