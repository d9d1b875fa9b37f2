"""The lookup: find a query's newest stamp in a table's history, and read as few versions as possible.

In the steady state that is one version, the last one of the run itself. A process that knows nothing of the run reads
all versions down to the query's bookmark. Only the first epoch of a run can be a replay, so only that one needs it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from headrace.errors import HistoryGapError
from headrace.tables.commit import bookmark, replaced
from headrace.tables.commit.bookmark import Bookmark
from headrace.tables.commit.gaps import may_fill_gap, missing_between
from headrace.tables.commit.ledger import QueryRun, Stamp, stamp_of
from headrace.tables.settings import Rules
from headrace.tables.store import Entry, Kind, Published, Snapshot, Store

_log = logging.getLogger("headrace.tables")


@dataclass(frozen=True, slots=True)
class HistoryScan:
    """The result of reading the history, from a version downwards.

    Attributes:
        at: The version at which the reading began; None if that version was already removed.
        stamp: The newest stamp of the query.
        stamped_at: The version with that stamp.
        replaced: The overwrites and restores above it, newest first.
        missing: Versions above it that were removed unread.
    """

    at: Published | None = None
    stamp: Stamp | None = None
    stamped_at: int = 0
    replaced: tuple[Entry, ...] = ()
    missing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Lookup:
    """The result of a lookup.

    Attributes:
        snapshot: The newest version of the table.
        newest: The newest stamp of the query, or None.
        read_version: The version on which to base the commit.
        replaced: An overwrite or restore by another writer since that stamp, after which its rows may be gone.
        scan: The history read so far; the next lookup continues from it.
        versions_read: How many versions were read.
    """

    snapshot: Snapshot
    newest: Stamp | None
    read_version: int
    replaced: Entry | None = None
    scan: HistoryScan | None = None
    versions_read: int = 0


@dataclass
class StampReader:
    """Reads the stamps of one query from the history of a table, for one run."""

    store: Store
    rules: Rules
    run: QueryRun | None
    _versions_read: int = 0

    def look_up(
        self, last: Bookmark | None = None, scan: HistoryScan | None = None, *, may_rebase: bool = False
    ) -> Lookup:
        """Take steps 1 and 2 of the protocol.

        Args:
            last: The run's newest stamp, if it has one.
            scan: The history that an earlier lookup read, if the run has no stamp.
            may_rebase: Whether the commit can be based on an older version; then ``lookback`` limits the versions read.

        Raises:
            TableReplacedError: The table was overwritten, restored or recreated during the run.
            HistoryGapError: Versions that matter are missing, and the settings say to stop then.
        """
        self._versions_read = 0
        snapshot = self.store.open()
        if last is not None:
            lookup = self._since(last, snapshot, may_rebase=may_rebase)
        else:
            lookup = self._everything(snapshot, scan)
        return replace(lookup, versions_read=self._versions_read)

    def _since(self, known: Bookmark, snapshot: Snapshot, *, may_rebase: bool) -> Lookup:
        """Look up for a run that has stamped before: only versions after its last stamp can matter."""
        if not self._is_kept_or_cleaned(known.at, snapshot):
            raise replaced.recreated_under(self.rules, known.at.version)
        versions: Sequence[int] = range(snapshot.version, known.at.version, -1)
        is_capped = may_rebase and len(versions) > self.rules.lookback
        if is_capped:
            scan = self._read(snapshot, versions[: self.rules.lookback])
        elif len(versions) > self.rules.lookback:
            scan = self._read(snapshot, snapshot.kept_versions(known.at.version), down_to=known.at.version)
        else:
            scan = self._read(snapshot, versions)
        scan = self._settled(scan, known.at.version, snapshot, known.stamp)
        if scan.stamp is None or scan.stamp.run == known.stamp.run:
            self._require_not_replaced(scan)
        if scan.stamp is not None:
            return Lookup(snapshot, scan.stamp, snapshot.version)
        if not is_capped:
            return Lookup(snapshot, known.stamp, snapshot.version)
        # The unread versions may contain another run's fence. A commit based on our own last version conflicts with
        # it; if the fence was cleaned up, the bookmark of that run is still there.
        rival = self.bookmark_above(known.at.version, snapshot)
        return Lookup(snapshot, rival.stamp if rival else known.stamp, known.at.version)

    def _everything(self, snapshot: Snapshot, before: HistoryScan | None) -> Lookup:
        """Look up in a process that knows nothing of the run: down to the bookmark, or to the beginning.

        No version is read twice: a table with many writers would change faster than its history can be read, and the
        run would never take over.
        """
        if before is not None and before.at is not None and self._is_kept_or_cleaned(before.at, snapshot):
            floor = before.at.version
            scan = self._read(snapshot, snapshot.kept_versions(floor), down_to=floor)
            scan = self._settled(scan, floor, snapshot, before.stamp)
            scan = replace(scan, at=scan.at or before.at)
            if scan.stamp is None:
                scan = replace(
                    scan,
                    stamp=before.stamp,
                    stamped_at=before.stamped_at,
                    replaced=scan.replaced + before.replaced,
                )
        else:
            snapshot, scan = self._from_bookmark(snapshot)
        if scan.stamp is not None and self.run is not None and scan.stamp.run == self.run.id:
            self._require_not_replaced(scan)
        by = replaced.undoing(scan.replaced, scan.stamped_at) if scan.stamp is not None else None
        return Lookup(snapshot, scan.stamp, snapshot.version, by, scan)

    def _from_bookmark(self, snapshot: Snapshot) -> tuple[Snapshot, HistoryScan]:
        mark = bookmark.read(self.store, self.rules.query_id)
        if mark is not None and mark.at.version > snapshot.version:
            snapshot = self.store.open()  # Another writer may have made it between the two reads.
        if mark is not None and not self._is_kept_or_cleaned(mark.at, snapshot):
            _log.warning(
                "The bookmark of query %r belongs to an earlier table at the same address and is not used.",
                self.rules.query_id,
            )
            mark = None
        floor = mark.at.version if mark else 0
        scan = self._read(snapshot, snapshot.kept_versions(floor), down_to=floor)
        scan = self._settled(scan, floor, snapshot, mark.stamp if mark else None)
        if mark is None:
            return snapshot, scan
        newest = scan.stamp or mark.stamp
        if newest.checkpoint == mark.stamp.checkpoint and newest.epoch < mark.stamp.epoch:
            newest = replace(newest, epoch=mark.stamp.epoch)  # Epochs of one checkpoint only go up.
        stamped_at = scan.stamped_at if scan.stamp is not None else mark.at.version
        return snapshot, replace(scan, at=scan.at or mark.at, stamp=newest, stamped_at=stamped_at)

    def _read(self, snapshot: Snapshot, versions: Sequence[int], *, down_to: int | None = None) -> HistoryScan:
        """Read versions, newest first, until one has a stamp of the query."""
        scan = HistoryScan()
        missing: list[int] = []
        expected = snapshot.version
        for version in versions:
            missing.extend(range(expected, version, -1))
            expected = version - 1
            entry = self._entry(snapshot, version)
            if entry is None:
                missing.append(version)
                continue
            if version == snapshot.version:
                scan = replace(scan, at=Published(version, entry.uuid))
            stamp = stamp_of(entry.properties, self.rules.query_id, self.rules.words)
            if stamp is not None:
                if stamp.read_version is not None:  # Its run had read the versions before it only up to there.
                    missing.extend(missing_between(snapshot, stamp.read_version, version))
                if entry.kind is Kind.REPLACE and may_fill_gap(snapshot, version):
                    # Its result may not be in the table. If it is, landing it again changes nothing.
                    stamp = replace(stamp, epoch=stamp.epoch - 1)
                return replace(scan, stamp=stamp, stamped_at=version, missing=tuple(missing))
            if entry.kind in (Kind.REPLACE, Kind.RESTORE):
                scan = replace(scan, replaced=(*scan.replaced, entry))
        if down_to is not None:
            missing.extend(range(expected, down_to, -1))
        return replace(scan, missing=tuple(missing))

    def require_whole(self, snapshot: Snapshot, above: int, below: int, known: Stamp | None) -> None:
        """Require that no version between two others was removed unread.

        Raises:
            HistoryGapError: One was, and the settings say to stop then.
        """
        missing = missing_between(snapshot, above, below)
        if missing:
            self._report_gap(missing, known)

    def _settled(self, scan: HistoryScan, floor: int, snapshot: Snapshot, known: Stamp | None) -> HistoryScan:
        """Look up missing versions in the bookmark; what it does not cover is a gap.

        Args:
            scan: The versions above `floor`.
            floor: The newest version that was not read.
            snapshot: The table.
            known: The newest stamp that is known from the versions up to `floor`.

        Raises:
            HistoryGapError: There is a gap, and the settings say to stop then.
        """
        if scan.missing:
            # They are above the stamp; or below a fence, and above the version that its run had read.
            mark = self.bookmark_above(max(floor, min(scan.stamped_at, *scan.missing) - 1), snapshot)
            if mark is not None:
                unread = tuple(version for version in scan.missing if version > mark.at.version)
                scan = replace(scan, missing=unread)
                if scan.stamp is None or mark.at.version > scan.stamped_at:
                    scan = replace(scan, stamp=mark.stamp, stamped_at=mark.at.version)
                elif mark.stamp.checkpoint == scan.stamp.checkpoint:
                    scan = replace(scan, stamp=replace(scan.stamp, epoch=max(scan.stamp.epoch, mark.stamp.epoch)))
        if scan.missing:
            self._report_gap(scan.missing, scan.stamp or known)
        return scan

    def _require_not_replaced(self, scan: HistoryScan) -> None:
        by = [entry for entry in scan.replaced if entry.version > scan.stamped_at]
        if by:
            raise replaced.replaced_under(self.rules, by[0])

    def _is_kept_or_cleaned(self, made: Published, snapshot: Snapshot) -> bool:
        """Whether a version is, or was, in this table and not in an earlier one at the same address."""
        if made.version > snapshot.version:
            return False
        entry = self._entry(snapshot, made.version)
        return entry is None or entry.uuid == made.uuid

    def bookmark_above(self, version: int, snapshot: Snapshot) -> Bookmark | None:
        """Return the query's newest bookmark, if it points to a later version of this table."""
        mark = bookmark.read(self.store, self.rules.query_id)
        if mark is None or mark.at.version <= version:
            return None
        if mark.at.version > snapshot.version:
            snapshot = self.store.open()
        return mark if self._is_kept_or_cleaned(mark.at, snapshot) else None

    def _entry(self, snapshot: Snapshot, version: int) -> Entry | None:
        self._versions_read += 1
        return snapshot.entry(version)

    def _report_gap(self, missing: Sequence[int], found: Stamp | None) -> None:
        span = f"{min(missing)}" if len(missing) == 1 else f"{min(missing)} to {max(missing)}"
        verb = "was" if len(missing) == 1 else "were"
        what = (
            f"{len(missing)} of the table's versions ({span}) {verb} removed before query "
            f"{self.rules.query_id!r} could read {'it' if len(missing) == 1 else 'them'}"
        )
        if self.rules.on_history_gap == "fail":
            raise HistoryGapError(
                f"{what}: it is not known whether its epoch landed there. Nothing was landed.",
                hint="check whether the epoch's rows are in the table; if not, or if this query never wrote to it, "
                f"restart once with {self.rules.words.warn_about_gap}.",
            )
        known = (
            f"the newest epoch known to have landed is {found.epoch}"
            if found
            else "the versions that remain have no stamp of it, so none of its epochs counts as landed"
        )
        _log.warning("%s; %s.", what, known)
