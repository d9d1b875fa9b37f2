"""Step 7 of the commit protocol: checks of a version that was acknowledged.

Lance checks nothing of this. A commit that lands directly on the version it was based on needs only the first check.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import CommitConflictError, FencedError, LandingError, SchemaMismatchError
from headrace.tables.commit.gaps import may_fill_gap, missing_between
from headrace.tables.commit.ledger import Stamp, stamp_of
from headrace.tables.commit.lookup import StampReader
from headrace.tables.commit.payload import Payload
from headrace.tables.store import Merge, Operation, Published, Snapshot, Store


def validate_epoch(
    stamps: StampReader,
    published: Published,
    *,
    read_version: int,
    stamp: Stamp,
    payload: Payload,
    operation: Operation,
) -> None:
    """Check the version that an epoch was committed as.

    Args:
        stamps: Reads the history of the query.
        published: The version.
        read_version: The version that the commit was based on.
        stamp: The stamp it carries.
        payload: The epoch's rows.
        operation: What was published.

    Raises:
        CommitConflictError: The version is not part of the table's newest state; the epoch must be committed again.
        FencedError: Another run took over at the same moment.
        LandingError: The epoch has landed, and something is wrong with it that only a person can repair.
    """
    snapshot = stamps.store.open()
    what = f"Epoch {stamp.epoch} of query {stamp.query_id!r}"
    require_present(snapshot, published, payload, what)
    between = range(published.version - 1, read_version, -1)
    if not between:
        return
    require_no_rival(stamps, snapshot, between, stamp, published)
    remedy = f"write them again under a new {stamps.rules.words.query_id}"
    require_still_fits(snapshot, published, payload, what, remedy)
    if isinstance(operation, Merge) and missing_between(snapshot, read_version, published.version):
        raise LandingError(
            f"{what} has landed as version {published.version}, but cleanup removed versions between {read_version} "
            f"and {published.version} at the same moment: rows that should have been replaced may remain, and keys "
            f"may exist twice.",
            hint="look for keys that exist twice and delete the older rows; then restart the query.",
        )


def validate_batch(store: Store, published: Published, *, read_version: int, payload: Payload) -> None:
    """Check the version that a batch write was committed as; raises as `validate_epoch`, but for rivals."""
    snapshot = store.open()
    require_present(snapshot, published, payload, "The batch write")
    if published.version > read_version + 1:
        require_still_fits(snapshot, published, payload, "The batch write", "write them again")


def require_history_since(store: Store, version: int) -> None:
    """Before a merge is published: check that no version since the one it was computed on has been removed.

    A merge names rows by their position. A version that moved them conflicts with it, unless cleanup removed that
    version before the merge is published.

    Raises:
        CommitConflictError: One has been removed.
    """
    snapshot = store.open()
    if missing_between(snapshot, version, snapshot.version):
        raise CommitConflictError(
            f"Cleanup removed versions after {version} while rows were merged with it.", retryable=True
        )


def require_no_rival(
    stamps: StampReader, snapshot: Snapshot, between: Sequence[int], stamp: Stamp, published: Published
) -> None:
    """Check that no other run of the query stamped one of the versions between the base of a commit and the commit.

    Raises:
        FencedError: One did.
    """
    entries = [snapshot.entry(version) for version in between[: stamps.rules.lookback]]
    found = [stamp_of(entry.properties, stamp.query_id, stamps.rules.words) for entry in entries if entry is not None]
    if len(found) < len(between):
        mark = stamps.bookmark_above(between[-1] - 1, snapshot)
        found.append(mark.stamp if mark else None)
    for rival in found:
        if rival is not None and rival.run != stamp.run:
            raise FencedError(
                f"Run {rival.run} of query {stamp.query_id!r} took over while run {stamp.run} was committing epoch "
                f"{stamp.epoch} as version {published.version}, and cleanup removed the versions that would have "
                f"stopped it: its rows may exist twice.",
                hint=f"two drivers run the same query; stop one, and delete the rows of version "
                f"{published.version} if they exist twice.",
            )


def require_present(snapshot: Snapshot, published: Published, payload: Payload, what: str) -> None:
    """Check that a version which was acknowledged is in the table, and that later versions contain it.

    Raises:
        LandingError: It is not in the table.
        CommitConflictError: Later versions may not contain it.
    """
    entry = snapshot.entry(published.version) if published.version <= snapshot.version else None
    if published.version > snapshot.version or (entry is not None and entry.uuid != published.uuid):
        raise LandingError(
            f"{what} was acknowledged as version {published.version}, which is not in the table: it was dropped or "
            f"replaced at the same moment.",
            hint="restart the query, which looks before it commits.",
        )
    # An overwrite is published as the version after the one it read, even where that had been cleaned away.
    is_below = snapshot.version > published.version
    if is_below and not payload.is_fenced and may_fill_gap(snapshot, published.version):
        raise CommitConflictError(
            f"Version {published.version} may have been written where history had been removed, below version "
            f"{snapshot.version}.",
            retryable=True,
        )


def require_still_fits(snapshot: Snapshot, published: Published, payload: Payload, what: str, remedy: str) -> None:
    """Check that the versions between the base of a commit and the commit left the columns unchanged.

    Args:
        snapshot: The table after the commit.
        published: The version that was committed.
        payload: Its rows.
        what: The commit's name in the message.
        remedy: How the rows can be written again.

    Raises:
        LandingError: They did not.
    """
    try:
        payload.require_fit(snapshot)
    except SchemaMismatchError as error:
        raise LandingError(
            f"{what} has landed as version {published.version}, but the table's columns were changed at the same "
            f"moment, and its rows have nulls there: {error}",
            hint=f"fill them in, or delete the rows and {remedy}.",
        ) from error
