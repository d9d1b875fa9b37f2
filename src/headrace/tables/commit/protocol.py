"""The commit protocol: an epoch lands exactly once, whoever else writes, whenever anything dies.

1. **Open** the newest version by its address, afresh.
2. **Look up** the newest stamp of the query: it decides. In the steady state that reads one version.
3. **Decide**: landed before, skip; another run took over, the checkpoint is a new one, the mode another, or the table
   no longer has what landed in it, refuse; otherwise commit.
4. **Take over**, once per run: publish a fence that makes every commit another run has in flight fail, keep the
   bookmark, and begin again at 1.
5. **Check** what is about to be committed: one message per partition, files that exist, columns that fit.
6. **Publish** one transaction stamped with the epoch's key. A conflict that leaves room for another try leads to 1.
7. **Verify** that the version which was acknowledged is there and is ours, and that no rival came between.
8. **Keep the bookmark**, so that no cleanup can make the epoch look new.

Why this is enough stands in docs/guarantees.md.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace import _failpoints
from headrace.errors import (
    CommitConflictError,
    FencedError,
    HeadraceError,
    LandingError,
    SchemaMismatchError,
    StorageError,
)
from headrace.tables.commit import bookmark, ledger, replaced, rowless
from headrace.tables.commit.bookmark import Bookmark
from headrace.tables.commit.epochs import NO_EPOCHS, Epochs
from headrace.tables.commit.gaps import may_fill_gap, missing_between
from headrace.tables.commit.landed import Landed
from headrace.tables.commit.ledger import NONE_LANDED, Decision, QueryRun, Stamp, stamp_of
from headrace.tables.commit.lookup import Lookup, RunState, StampReader
from headrace.tables.commit.payload import OverwritePayload, Payload
from headrace.tables.settings import Rules
from headrace.tables.store import Fence, Merge, Operation, Published, Snapshot, Store

_log = logging.getLogger("headrace.tables")

# A fence fails whenever somebody appends at the same moment: on a busy table it takes several tries.
_ATTEMPTS = 100
_LONGEST_PAUSE_SECONDS = 0.02


@dataclass
class EpochCommitter:
    """Lands the epochs of one run of one query in one table.

    Args:
        store: The table.
        rules: What the query's owner has decided.
        run: The run; None takes the place of whichever run stamped last.
        memory: What this process remembers of the run.
        pause: Called with seconds between two tries.
        table: What messages call the table.

    Attributes:
        may_have_landed: Whether a commit was sent that is not known to have failed; then its files are not to be
            touched, whatever was raised.
    """

    store: Store
    rules: Rules
    run: QueryRun | None
    state: RunState = field(default_factory=RunState)
    pause: Callable[[float], object] = time.sleep
    table: str = "the table"

    def __post_init__(self) -> None:
        self._stamps = StampReader(self.store, self.rules, self.run, self.state)
        self.may_have_landed = False

    def has_landed(self, epoch: int, mode: str) -> bool:
        """Steps 1 to 3, before any work is done for an epoch.

        Args:
            epoch: The epoch.
            mode: The mode of the payload it will have.

        Raises:
            FencedError, CheckpointResetError, TableReplacedError, HistoryGapError: The query must stop.
            ConfigurationError: The query has landed in another mode so far.
        """
        _, _, decision = self._look(epoch, mode, may_rebase=False)
        is_landed = decision is Decision.SKIP
        if is_landed:
            self.state.rowless.add_skipped(epoch)
        return is_landed

    def require_new(self, epoch: int, mode: str) -> None:
        """Before a missing table is created: check that no epoch landed in an earlier one.

        Args:
            epoch: The epoch it is created for.
            mode: The mode of the payload it will have.

        Raises:
            TableReplacedError: One did, and the rules do not accept that.
        """
        run = self._run(None)
        empty = self.state.rowless.empty or NO_EPOCHS
        self._require_not_lost(replaced.lost_epochs(None, epoch, run, lambda: empty), epoch, run, mode)

    def commit(self, epoch: int, payload: Payload) -> Landed:
        """Land one epoch.

        Raises:
            FencedError, CheckpointResetError, TableReplacedError, HistoryGapError: The query must stop.
            ConfigurationError: The query has landed in another mode so far.
            SchemaMismatchError, LandingError: It was not landed, and why.
            StorageError: The table cannot be read or written.
            CommitUnknownError: It is not known whether it landed.
        """
        if payload.is_nothing:
            self._note_empty(epoch)
            return Landed(epoch)
        may_rebase = payload.may_rebase
        conflict: CommitConflictError | None = None
        for _ in range(_ATTEMPTS):
            if conflict is not None:
                self.pause(random.uniform(0, _LONGEST_PAUSE_SECONDS))
            lookup, run, decision = self._look(epoch, payload.mode, may_rebase=may_rebase)  # 1, 2, 3
            if decision is Decision.SKIP:
                _log.info("Epoch %d of query %r has landed before and is skipped.", epoch, self.rules.query_id)
                self.state.rowless.add_skipped(epoch)
                return Landed(epoch, was_skipped=True, rows=payload.rows, files=_file_count(payload))
            try:
                if decision is Decision.TAKE_OVER and payload.is_fenced:
                    self._take_over(lookup, epoch, run, payload.mode)  # 4
                    continue
                operation = payload.operation(lookup.snapshot, self.store)  # 5
                if isinstance(operation, Merge):
                    self._require_history_since(lookup.read_version)
                _failpoints.reach("before-commit", epoch)
                stamp = ledger.next_stamp(lookup.newest, self.rules.query_id, epoch, run, mode=payload.mode)
                properties = stamp.properties() | _details(payload) | self.state.rowless.properties()
                published = self._publish(operation, lookup.read_version, properties)  # 6
                _failpoints.reach("after-commit", epoch)
                self._verify(published, lookup.read_version, stamp, payload, operation)  # 7
            except CommitConflictError as error:
                if not error.retryable:
                    raise
                conflict, may_rebase = error, False
                continue
            self._keep(Bookmark(published, stamp))  # 8
            self.state.rowless.clear(self.store, self.rules.query_id, run.id)
            return Landed(epoch, published.version, rows=payload.rows, files=_file_count(payload))
        raise CommitConflictError(
            f"Epoch {epoch} of query {self.rules.query_id!r} met {_ATTEMPTS} concurrent changes in a row: {conflict}",
            hint="other writers keep changing the table; restart the query when it is quieter, which is safe.",
        )

    def _note_empty(self, epoch: int) -> None:
        """Until the query has a stamp, only the note tells an epoch without rows from one that was lost."""
        query_id, run = self.rules.query_id, self._run(None).id
        try:
            self.state.rowless.add_empty(epoch, self.store, query_id, run)
        except HeadraceError as error:
            if self.state.last is None:
                raise
            _log.warning("It could not be noted that epoch %d of query %r had no rows: %s", epoch, query_id, error)

    def _look(self, epoch: int, mode: str, *, may_rebase: bool) -> tuple[Lookup, QueryRun, Decision]:
        lookup = self._stamps.look_up(may_rebase=may_rebase)
        lost = self._lost(lookup.newest, epoch, self._run(lookup.newest))
        if lost:
            # Or another run has taken over since, and removed the notes of epochs without rows.
            lookup = self._stamps.look_up(may_rebase=may_rebase)
        newest, run = lookup.newest, self._run(lookup.newest)
        decision = ledger.decide(
            newest,
            epoch,
            run,
            mode=mode,
            is_established=self.state.last is not None,
            accepts_reset=self.rules.accepts_reset,
        )
        self._require_not_replaced(lookup, mode)
        self._require_not_lost(lost if newest is None else NO_EPOCHS, epoch, run, mode)
        return lookup, run, decision

    def _require_not_replaced(self, lookup: Lookup, mode: str) -> None:
        if self._minds_lost_rows(mode) and lookup.newest is not None and lookup.replaced is not None:
            raise replaced.replaced(self.rules.query_id, lookup.newest, lookup.replaced, self.table)

    def _require_not_lost(self, lost: Epochs, epoch: int, run: QueryRun, mode: str) -> None:
        if lost and self._minds_lost_rows(mode):
            raise replaced.lost(self.rules.query_id, epoch, run.checkpoint, lost, self.table)

    def _minds_lost_rows(self, mode: str) -> bool:
        """A whole result has the rows of all epochs before it."""
        return mode != OverwritePayload.mode and not self.rules.accepts_replaced

    def _lost(self, newest: Stamp | None, epoch: int, run: QueryRun) -> Epochs:
        query_id, known = self.rules.query_id, self.state.rowless.empty or NO_EPOCHS
        return replaced.lost_epochs(newest, epoch, run, lambda: known | rowless.noted_empty(self.store, query_id))

    def _run(self, newest: Stamp | None) -> QueryRun:
        if self.run is not None:
            return self.run
        return QueryRun(newest.run, newest.checkpoint) if newest and newest.run else QueryRun("unknown")

    def _take_over(self, lookup: Lookup, epoch: int, run: QueryRun, mode: str) -> None:
        newest, query_id = lookup.newest, self.rules.query_id
        is_reset = newest is not None and newest.is_of_another_checkpoint(run)
        landed = newest.epoch if newest and not is_reset else NONE_LANDED
        fence = ledger.next_stamp(newest, query_id, landed, run, mode=mode, fence_after=lookup.read_version)
        properties = fence.properties() | self.state.rowless.properties()
        lost = self._lost(newest, epoch, run)
        if lost:
            _log.warning("Query %r continues without its epochs %s, which are not in %s.", query_id, lost, self.table)
            properties[ledger.WITHOUT] = str(lost)
        published = self.store.publish(Fence(), read_version=lookup.read_version, properties=properties)
        if published.version > lookup.read_version + 1:  # On top of versions that were not looked at.
            if self._stamps.bookmark_above(lookup.read_version, lookup.snapshot) is not None:
                self.state.scan = None
                raise CommitConflictError("Another run took over at the same moment.", retryable=True)
            self._stamps.require_whole(self.store.open(), lookup.read_version, published.version, newest)
        mark = Bookmark(published, fence)
        # Before anything of this run lands: from now on the absence of a bookmark means that nothing ever did.
        bookmark.write(self.store, mark)
        bookmark.remove_older(self.store, mark)
        self.state.last = mark
        self.state.rowless.clear(self.store, self.rules.query_id, run.id)

    def _publish(self, operation: Operation, read_version: int, properties: Mapping[str, str]) -> Published:
        before, self.may_have_landed = self.may_have_landed, True
        try:
            return self.store.publish(operation, read_version=read_version, properties=properties)
        except CommitConflictError:
            self.may_have_landed = before  # Not this time.
            raise

    def _require_history_since(self, version: int) -> None:
        """A merge names rows by where they are. One that took long may find them moved by a version that is gone."""
        snapshot = self.store.open()
        if missing_between(snapshot, version, snapshot.version):
            raise CommitConflictError(
                f"Versions after {version} were cleaned up while rows were merged with it.", retryable=True
            )

    def _verify(
        self, published: Published, read_version: int, stamp: Stamp, payload: Payload, operation: Operation
    ) -> None:
        snapshot = self.store.open()
        what = f"Epoch {stamp.epoch} of query {stamp.query_id!r}"
        _require_there(snapshot, published, payload, what)
        between = range(published.version - 1, read_version, -1)
        if between:
            self._require_alone(snapshot, between, stamp, published, read_version)
            _require_still_fits(snapshot, published, payload, what)
            if isinstance(operation, Merge) and missing_between(snapshot, read_version, published.version):
                raise LandingError(
                    f"{what} has landed as version {published.version}, but versions between {read_version} and that "
                    f"were cleaned up at the same moment: rows that were to be replaced may be there still, and keys "
                    f"twice.",
                    hint="look for keys that are there twice and delete the older rows; then restart the query.",
                )

    def _require_alone(
        self, snapshot: Snapshot, between: Sequence[int], stamp: Stamp, published: Published, read_version: int
    ) -> None:
        entries = [snapshot.entry(version) for version in between[: self.rules.lookback]]
        stamps = [stamp_of(entry.properties, stamp.query_id) for entry in entries if entry is not None]
        if len(stamps) < len(between):
            mark = self._stamps.bookmark_above(read_version, snapshot)
            stamps.append(mark.stamp if mark else None)
        for rival in stamps:
            if rival is not None and rival.run != stamp.run:
                raise FencedError(
                    f"Run {rival.run} of query {stamp.query_id!r} took over while run {stamp.run} was committing epoch "
                    f"{stamp.epoch} as version {published.version}, and the versions that would have stopped it were "
                    f"cleaned away: its rows may be there twice.",
                    hint=f"two drivers run the same query; stop one, and delete the rows of version "
                    f"{published.version} if they are doubled.",
                )

    def _keep(self, mark: Bookmark) -> None:
        self.state.last = mark
        try:
            bookmark.write(self.store, mark)
        except StorageError as error:
            _log.warning("The epoch has landed, but its bookmark could not be kept: %s", error)


def commit_batch(store: Store, payload: Payload, *, pause: Callable[[float], object] = time.sleep) -> int | None:
    """Commit what a batch job wrote: steps 1, 5, 6 and 7, with no key and so neither a replay nor a rival to recognise.

    Returns:
        The version that holds its rows; None if there were none.

    Raises:
        SchemaMismatchError, LandingError: It was not landed, and why.
        StorageError: The table cannot be read or written.
        CommitUnknownError: It is not known whether it landed.
    """
    if payload.is_nothing:
        return None
    conflict: CommitConflictError | None = None
    for _ in range(_ATTEMPTS):
        before = store.open()  # 1
        operation = payload.operation(before, store)  # 5
        try:
            published = store.publish(operation, read_version=before.version, properties=_details(payload))  # 6
            after = store.open()
            _require_there(after, published, payload, "The batch write")  # 7
        except CommitConflictError as error:
            if not error.retryable:
                raise
            conflict = error
            pause(random.uniform(0, _LONGEST_PAUSE_SECONDS))
            continue
        if published.version > before.version + 1:
            _require_still_fits(after, published, payload, "The batch write")
        return published.version
    raise CommitConflictError(
        f"A batch write met {_ATTEMPTS} concurrent changes in a row: {conflict}",
        hint="other writers keep changing the table; run it again when it is quieter.",
    )


def _details(payload: Payload) -> dict[str, str]:
    return ledger.details(payload.mode, payload.rows, _file_count(payload))


def _file_count(payload: Payload) -> int | None:
    return None if payload.files is None else len(payload.files)


def _require_there(snapshot: Snapshot, published: Published, payload: Payload, what: str) -> None:
    """Check that a version which was acknowledged is in the table, and that what came after it came on top of it."""
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


def _require_still_fits(snapshot: Snapshot, published: Published, payload: Payload, what: str) -> None:
    """Check that the changes a commit has landed on top of left the columns as they were."""
    try:
        payload.require_fit(snapshot)
    except SchemaMismatchError as error:
        raise LandingError(
            f"{what} has landed as version {published.version}, but the table's columns were changed at the same "
            f"moment, and its rows have nulls there: {error}",
            hint="fill them in, or delete the rows and write them again (a stream: under a new streamingQueryId).",
        ) from error
