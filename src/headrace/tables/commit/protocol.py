"""The commit protocol: an epoch lands exactly once, despite other writers and a crash at any step.

1. **Open** the newest version of the table.
2. **Look up** the newest stamp of the query. In the steady state that reads one version.
3. **Decide**: skip an epoch that has landed before. Refuse it if another run took over, the checkpoint or the mode is
   another one, or the table no longer has the rows that landed in it. Otherwise commit it.
4. **Take over**, once per run: publish a fence that makes every commit of another run in flight fail, write the
   bookmark, and begin again at 1.
5. **Check** the payload: one message per partition, files that exist, columns that fit.
6. **Publish** one transaction stamped with the epoch's key. A conflict that can be retried leads to 1.
7. **Verify** that the acknowledged version exists and is ours, and that no other run committed in between.
8. **Write the bookmark**, so that a cleanup of old versions cannot make the epoch look new.

docs/guarantees.md explains why this is enough.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace import _failpoints
from headrace.errors import CommitConflictError, HeadraceError, StorageError
from headrace.tables.commit import bookmark, ledger, replaced, rowless, validate
from headrace.tables.commit.bookmark import Bookmark
from headrace.tables.commit.epochs import NO_EPOCHS, Epochs
from headrace.tables.commit.landed import Landed
from headrace.tables.commit.ledger import NONE_LANDED, Decision, QueryRun, Stamp
from headrace.tables.commit.lookup import HistoryScan, Lookup, StampReader
from headrace.tables.commit.payload import OverwritePayload, Payload
from headrace.tables.commit.retry import Pause, until_committed
from headrace.tables.commit.rowless import RowlessEpochs
from headrace.tables.commit.take_over import RivalError, take_over
from headrace.tables.settings import Rules
from headrace.tables.store import Merge, Operation, Published, Store

_log = logging.getLogger("headrace.tables")


@dataclass(slots=True)
class RunState:
    """What a process remembers of a run between two epochs. If it is lost, the table is read instead.

    Attributes:
        last: The run's newest stamp.
        scan: What was read of the history before the run had a stamp.
        rowless: Epochs without a version since the run's newest stamp.
        versions_read: Versions that lookups have read.
    """

    last: Bookmark | None = None
    scan: HistoryScan | None = None
    rowless: RowlessEpochs = field(default_factory=RowlessEpochs)
    versions_read: int = 0


@dataclass
class EpochCommitter:
    """Lands the epochs of one run of one query in one table.

    Args:
        store: The table.
        rules: The query's settings.
        run: The run; None continues the run that stamped last.
        state: What this process remembers of the run; only the committer changes it.
        pause: Called with the seconds to wait between two attempts.
        table: The table's name in messages.

    Attributes:
        may_have_landed: Whether a commit was sent and is not known to have failed. Its files must then be kept, even
            after an error.
    """

    store: Store
    rules: Rules
    run: QueryRun | None
    state: RunState = field(default_factory=RunState)
    pause: Pause = time.sleep
    table: str = "the table"

    def __post_init__(self) -> None:
        self._stamps = StampReader(self.store, self.rules, self.run)
        self.may_have_landed = False

    def has_landed(self, epoch: int, mode: str) -> bool:
        """Take steps 1 to 3, before an epoch's rows are written.

        Args:
            epoch: The epoch.
            mode: The mode of its payload.

        Raises:
            FencedError, CheckpointResetError, TableReplacedError, HistoryGapError: The query must stop.
            ConfigurationError: The query has landed in another mode so far.
        """
        _, _, decision = self._look(epoch, mode, may_rebase=False)
        is_landed = decision is Decision.SKIP
        if is_landed:
            self.state.rowless.add_skipped(epoch)
        return is_landed

    def may_be_replay(self) -> bool:
        """Whether the next epoch may have landed before: only the first epoch of a run can."""
        return self.state.last is None

    def require_new(self, epoch: int, mode: str) -> None:
        """Check that no epoch landed in an earlier table, before a missing table is created.

        Args:
            epoch: The epoch that needs the table.
            mode: The mode of its payload.

        Raises:
            TableReplacedError: An epoch did, and the settings do not accept that.
        """
        run = self._run(None)
        empty = self.state.rowless.empty or NO_EPOCHS
        self._require_not_lost(replaced.lost_epochs(None, epoch, run, lambda: empty), epoch, run, mode)

    def commit(self, epoch: int, payload: Payload) -> Landed:
        """Land one epoch.

        Raises:
            FencedError, CheckpointResetError, TableReplacedError, HistoryGapError: The query must stop.
            ConfigurationError: The query has landed in another mode so far.
            SchemaMismatchError, LandingError: It did not land; the message says why.
            StorageError: The table cannot be read or written.
            CommitUnknownError: It is not known whether it landed.
        """
        if payload.is_nothing:
            self._note_empty(epoch)
            return Landed(epoch)
        return until_committed(
            lambda met_conflict: self._attempt(epoch, payload, may_rebase=payload.may_rebase and not met_conflict),
            f"Epoch {epoch} of query {self.rules.query_id!r}",
            hint="other writers keep changing the table; restart the query when it is quieter, which is safe.",
            pause=self.pause,
        )

    def _attempt(self, epoch: int, payload: Payload, *, may_rebase: bool) -> Landed | None:
        """Take steps 1 to 8. After a take-over in step 4 it returns None, and the steps begin again."""
        lookup, run, decision = self._look(epoch, payload.mode, may_rebase=may_rebase)  # 1, 2, 3
        if decision is Decision.SKIP:
            _log.info("Epoch %d of query %r has landed before and is skipped.", epoch, self.rules.query_id)
            self.state.rowless.add_skipped(epoch)
            return Landed(
                epoch, was_skipped=True, rows=payload.rows, files=_file_count(payload), null_rows=payload.null_rows
            )
        if decision is Decision.TAKE_OVER and payload.is_fenced:
            self._take_over(lookup, epoch, run, payload.mode)  # 4
            return None
        version = self._publish(epoch, payload, lookup, run)  # 5 to 8
        return Landed(epoch, version, rows=payload.rows, files=_file_count(payload), null_rows=payload.null_rows)

    def _publish(self, epoch: int, payload: Payload, lookup: Lookup, run: QueryRun) -> int:
        operation = payload.operation(lookup.snapshot, self.store)  # 5
        if isinstance(operation, Merge):
            validate.require_history_since(self.store, lookup.read_version)
        _failpoints.reach("before-commit", epoch)
        stamp = ledger.next_stamp(lookup.newest, self.rules.query_id, epoch, run, mode=payload.mode)
        properties = stamp.properties() | _details(payload) | self.state.rowless.properties()
        published = self._send(operation, lookup.read_version, properties)  # 6
        _failpoints.reach("after-commit", epoch)
        validate.validate_epoch(  # 7
            self._stamps,
            published,
            read_version=lookup.read_version,
            stamp=stamp,
            payload=payload,
            operation=operation,
        )
        self._keep(Bookmark(published, stamp))  # 8
        self.state.rowless.clear(self.store, self.rules.query_id, run.id)
        return published.version

    def _note_empty(self, epoch: int) -> None:
        """Until the query has a stamp, only the note distinguishes an epoch without rows from a lost one."""
        query_id, run = self.rules.query_id, self._run(None).id
        try:
            self.state.rowless.add_empty(epoch, self.store, query_id, run)
        except HeadraceError as error:
            if self.state.last is None:
                raise
            _log.warning("It could not be noted that epoch %d of query %r had no rows: %s", epoch, query_id, error)

    def _look(self, epoch: int, mode: str, *, may_rebase: bool) -> tuple[Lookup, QueryRun, Decision]:
        lookup = self._look_up(may_rebase=may_rebase)
        lost = self._lost(lookup.newest, epoch, self._run(lookup.newest))
        if lost:
            # Another run may have taken over since, and removed the notes of epochs without rows.
            lookup = self._look_up(may_rebase=may_rebase)
        newest, run = lookup.newest, self._run(lookup.newest)
        decision = ledger.decide(
            newest,
            epoch,
            run,
            mode=mode,
            is_established=self.state.last is not None,
            accepts_reset=self.rules.accepts_reset,
            words=self.rules.words,
        )
        self._require_not_replaced(lookup, mode)
        self._require_not_lost(lost if newest is None else NO_EPOCHS, epoch, run, mode)
        return lookup, run, decision

    def _look_up(self, *, may_rebase: bool) -> Lookup:
        lookup = self._stamps.look_up(self.state.last, self.state.scan, may_rebase=may_rebase)
        self.state.scan = lookup.scan
        self.state.versions_read += lookup.versions_read
        return lookup

    def _require_not_replaced(self, lookup: Lookup, mode: str) -> None:
        if self._minds_lost_rows(mode) and lookup.newest is not None and lookup.replaced is not None:
            raise replaced.replaced(self.rules, lookup.newest, lookup.replaced, self.table)

    def _require_not_lost(self, lost: Epochs, epoch: int, run: QueryRun, mode: str) -> None:
        if lost and self._minds_lost_rows(mode):
            raise replaced.lost(self.rules, epoch, run.checkpoint, lost, self.table)

    def _minds_lost_rows(self, mode: str) -> bool:
        """Whether lost rows matter: a complete result has the rows of all epochs before it."""
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
        properties = self.state.rowless.properties()
        lost = self._lost(newest, epoch, run)
        if lost:
            _log.warning("Query %r continues without its epochs %s, which are not in %s.", query_id, lost, self.table)
            properties[ledger.WITHOUT] = str(lost)
        try:
            self.state.last = take_over(self._stamps, lookup, fence, properties)
        except RivalError:
            self.state.scan = None  # The rival's stamp may be known only from its bookmark.
            raise
        self.state.rowless.clear(self.store, query_id, run.id)

    def _send(self, operation: Operation, read_version: int, properties: Mapping[str, str]) -> Published:
        before, self.may_have_landed = self.may_have_landed, True
        try:
            return self.store.publish(operation, read_version=read_version, properties=properties)
        except CommitConflictError:
            self.may_have_landed = before  # This attempt has failed for certain.
            raise

    def _keep(self, mark: Bookmark) -> None:
        self.state.last = mark
        try:
            bookmark.write(self.store, mark)
        except StorageError as error:
            _log.warning("The epoch has landed, but its bookmark could not be written: %s", error)


def commit_batch(store: Store, payload: Payload, *, pause: Pause = time.sleep) -> int | None:
    """Commit the rows of a batch job: steps 1, 5, 6 and 7. Without a key there is no replay or rival run to recognise.

    Returns:
        The version that contains its rows; None if there were no rows.

    Raises:
        SchemaMismatchError, LandingError: It did not land; the message says why.
        StorageError: The table cannot be read or written.
        CommitUnknownError: It is not known whether it landed.
    """
    if payload.is_nothing:
        return None

    def attempt(_: bool) -> int:
        before = store.open()  # 1
        operation = payload.operation(before, store)  # 5
        published = store.publish(operation, read_version=before.version, properties=_details(payload))  # 6
        validate.validate_batch(store, published, read_version=before.version, payload=payload)  # 7
        return published.version

    hint = "other writers keep changing the table; run it again when it is quieter."
    return until_committed(attempt, "A batch write", hint=hint, pause=pause)


def _details(payload: Payload) -> dict[str, str]:
    return ledger.details(payload.mode, payload.rows, _file_count(payload))


def _file_count(payload: Payload) -> int | None:
    return None if payload.files is None else len(payload.files)
