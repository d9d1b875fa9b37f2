"""A table's history as a stream of rows: where to start, how far the next trigger reads, and which rows that is.

Every row that a version adds is read exactly once, as it was when it was added. The rows between two offsets never
change, so Spark can ask for them again after a crash.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime

from headrace.errors import ChangeCommitError, ConfigurationError, DataLossError, ReadingError, TableNotFoundError
from headrace.tables.lance_store import LanceSnapshot, LanceStore
from headrace.tables.read.change_log import Ahead, ChangeLog
from headrace.tables.read.changes import files_of, fragments_of, live_rows, size_of
from headrace.tables.read.offset import Offset
from headrace.tables.read.pieces import Finder, Piece, Pieces
from headrace.tables.read.splits import Split
from headrace.tables.settings import NO_LIMIT, FeedRules, Limit

_log = logging.getLogger("headrace.tables")


class Feed:
    """The rows of one table, in the order of its versions."""

    def __init__(self, store: LanceStore, rules: FeedRules) -> None:
        self._store = store
        self._rules = rules
        self._log = ChangeLog(store)
        self._lost_until = 0

    def newest(self) -> int:
        """Return the table's newest version."""
        return self._store.open().version

    def transaction(self, version: int) -> str:
        """Return the id of a version's transaction; empty if cleanup has removed the version."""
        return self._uuid(self._store.open(), version)

    def begin(self) -> Offset:
        """Return the offset at which a new query starts.

        Raises:
            ConfigurationError: The starting version is newer than the table.
            DataLossError: The starting version was removed by a cleanup, and ``fails_on_loss`` is set.
        """
        snapshot = self._store.open()
        start = self._rules.start
        if start == "earliest":
            return Offset.first(snapshot.version, is_snapshot=True, after=self._uuid(snapshot, snapshot.version))
        if start == "latest":
            return Offset.first(snapshot.version + 1, after=self._uuid(snapshot, snapshot.version))
        if isinstance(start, datetime):
            start = self._version_since(snapshot, start)
        if start > snapshot.version + 1:
            raise ConfigurationError(
                f"startingVersion is {start}, and the newest version of {self._store.location} is {snapshot.version}.",
                hint='set it to an existing version, or to "latest".',
            )
        offset = Offset(start)
        if start <= snapshot.version and snapshot.entry(start) is None:
            offset = self._step_over_gap(snapshot, offset, snapshot.version)
        return Offset.first(offset.version, after=self._uuid(snapshot, offset.version - 1))

    def advance(self, start: Offset, limit: Limit = NO_LIMIT, newest: int | None = None) -> Offset:
        """Return the offset up to which the next trigger reads.

        If a version cannot be read and there are rows before it, the trigger ends before it. The next trigger raises.

        Args:
            start: Where the last trigger ended.
            limit: How much to read.
            newest: The last version to read; None for the newest.

        Raises:
            ChangeCommitError: The next version changes rows.
            DataLossError: The next version was removed by a cleanup.
            ReadingError: The offset does not belong to this table.
        """
        snapshot = self._store.open()
        self._require_same_table(snapshot, start)
        newest = snapshot.version if newest is None else min(newest, snapshot.version)
        wanted = newest if limit.files is None else min(newest, start.version + limit.files)
        budget, changes = _Budget(limit), self._log.ahead(snapshot, wanted)
        offset, is_whole = start, True
        while is_whole and offset.version <= newest:
            try:
                offset, is_whole = self._take(snapshot, offset, newest, changes, budget)
            except ReadingError:
                if offset == start:
                    raise
                break
        return replace(offset, origin=start.origin)

    def splits(self, start: Offset, end: Offset) -> list[Split]:
        """Return the rows between two offsets, as splits.

        Raises:
            ChangeCommitError: A version between them changes rows.
            DataLossError: A version between them was removed by a cleanup.
            ReadingError: An offset does not belong to this table.
        """
        snapshot = self._store.open()
        if start.is_first and end.origin:
            start = end.at_origin()
        self._require_same_table(snapshot, start)
        self._require_same_table(snapshot, end)
        newest = end.version if end.row else end.version - 1
        changes = self._log.ahead(snapshot, min(newest, snapshot.version))
        history: list[tuple[Pieces, int]] = []
        offset = start
        while (offset.version, offset.row) < (end.version, end.row):
            try:
                history.append((self._pieces(snapshot, offset, changes), offset.row))
            except DataLossError:
                offset = self._step_over_gap(snapshot, offset, newest)
                continue
            offset = Offset(offset.version + 1)
        finder = Finder(self._store, snapshot, [pieces for pieces, _ in history])
        found: list[Split] = []
        for pieces, row in history:
            last = end.row if pieces.version == end.version else None
            try:
                found += [finder.split(pieces, *piece) for piece in pieces.between(row, last)]
            except TableNotFoundError:  # Removed since its transaction was read, and the fragments compacted.
                self._step_over_gap(snapshot, Offset(pieces.version), newest)
        return found

    def _take(
        self, snapshot: LanceSnapshot, offset: Offset, newest: int, changes: Ahead, budget: _Budget
    ) -> tuple[Offset, bool]:
        """Read one version as far as the budget allows; return the new offset, and whether the version is finished."""
        try:
            pieces = self._pieces(snapshot, offset, changes)
        except DataLossError:
            return self._step_over_gap(snapshot, offset, newest), True
        if pieces.is_skipped:
            _log.warning("Skipping version %d of %s, which changes rows.", pieces.version, self._store.location)
        row = offset.row
        for _, _, rows, size in pieces.between(offset.row, None):
            taken = budget.take(rows, size)
            row += taken
            if taken < rows:
                reached = Offset(offset.version, row, offset.is_snapshot, pieces.transaction)
                return reached if row > offset.row else offset, False
        return Offset(offset.version + 1, after=pieces.transaction), True

    def _pieces(self, snapshot: LanceSnapshot, offset: Offset, changes: Ahead) -> Pieces:
        version = offset.version
        if offset.is_snapshot:
            try:
                fragments = fragments_of(self._store.open(version=version))
            except TableNotFoundError:
                raise self._lost(snapshot, version) from None
            parts = [
                Piece(files_of(fragment), live_rows(fragment), size_of(fragment), fragment.id) for fragment in fragments
            ]
            return Pieces(version, self._uuid(snapshot, version), tuple(part for part in parts if part.rows))
        change = changes.change(version)
        if change is None:
            raise self._lost(snapshot, version)
        if change.alters and not (self._rules.with_updates and change.has_updates):
            if not self._rules.skips_changes:
                raise ChangeCommitError(
                    f"Version {version} of {self._store.location} changes existing rows (it is "
                    f"{_article(change.kind)}), but a stream reads only added rows.",
                    hint="set skipChangeCommits=true to skip such versions, or start over with a new checkpoint.",
                )
            return Pieces(version, change.transaction, (), is_skipped=True)
        parts = [Piece(added.files, added.rows, added.bytes) for added in change.added]
        return Pieces(version, change.transaction, tuple(parts), keeps=change.keeps)

    def _step_over_gap(self, snapshot: LanceSnapshot, offset: Offset, newest: int) -> Offset:
        """Return the offset after versions that were removed, or raise if ``fails_on_loss`` is set."""
        if self._rules.fails_on_loss:
            raise self._lost(snapshot, offset.version)
        kept = [version for version in snapshot.kept_versions(offset.version) if version <= newest]
        following = min(kept, default=newest + 1)
        if following > self._lost_until:  # `advance` and `splits` both get here; warn once.
            self._lost_until = following
            _log.warning(
                "%d versions of %s were removed before this query read them, %d to %d. It continues without the rows "
                "that they added.",
                following - offset.version,
                self._store.location,
                offset.version,
                following - 1,
            )
        return Offset(following)

    def _lost(self, snapshot: LanceSnapshot, version: int) -> DataLossError:
        oldest = min(snapshot.kept_versions(0), default=snapshot.version)
        return DataLossError(
            f"Version {version} of {self._store.location} was removed by a cleanup before this query read it; the "
            f"oldest kept version is {oldest}.",
            hint="set failOnDataLoss=false to continue without the removed versions, or start over with a new "
            "checkpoint; keep versions for longer than the query may be stopped.",
        )

    def _version_since(self, snapshot: LanceSnapshot, moment: datetime) -> int:
        versions = sorted(snapshot.dates().items())
        since = [version for version, made in versions if made >= moment.astimezone(UTC)]
        if not since:
            return snapshot.version + 1
        if since[0] == versions[0][0] > 1 and self._rules.fails_on_loss:
            raise DataLossError(
                f"The versions of {self._store.location} before {versions[0][1].isoformat()} were removed, and "
                f"startingTimestamp is {moment.isoformat()}.",
                hint="set failOnDataLoss=false to start with the oldest kept version.",
            )
        return since[0]

    def _require_same_table(self, snapshot: LanceSnapshot, offset: Offset) -> None:
        if offset.version > snapshot.version + 1:
            raise self._replaced(offset)
        if offset.after and offset.newest_seen <= snapshot.version:
            entry = snapshot.entry(offset.newest_seen)
            if entry is not None and entry.uuid and entry.uuid != offset.after:
                raise self._replaced(offset)

    def _replaced(self, offset: Offset) -> ReadingError:
        return ReadingError(
            f"{self._store.location} is not the table that this query read up to version {offset.newest_seen}: the "
            "table was dropped and created again.",
            hint="start over with a new checkpoint.",
        )

    @staticmethod
    def _uuid(snapshot: LanceSnapshot, version: int) -> str:
        entry = snapshot.entry(version) if version > 0 else None
        return entry.uuid if entry is not None else ""


class _Budget:
    """The rest of a trigger's limit."""

    def __init__(self, limit: Limit) -> None:
        self._files = limit.files
        self._rows = limit.rows
        self._bytes = limit.bytes

    def take(self, rows: int, size: int) -> int:
        """Return how many of a fragment's rows may be read, and deduct them."""
        if self._files == 0 or self._rows == 0 or (self._bytes is not None and self._bytes <= 0):
            return 0
        taken = rows if self._rows is None else min(rows, self._rows)
        if self._files is not None:
            self._files -= 1
        if self._rows is not None:
            self._rows -= taken
        if self._bytes is not None:
            self._bytes -= size
        return taken


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
