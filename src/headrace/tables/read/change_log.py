"""How the versions of a table changed its rows: remembered, and read by several threads at once."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

from headrace.errors import HeadraceError
from headrace.tables.lance_store import LanceSnapshot, LanceStore
from headrace.tables.read.changes import VersionChange, change_at

_REMEMBERED = 16 * 1024
_THREADS = 8
_MOST_AHEAD = 512


class ChangeLog:
    """The changes of a table's versions. Reading one takes a request or two to the store."""

    def __init__(self, store: LanceStore) -> None:
        self._store = store
        self._changes: OrderedDict[int, VersionChange] = OrderedDict()

    def change(self, snapshot: LanceSnapshot, version: int) -> VersionChange | None:
        """Return how a version changed the rows; None if cleanup has removed it.

        Raises:
            ReadingError: The table does not record how many rows its fragments have.
            StorageError: The table cannot be read.
        """
        found = self._changes.get(version) or change_at(self._store, snapshot, version)
        if found is not None:
            self._changes[version] = found
            while len(self._changes) > _REMEMBERED:
                self._changes.popitem(last=False)
        return found

    def ahead(self, snapshot: LanceSnapshot, newest: int) -> Ahead:
        """Return a reader of the changes of versions in order, up to the newest, which reads some ahead."""
        return Ahead(self, self._store, snapshot, newest)

    def knows(self, version: int) -> bool:
        """Whether the version was read before."""
        return version in self._changes

    def add(self, change: VersionChange) -> None:
        """Remember the change of a version that was read ahead, now that it is used."""
        self._changes.setdefault(change.version, change)


class Ahead:
    """Changes that were read ahead, in numbers that double.

    A version counts as read only when it is used. What cleanup removes before that is not remembered.

    Args:
        log: What was read before.
        store: The table.
        snapshot: Its newest version.
        newest: The last version to read.
    """

    def __init__(self, log: ChangeLog, store: LanceStore, snapshot: LanceSnapshot, newest: int) -> None:
        self._log = log
        self._store = store
        self._snapshot = snapshot
        self._newest = newest
        self._found: dict[int, VersionChange] = {}
        self._until = 0
        self._count = _THREADS

    def change(self, version: int) -> VersionChange | None:
        """Return how a version changed the rows. Versions are asked for in order. Returns and raises as the log's."""
        if version >= self._until and not self._log.knows(version):
            self._read_from(version)
        found = self._found.pop(version, None)
        if found is not None:
            self._log.add(found)
        return self._log.change(self._snapshot, version)

    def _read_from(self, version: int) -> None:
        """Read some versions. What cannot be read is left out: the log reads it again and raises."""
        self._until = min(version + self._count, self._newest + 1)
        self._count = min(self._count * 2, _MOST_AHEAD)
        if self._until - version < _THREADS:
            return
        parts = [range(version + first, self._until, _THREADS) for first in range(_THREADS)]
        with ThreadPoolExecutor(_THREADS, "headrace-changes") as pool:
            for part in pool.map(self._read, parts):
                self._found |= part

    def _read(self, versions: range) -> dict[int, VersionChange]:
        snapshot = self._snapshot.copy()
        found: dict[int, VersionChange] = {}
        with contextlib.suppress(HeadraceError):
            for version in versions:
                change = change_at(self._store, snapshot, version)
                if change is not None:
                    found[version] = change
        return found
