"""The commit protocol: an epoch lands exactly once, whoever else writes, whenever anything dies.

1. **Open** the newest version by its address, afresh.
2. **Look up** the newest stamp of the query: it decides. In the steady state that reads one version.
3. **Decide**: landed before, skip; another run took over, or the checkpoint is a new one, refuse; otherwise commit.
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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from headrace import _crash
from headrace._errors import (
    CommitConflictError,
    FencedError,
    HistoryGapError,
    LandingError,
    StorageError,
    TableReplacedError,
)
from headrace.tables import bookmark, ledger
from headrace.tables.bookmark import Bookmark
from headrace.tables.ledger import NONE_LANDED, Decision, Run, Stamp, stamp_of
from headrace.tables.payload import Payload
from headrace.tables.store import Entry, Fence, Kind, Published, Snapshot, Store

_log = logging.getLogger("headrace.tables")

DEFAULT_LOOKBACK = 100

_ATTEMPTS = 30
_LONGEST_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Rules:
    """What a query's owner has decided.

    Attributes:
        query_id: The query's key.
        lookback: Versions of other writers that one commit in the steady state reads at most.
        on_history_gap: Whether history that is missing where it matters is worth a warning or an error.
        accepts_reset: Whether a new checkpoint may go on under the same key.
    """

    query_id: str
    lookback: int = DEFAULT_LOOKBACK
    on_history_gap: Literal["warn", "fail"] = "warn"
    accepts_reset: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an epoch.

    Attributes:
        version: The version that holds its rows; None if it had none, or if that is not known any more.
        was_skipped: Whether it had landed before.
    """

    version: int | None = None
    was_skipped: bool = False


@dataclass(slots=True)
class Memory:
    """What a process remembers of a run: where it stamped last. Safe to lose; then the table is read instead."""

    last: Bookmark | None = None
    versions_read: int = 0


@dataclass(frozen=True, slots=True)
class _Finding:
    """The newest stamp, and the version a commit may be based on."""

    newest: Stamp | None
    read_version: int


@dataclass(frozen=True, slots=True)
class _Seen:
    """What reading the history brought up: the newest stamp, and the oldest overwrite or restore above it."""

    stamp: Stamp | None
    replaced: Entry | None


@dataclass
class Landing:
    """Lands the epochs of one run of one query in one table.

    Args:
        store: The table.
        rules: What the query's owner has decided.
        run: The run; None takes the place of whichever run stamped last.
        memory: What this process remembers of the run.
        pause: Called with seconds between two tries.
    """

    store: Store
    rules: Rules
    run: Run | None
    memory: Memory = field(default_factory=Memory)
    pause: Callable[[float], object] = time.sleep

    def has_landed(self, epoch: int) -> bool:
        """Steps 1 to 3, before any work is done for an epoch.

        Raises:
            FencedError, CheckpointResetError, TableReplacedError, HistoryGapError: The query must stop.
        """
        finding, run = self._look_up(self.store.open(), may_rebase=False)
        return self._decide(finding, epoch, run) is Decision.SKIP

    def land(self, epoch: int, payload: Payload) -> Outcome:
        """Land one epoch.

        Raises:
            SchemaMismatchError, LandingError: It was not landed, and why.
            StorageError: The table cannot be read or written.
            CommitUnknownError: It is not known whether it landed.
        """
        if payload.is_nothing:
            return Outcome()
        may_rebase = payload.may_rebase
        conflict: CommitConflictError | None = None
        for attempt in range(_ATTEMPTS):
            if conflict is not None:
                self.pause(random.uniform(0, min(_LONGEST_PAUSE_SECONDS, 0.005 * 2**attempt)))
            snapshot = self.store.open()  # 1
            finding, run = self._look_up(snapshot, may_rebase=may_rebase)  # 2
            decision = self._decide(finding, epoch, run)  # 3
            if decision is Decision.SKIP:
                _log.info("Epoch %d of query %r has landed before and is skipped.", epoch, self.rules.query_id)
                return Outcome(was_skipped=True)
            try:
                if decision is Decision.TAKE_OVER and payload.is_fenced:
                    self._take_over(finding, run)  # 4
                    continue
                change = payload.change(snapshot, self.store)  # 5
                _crash.reach("before-commit", epoch)
                stamp = ledger.next_stamp(finding.newest, self.rules.query_id, epoch, run)
                properties = stamp.properties(mode=payload.mode, rows=payload.rows, files=len(payload.files))
                published = self.store.publish(change, read_version=finding.read_version, properties=properties)  # 6
            except CommitConflictError as error:
                if not error.retryable:
                    raise
                conflict, may_rebase = error, False
                continue
            _crash.reach("after-commit", epoch)
            self._verify(published, finding.read_version, stamp)  # 7
            self._keep(Bookmark(published, stamp))  # 8
            return Outcome(published.version)
        raise CommitConflictError(
            f"Epoch {epoch} of query {self.rules.query_id!r} met {_ATTEMPTS} concurrent changes in a row: {conflict}",
            hint="other writers keep changing the table; restart the query when it is quieter, which is safe.",
        )

    def _decide(self, finding: _Finding, epoch: int, run: Run) -> Decision:
        return ledger.decide(
            finding.newest,
            epoch,
            run,
            is_established=self.memory.last is not None,
            accepts_reset=self.rules.accepts_reset,
        )

    def _look_up(self, snapshot: Snapshot, *, may_rebase: bool) -> tuple[_Finding, Run]:
        known = self.memory.last
        if known is not None:
            finding = self._look_up_since(known, snapshot, may_rebase=may_rebase)
        else:
            finding = self._look_up_everything(snapshot)
        newest = finding.newest
        if self.run is not None:
            return finding, self.run
        return finding, Run(newest.run, newest.checkpoint) if newest and newest.run else Run("unknown")

    def _look_up_since(self, known: Bookmark, snapshot: Snapshot, *, may_rebase: bool) -> _Finding:
        """In a run that has stamped before: only what came after its last stamp can matter."""
        if not self._is_kept_or_cleaned(known, snapshot):
            raise TableReplacedError(
                f"The table does not have the version {known.at.version} that query {self.rules.query_id!r} made: it "
                f"was dropped and made anew while the query was running. Nothing more was landed.",
                hint="if that was meant, restart the query: it goes on after the epochs it has landed.",
            )
        versions: Sequence[int] = range(snapshot.version, known.at.version, -1)
        is_capped = may_rebase and len(versions) > self.rules.lookback
        if is_capped:
            seen = self._read(snapshot, versions[: self.rules.lookback])
        elif len(versions) > self.rules.lookback:
            seen = self._read(snapshot, snapshot.kept_versions(known.at.version), down_to=known.at.version)
        else:
            seen = self._read(snapshot, versions)
        if seen.stamp is not None:
            return _Finding(seen.stamp, snapshot.version)
        self._require_not_replaced(seen)
        # What was left unread may hold a rival's fence. Based on our own last version, the commit would meet it.
        return _Finding(known.stamp, known.at.version if is_capped else snapshot.version)

    def _look_up_everything(self, snapshot: Snapshot) -> _Finding:
        """In a process that knows nothing of the run: down to the bookmark, or to the beginning."""
        mark = bookmark.read(self.store, self.rules.query_id)
        if mark is not None and not self._is_kept_or_cleaned(mark, snapshot):
            _log.warning(
                "The bookmark of query %r is of an earlier table at the same address and is not used.",
                self.rules.query_id,
            )
            mark = None
        floor = mark.at.version if mark else 0
        seen = self._read(snapshot, snapshot.kept_versions(floor), down_to=floor)
        newest = seen.stamp or (mark.stamp if mark else None)
        if newest is not None and self.run is not None and newest.run == self.run.id:
            self._require_not_replaced(seen)
        return _Finding(newest, snapshot.version)

    def _read(self, snapshot: Snapshot, versions: Sequence[int], *, down_to: int | None = None) -> _Seen:
        """Read versions, newest first, until one carries a stamp of the query."""
        expected = snapshot.version
        missing: list[int] = []
        replaced: Entry | None = None
        stamp: Stamp | None = None
        for version in versions:
            missing.extend(range(expected, version, -1))
            expected = version - 1
            entry = self._entry(snapshot, version)
            if entry is None:
                missing.append(version)
                continue
            stamp = stamp_of(entry.properties, self.rules.query_id)
            if stamp is not None:
                break
            if entry.kind in (Kind.REPLACE, Kind.RESTORE):
                replaced = entry
        if stamp is None and down_to is not None:
            missing.extend(range(expected, down_to, -1))
        if missing:
            self._report_gap(missing, stamp)
        return _Seen(stamp, replaced)

    def _require_not_replaced(self, seen: _Seen) -> None:
        if seen.replaced is not None:
            raise TableReplacedError(
                f"Version {seen.replaced.version} of the table is an {seen.replaced.kind.value} by another writer, "
                f"made while query {self.rules.query_id!r} was running: rows it has landed may be gone. Nothing more "
                f"was landed.",
                hint="if that was meant, restart the query: it goes on after the epochs it has landed.",
            )

    def _is_kept_or_cleaned(self, mark: Bookmark, snapshot: Snapshot) -> bool:
        """Whether the version of a bookmark is in this table, or was; not if the table is another one."""
        if mark.at.version > snapshot.version:
            return False
        entry = self._entry(snapshot, mark.at.version)
        return entry is None or entry.uuid == mark.at.uuid

    def _entry(self, snapshot: Snapshot, version: int) -> Entry | None:
        self.memory.versions_read += 1
        return snapshot.entry(version)

    def _report_gap(self, missing: list[int], found: Stamp | None) -> None:
        span = f"{min(missing)}" if len(missing) == 1 else f"{min(missing)} to {max(missing)}"
        what = (
            f"{len(missing)} of the table's versions ({span}) were removed before query {self.rules.query_id!r} could "
            f"read them"
        )
        if self.rules.on_history_gap == "fail":
            raise HistoryGapError(
                f"{what}: whether its epoch has landed there cannot be told. Nothing was landed.",
                hint="look whether the epoch's rows are in the table; if not, or if this query never wrote to it, "
                "restart once with lance.streaming.onHistoryGap=warn.",
            )
        known = (
            f"the newest epoch known to have landed is {found.epoch}" if found else "no trace of it was found elsewhere"
        )
        _log.warning("%s; %s, and the query goes on from there.", what, known)

    def _take_over(self, finding: _Finding, run: Run) -> None:
        newest = finding.newest
        is_reset = newest is not None and newest.checkpoint and run.checkpoint and newest.checkpoint != run.checkpoint
        landed = newest.epoch if newest and not is_reset else NONE_LANDED
        fence = ledger.next_stamp(newest, self.rules.query_id, landed, run, is_fence=True)
        published = self.store.publish(Fence(), read_version=finding.read_version, properties=fence.properties())
        mark = Bookmark(published, fence)
        # Before anything of this run lands: from now on the absence of a bookmark means that nothing ever did.
        bookmark.write(self.store, mark)
        self.memory.last = mark

    def _verify(self, published: Published, read_version: int, stamp: Stamp) -> None:
        snapshot = self.store.open()
        entry = snapshot.entry(published.version) if published.version <= snapshot.version else None
        if published.version > snapshot.version or (entry is not None and entry.uuid != published.uuid):
            raise LandingError(
                f"Version {published.version} was acknowledged for epoch {stamp.epoch} of query {stamp.query_id!r} and "
                f"is not in the table: it was dropped or replaced at the same moment.",
                hint="restart the query, which looks before it commits.",
            )
        between = range(published.version - 1, read_version, -1)[: self.rules.lookback]
        for version in between:
            other = snapshot.entry(version)
            rival = stamp_of(other.properties, self.rules.query_id) if other else None
            if rival is not None and rival.run != stamp.run:
                raise FencedError(
                    f"Run {rival.run} of query {stamp.query_id!r} came between at version {version} while run "
                    f"{stamp.run} committed epoch {stamp.epoch} as version {published.version}: its rows may be there "
                    f"twice.",
                    hint="two drivers run the same query; stop one, and restore the table to the version before.",
                )

    def _keep(self, mark: Bookmark) -> None:
        self.memory.last = mark
        try:
            bookmark.write(self.store, mark)
        except StorageError as error:
            _log.warning("The epoch has landed, but its bookmark could not be kept: %s", error)


def land_once(store: Store, payload: Payload, *, pause: Callable[[float], object] = time.sleep) -> Outcome:
    """Commit what a batch job wrote: steps 1, 5, 6 and 7, with no key and so no replay to recognise.

    Raises:
        SchemaMismatchError, LandingError: It was not landed, and why.
        StorageError: The table cannot be read or written.
        CommitUnknownError: It is not known whether it landed.
    """
    if payload.is_nothing:
        return Outcome()
    stamp = Stamp("", NONE_LANDED)
    properties = stamp.properties(mode=payload.mode, rows=payload.rows, files=len(payload.files))
    properties = {name: value for name, value in properties.items() if name not in (ledger.QUERY_ID, ledger.EPOCH_ID)}
    for attempt in range(_ATTEMPTS):
        snapshot = store.open()
        change = payload.change(snapshot, store)
        try:
            published = store.publish(change, read_version=snapshot.version, properties=properties)
        except CommitConflictError as error:
            if not error.retryable or attempt == _ATTEMPTS - 1:
                raise
            pause(random.uniform(0, _LONGEST_PAUSE_SECONDS))
            continue
        return Outcome(published.version)
    raise AssertionError("unreachable")
