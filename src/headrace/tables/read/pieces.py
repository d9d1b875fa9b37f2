"""The fragments that a stream reads for a version, and where a task finds them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from headrace.errors import TableNotFoundError
from headrace.tables.lance_store import LanceSnapshot, LanceStore
from headrace.tables.read.changes import files_of, fragments_of, is_untouched
from headrace.tables.read.splits import Split


@dataclass(frozen=True, slots=True)
class Piece:
    """A fragment, or the rows of it that a stream reads."""

    files: tuple[str, ...]
    rows: int
    bytes: int
    fragment: int | None = None
    """The fragment's id, if it is known; else it is looked up by its files."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """The fragments to read for one version.

    Attributes:
        version: The version.
        transaction: The id of its transaction.
        parts: The fragments, in order.
        is_skipped: Whether it is skipped because it changes rows.
        keeps: Whether all earlier fragments are in the version unchanged.
    """

    version: int
    transaction: str
    parts: tuple[Piece, ...]
    is_skipped: bool = False
    keeps: bool = False

    def between(self, first: int, last: int | None) -> Iterator[tuple[Piece, int, int, int]]:
        """Yield the parts that overlap a range of rows: part, first row in it, rows, bytes."""
        begin = 0
        for part in self.parts:
            start = max(first - begin, 0)
            stop = part.rows if last is None else min(last - begin, part.rows)
            if start < stop:
                yield part, start, stop - start, part.bytes * (stop - start) // part.rows
            begin += part.rows


class Finder:
    """Finds fragments by their data files, in as few versions as possible, because tasks must open them.

    The newest version is preferred, because cleanup does not remove it. Fragments that are no longer in it are
    searched in the last version that still has all of them. Else they are in the version that added them.

    Args:
        store: The table.
        newest: Its newest version.
        history: The versions that are read, in order.
    """

    def __init__(self, store: LanceStore, newest: LanceSnapshot, history: Iterable[Pieces]) -> None:
        self._store = store
        self._newest = newest
        self._last_with = _last_with(history)
        self._found: dict[int, dict[tuple[str, ...], Any]] = {}

    def split(self, pieces: Pieces, part: Piece, start: int, rows: int, size: int) -> Split:
        """Return the split for some rows of a fragment.

        Args:
            pieces: The version that added the fragment.
            part: The fragment.
            start: The first row.
            rows: The number of rows.
            size: Their approximate size.
        """
        version, number = pieces.version, part.fragment
        if number is None:
            version, number = self._find(version, part.files)
        return Split(
            version,
            number,
            start,
            rows,
            size,
            commit=pieces.version,
            files=part.files,
            is_snapshot=part.fragment is not None,
            is_whole=rows == part.rows,
        )

    def _find(self, version: int, files: tuple[str, ...]) -> tuple[int, int]:
        for candidate in (self._newest.version, self._last_with[version]):
            fragment = self._fragments(candidate).get(files)
            if fragment is not None and is_untouched(fragment, files):
                return candidate, fragment.id
        return version, self._fragments(version, is_required=True)[files].id

    def _fragments(self, version: int, *, is_required: bool = False) -> dict[tuple[str, ...], Any]:
        """Return a version's fragments; none if cleanup has removed it, unless it is required."""
        if version not in self._found:
            try:
                snapshot = self._newest if version == self._newest.version else self._store.open(version=version)
            except TableNotFoundError:
                if is_required:
                    raise
                return {}
            self._found[version] = {files_of(fragment): fragment for fragment in fragments_of(snapshot)}
        return self._found[version]


def _last_with(history: Iterable[Pieces]) -> dict[int, int]:
    """Return, for each version, the last one of the history that has all of its fragments unchanged."""
    found: dict[int, int] = {}
    last = follower = 0
    for pieces in reversed(list(history)):
        if follower != pieces.version + 1:
            last = pieces.version
        found[pieces.version] = last
        follower = pieces.version if pieces.keeps else 0
    return found
