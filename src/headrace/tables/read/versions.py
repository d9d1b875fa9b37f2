"""The versions that a task's splits refer to, each opened once, and the scans that read the splits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from headrace.errors import DataLossError, TableNotFoundError
from headrace.tables.lance_store import LanceSnapshot, LanceStore
from headrace.tables.read.changes import fragments_of, is_untouched
from headrace.tables.read.splits import Split

# A scan of one small fragment takes five times as long as its part of a shared scan.
_SHARED_BYTES = 4 * 1024 * 1024


class Versions:
    """Opens the versions of a table, and remembers them."""

    def __init__(self, store: LanceStore) -> None:
        self._store = store
        self._opened: dict[int | None, LanceSnapshot | None] = {}
        self._fragments: dict[int | None, dict[int, Any]] = {}

    def scans(self, splits: Iterable[Split], *, by_commit: bool) -> Iterator[tuple[LanceSnapshot, list[Split]]]:
        """Yield consecutive splits that one scan can read, with the version to scan: small whole fragments of it.

        Args:
            splits: The splits of a task.
            by_commit: Whether a scan may read only rows that one version added.

        Raises:
            DataLossError: A version was removed by a cleanup.
            StorageError: The table cannot be read.
        """
        opened = ((self._snapshot(part), part) for part in splits)
        for _, group in groupby(opened, lambda each: _scan_key(each[0], each[1], by_commit=by_commit)):
            pairs = list(group)
            yield pairs[0][0], [part for _, part in pairs]

    def _snapshot(self, part: Split) -> LanceSnapshot:
        """Return the split's version; if it was removed, one that has the same fragment."""
        snapshot = self._open(part.version) or self._with_fragment(None, part) or self._with_fragment(part.commit, part)
        if snapshot is None:
            raise DataLossError(
                f"Version {part.version} of {self._store.location} was removed by a cleanup while it was read.",
                hint="restart the query; keep versions for longer than a query needs to read them.",
            )
        return snapshot

    def _with_fragment(self, version: int | None, part: Split) -> LanceSnapshot | None:
        """Return a version, the newest for None, if it has the fragment with the same rows."""
        snapshot = self._open(version)
        if snapshot is None:
            return None
        if version not in self._fragments:
            self._fragments[version] = {fragment.id: fragment for fragment in fragments_of(snapshot)}
        found = self._fragments[version].get(part.fragment)
        return snapshot if found is not None and is_untouched(found, part.files) else None

    def _open(self, version: int | None) -> LanceSnapshot | None:
        if version not in self._opened:
            try:
                self._opened[version] = self._store.open(version=version)
            except TableNotFoundError:
                self._opened[version] = None
        return self._opened[version]


def _scan_key(snapshot: LanceSnapshot, part: Split, *, by_commit: bool) -> tuple[object, ...]:
    if not part.is_whole or part.bytes > _SHARED_BYTES:
        return (object(),)  # Equal to no other: the split has a scan to itself.
    return (id(snapshot), part.commit, part.is_snapshot) if by_commit else (id(snapshot),)
