"""Step 4 of the commit protocol: a fence that makes every commit another run has in flight fail."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.errors import CommitConflictError
from headrace.tables.commit import bookmark
from headrace.tables.commit.bookmark import Bookmark
from headrace.tables.commit.ledger import Stamp
from headrace.tables.commit.lookup import Lookup, StampReader
from headrace.tables.store import Fence


class RivalError(CommitConflictError):
    """Another run of the query took over at the same moment."""


def take_over(stamps: StampReader, lookup: Lookup, fence: Stamp, properties: Mapping[str, str]) -> Bookmark:
    """Publish a fence and write its bookmark.

    Args:
        stamps: Reads the history of the query.
        lookup: What was found in it; the fence is based on it.
        fence: The stamp that the fence carries.
        properties: What its transaction says beside the stamp.

    Returns:
        The fence's bookmark, which replaces those of earlier runs.

    Raises:
        CommitConflictError: Another writer came first.
        RivalError: Another run of the query did.
        HistoryGapError: Versions below the fence were removed unread, and the rules say to stop then.
    """
    store, read_version = stamps.store, lookup.read_version
    published = store.publish(Fence(), read_version=read_version, properties=fence.properties() | dict(properties))
    if published.version > read_version + 1:  # On top of versions that the lookup has not read.
        if stamps.bookmark_above(read_version, lookup.snapshot) is not None:
            raise RivalError("Another run took over at the same moment.", retryable=True)
        stamps.require_whole(store.open(), read_version, published.version, lookup.newest)
    mark = Bookmark(published, fence)
    # Before anything of this run lands: from now on a missing bookmark means that nothing ever landed.
    bookmark.write(store, mark)
    bookmark.remove_older(store, mark)
    return mark
