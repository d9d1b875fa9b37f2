"""A table's history as a feed of rows: where to begin, how far to go next, and which rows lie between.

Every row that a version adds comes exactly once, as it was when it was added. What lies between two positions is fixed
as soon as both exist, so it can be asked for again after a crash.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from headrace.errors import ChangeCommitError, ConfigurationError, DataLossError, ReadingError, TableNotFoundError
from headrace.tables.lance_store import LanceSnapshot, LanceStore
from headrace.tables.read.changes import (
    VersionChange,
    change_at,
    files_of,
    fragments_of,
    is_untouched,
    live_rows,
    size_of,
)
from headrace.tables.read.offset import Offset
from headrace.tables.read.splits import Split
from headrace.tables.settings import NO_LIMIT, FeedRules, Limit

_log = logging.getLogger("headrace.tables")

_MOST_REMEMBERED = 4096


class Feed:
    """The rows of one table, in the order of its versions."""

    def __init__(self, store: LanceStore, rules: FeedRules) -> None:
        self._store = store
        self._rules = rules
        self._changes: OrderedDict[int, VersionChange] = OrderedDict()
        self._lost_until = 0

    def newest(self) -> int:
        """The newest version there is."""
        return self._store.open().version

    def transaction(self, version: int) -> str:
        """The transaction that made a version; empty if it is gone."""
        return self._uuid(self._store.open(), version)

    def begin(self) -> Offset:
        """Where a new query starts.

        Raises:
            ConfigurationError: There is no such version.
            DataLossError: It is gone.
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
                hint='name a version that is there, or "latest".',
            )
        offset = Offset(start)
        if start <= snapshot.version and snapshot.entry(start) is None:
            offset = self._step_over_gap(snapshot, offset, snapshot.version)
        return Offset.first(offset.version, after=self._uuid(snapshot, offset.version - 1))

    def advance(self, start: Offset, limit: Limit = NO_LIMIT, newest: int | None = None) -> Offset:
        """How far to go from ``start``.

        Versions that cannot be read end a step that has something to read before them, and raise in the next one.

        Args:
            start: Where the last step ended.
            limit: How much to take.
            newest: The last version to look at; the newest there is, if not given.

        Raises:
            ChangeCommitError: The next version changes rows.
            DataLossError: The next version is gone.
            ReadingError: This is not the table that the offset belongs to.
        """
        snapshot = self._store.open()
        self._require_same_table(snapshot, start)
        newest = snapshot.version if newest is None else min(newest, snapshot.version)
        budget = _Budget(limit)
        offset, is_whole = start, True
        while is_whole and offset.version <= newest:
            try:
                offset, is_whole = self._take(snapshot, offset, newest, budget)
            except ReadingError:
                if offset == start:
                    raise
                break
        return replace(offset, origin=start.origin)

    def splits(self, start: Offset, end: Offset) -> list[Split]:
        """The rows between two positions.

        Raises:
            ChangeCommitError, DataLossError, ReadingError: As in ``advance``.
        """
        snapshot = self._store.open()
        if start.is_first and end.origin:
            start = end.at_origin()
        self._require_same_table(snapshot, start)
        self._require_same_table(snapshot, end)
        finder = _Finder(self._store, snapshot)
        found: list[Split] = []
        offset = start
        while (offset.version, offset.row) < (end.version, end.row):
            try:
                pieces = self._pieces(snapshot, offset)
            except DataLossError:
                offset = self._step_over_gap(snapshot, offset, end.version)
                continue
            last = end.row if offset.version == end.version else None
            found += [finder.slice(pieces, *piece) for piece in pieces.between(offset.row, last)]
            offset = Offset(offset.version + 1)
        return found

    def _take(self, snapshot: LanceSnapshot, offset: Offset, newest: int, budget: _Budget) -> tuple[Offset, bool]:
        """One version's rows, as far as the budget goes, and whether it went to their end."""
        try:
            pieces = self._pieces(snapshot, offset)
        except DataLossError:
            return self._step_over_gap(snapshot, offset, newest), True
        if pieces.is_skipped:
            _log.warning("Version %d of %s changes rows and is passed over.", pieces.version, self._store.location)
        row = offset.row
        for _, _, rows, size in pieces.between(offset.row, None):
            taken = budget.take(rows, size)
            row += taken
            if taken < rows:
                reached = Offset(offset.version, row, offset.is_snapshot, pieces.transaction)
                return reached if row > offset.row else offset, False
        return Offset(offset.version + 1, after=pieces.transaction), True

    def _pieces(self, snapshot: LanceSnapshot, offset: Offset) -> _Pieces:
        version = offset.version
        if offset.is_snapshot:
            try:
                fragments = fragments_of(self._store.open(version=version))
            except TableNotFoundError:
                raise self._lost(snapshot, version) from None
            parts = [
                _Piece(files_of(fragment), live_rows(fragment), size_of(fragment), fragment.id)
                for fragment in fragments
            ]
            return _Pieces(version, self._uuid(snapshot, version), tuple(part for part in parts if part.rows))
        change = self._change(snapshot, version)
        if change.alters and not (self._rules.with_updates and change.has_updates):
            if not self._rules.skips_changes:
                raise ChangeCommitError(
                    f"Version {version} of {self._store.location} changes rows that were there before (it is "
                    f"{_article(change.kind)}), and a stream gives only rows that are added.",
                    hint="set skipChangeCommits=true to pass over such versions, or start anew with a new checkpoint.",
                )
            return _Pieces(version, change.transaction, (), is_skipped=True)
        parts = [_Piece(added.files, added.rows, added.bytes) for added in change.added]
        return _Pieces(version, change.transaction, tuple(parts))

    def _change(self, snapshot: LanceSnapshot, version: int) -> VersionChange:
        found = self._changes.get(version)
        if found is None:
            found = change_at(self._store, snapshot, version)
            if found is None:
                raise self._lost(snapshot, version)
            self._changes[version] = found
            while len(self._changes) > _MOST_REMEMBERED:
                self._changes.popitem(last=False)
        return found

    def _step_over_gap(self, snapshot: LanceSnapshot, offset: Offset, newest: int) -> Offset:
        """Go on behind versions that are gone, if that is allowed."""
        if self._rules.fails_on_loss:
            raise self._lost(snapshot, offset.version)
        kept = [version for version in snapshot.kept_versions(offset.version) if version <= newest]
        following = min(kept, default=newest + 1)
        if following > self._lost_until:  # A step is planned and then planned; it is told of once.
            self._lost_until = following
            _log.warning(
                "%d versions of %s are gone, %d to %d; the rows they added and that were not read yet are lost to this "
                "query.",
                following - offset.version,
                self._store.location,
                offset.version,
                following - 1,
            )
        return Offset(following)

    def _lost(self, snapshot: LanceSnapshot, version: int) -> DataLossError:
        oldest = min(snapshot.kept_versions(0), default=snapshot.version)
        return DataLossError(
            f"Version {version} of {self._store.location} was cleaned up before this query had read it; the oldest "
            f"that is kept is {oldest}.",
            hint="set failOnDataLoss=false to go on with the versions that are left, or start anew with a new "
            "checkpoint; keep versions for longer than a query may stand still.",
        )

    def _version_since(self, snapshot: LanceSnapshot, moment: datetime) -> int:
        versions = sorted(snapshot.dates().items())
        since = [version for version, made in versions if made >= moment.astimezone(UTC)]
        if not since:
            return snapshot.version + 1
        if since[0] == versions[0][0] > 1 and self._rules.fails_on_loss:
            raise DataLossError(
                f"The versions of {self._store.location} that were made before {versions[0][1].isoformat()} are gone, "
                f"and startingTimestamp is {moment.isoformat()}.",
                hint="set failOnDataLoss=false to begin with the oldest version that is kept.",
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
            f"{self._store.location} is not the table this query has read up to version {offset.newest_seen}: it was "
            "dropped and made anew.",
            hint="start anew with a new checkpoint.",
        )

    @staticmethod
    def _uuid(snapshot: LanceSnapshot, version: int) -> str:
        entry = snapshot.entry(version) if version > 0 else None
        return entry.uuid if entry is not None else ""


@dataclass(frozen=True, slots=True)
class _Piece:
    files: tuple[str, ...]
    rows: int
    bytes: int
    fragment: int | None = None
    """Its number in the version that is read, where that is known."""


@dataclass(frozen=True, slots=True)
class _Pieces:
    """The fragments whose rows a version brings."""

    version: int
    transaction: str
    parts: tuple[_Piece, ...]
    is_skipped: bool = False

    def between(self, first: int, last: int | None) -> Iterator[tuple[_Piece, int, int, int]]:
        """The parts from one row to another: part, first row in it, rows, bytes."""
        begin = 0
        for part in self.parts:
            start = max(first - begin, 0)
            stop = part.rows if last is None else min(last - begin, part.rows)
            if start < stop:
                yield part, start, stop - start, part.bytes * (stop - start) // part.rows
            begin += part.rows


class _Budget:
    """What is left of a limit."""

    def __init__(self, limit: Limit) -> None:
        self._files = limit.files
        self._rows = limit.rows
        self._bytes = limit.bytes

    def take(self, rows: int, size: int) -> int:
        """How many of a fragment's rows may be taken."""
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


class _Finder:
    """Finds fragments by their files: in the newest version if they are there as they were, else in their own."""

    def __init__(self, store: LanceStore, newest: LanceSnapshot) -> None:
        self._store = store
        self._newest = newest
        self._found: dict[int, dict[tuple[str, ...], Any]] = {}

    def slice(self, pieces: _Pieces, part: _Piece, start: int, rows: int, size: int) -> Split:
        version, number = pieces.version, part.fragment
        if number is None:
            version, number = self._find(version, part.files)
        is_snapshot = part.fragment is not None
        return Split(version, number, start, rows, size, pieces.version, part.files, is_snapshot)

    def _find(self, version: int, files: tuple[str, ...]) -> tuple[int, int]:
        newest = self._newest.version
        fragment = self._fragments(newest).get(files)
        if fragment is not None and is_untouched(fragment, files):
            return newest, fragment.id
        return version, self._fragments(version)[files].id

    def _fragments(self, version: int) -> dict[tuple[str, ...], Any]:
        if version not in self._found:
            snapshot = self._newest if version == self._newest.version else self._store.open(version=version)
            self._found[version] = {files_of(fragment): fragment for fragment in fragments_of(snapshot)}
        return self._found[version]


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
