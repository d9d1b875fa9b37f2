"""Splits: row ranges of fragments, grouped into tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

# The target number of tasks; a task reads between _LEAST_BYTES and _MOST_BYTES, which may make them fewer or more.
_TASKS = 32
_LEAST_BYTES = 16 * 1024 * 1024
_MOST_BYTES = 128 * 1024 * 1024
_LEAST_ROW_BYTES = 8


@dataclass(frozen=True, slots=True)
class Split:
    """A range of rows of one fragment in one version.

    Attributes:
        version: The version to read.
        fragment: The fragment's id in that version.
        start: The first row.
        rows: The number of rows; None for all, and then `start` is 0.
        bytes: Their approximate size.
        commit: The version that added the rows; for a snapshot, the version at which the stream started.
        files: The fragment's data files.
        is_snapshot: Whether the rows were in the table when the stream started.
        is_whole: Whether these are all rows of the fragment.
    """

    version: int
    fragment: int
    start: int
    rows: int | None
    bytes: int
    commit: int
    files: tuple[str, ...] = ()
    is_snapshot: bool = False
    is_whole: bool = False


def plan_tasks(splits: Iterable[Split]) -> list[list[Split]]:
    """Group splits into tasks of about the same size, in order; large splits are cut."""
    sized = [replace(part, bytes=max(part.bytes, _LEAST_ROW_BYTES * (part.rows or 0))) for part in splits]
    share = min(max(sum(part.bytes for part in sized) // _TASKS, _LEAST_BYTES), _MOST_BYTES)
    groups: list[list[Split]] = []
    size = share
    for part in (piece for whole in sized for piece in _cut(whole, share)):
        if size + part.bytes > share:
            groups.append([])
            size = 0
        groups[-1].append(part)
        size += part.bytes
    return groups


def _cut(part: Split, share: int) -> Iterator[Split]:
    pieces = 1 if not part.rows else min(part.rows, -(-part.bytes // share))
    if pieces == 1:
        yield part
        return
    assert part.rows is not None
    edges = [part.rows * number // pieces for number in range(pieces + 1)]
    for begin, end in pairwise(edges):
        yield replace(part, start=part.start + begin, rows=end - begin, bytes=part.bytes // pieces, is_whole=False)
