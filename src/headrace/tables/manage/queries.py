"""The streaming queries that a table knows, and how one is forgotten."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

from headrace.errors import CommitConflictError, LandingError
from headrace.tables.commit import bookmark, ledger, rowless
from headrace.tables.commit.bookmark import Bookmark
from headrace.tables.commit.ledger import NONE_LANDED, QueryRun, Stamp
from headrace.tables.commit.lookup import RunState, StampReader
from headrace.tables.settings import Rules
from headrace.tables.store import Fence, Published, Store

_ATTEMPTS = 100


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


def forget(store: Store, query_id: str) -> Published:
    """Have a query count as new, whatever it has landed. A run of it that is still going stops.

    Raises:
        LandingError: The table does not know it.
        CommitConflictError: Others keep changing the table.
    """
    for _ in range(_ATTEMPTS):
        lookup = StampReader(store, Rules(query_id), None, RunState()).look_up(may_rebase=False)
        if lookup.newest is None:
            others = ", ".join(repr(each.id) for each in known(store))
            raise LandingError(
                f"No query {query_id!r} has landed anything in the table.",
                hint=f"it knows {others}." if others else "it knows no query.",
            )
        run = QueryRun(f"forget-{uuid.uuid4().hex}")
        fence = ledger.next_stamp(lookup.newest, query_id, NONE_LANDED, run, fence_after=lookup.read_version)
        fence = replace(fence, given_up=())
        properties = fence.properties() | {ledger.FORGETS: "true"}
        try:
            published = store.publish(Fence(), read_version=lookup.read_version, properties=properties)
        except CommitConflictError as error:
            if not error.retryable:
                raise
            continue
        mark = Bookmark(published, fence)
        bookmark.write(store, mark)
        bookmark.remove_older(store, mark)
        rowless.forget(store, query_id)
        return published
    raise CommitConflictError(
        f"Query {query_id!r} could not be forgotten: the table was changed {_ATTEMPTS} times meanwhile.",
        hint="try again when it is quieter.",
    )


def _query(store: Store, query_id: str, mark: Bookmark) -> Query:
    state = RunState()
    lookup = StampReader(store, Rules(query_id), None, state).look_up(may_rebase=False)
    version = state.scan.stamped_at if state.scan is not None else 0
    return Query(query_id, lookup.newest or mark.stamp, version or mark.at.version)
