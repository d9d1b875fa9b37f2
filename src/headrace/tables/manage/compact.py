"""Compact small fragments and remove old versions while a stream is running.

A compaction starts after a commit, on a background thread, one at a time per table, with bounded work. It does not
affect exactly-once: a compaction is a version like any other writer's, and the bookmark records landed epochs whose
versions were removed. A failure is logged, and the next due compaction tries again.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Protocol

import lance

from headrace.errors import HeadraceError
from headrace.tables.lance_errors import translated
from headrace.tables.lance_store import LanceStore
from headrace.tables.location import Location
from headrace.tables.settings import CompactionRules

_log = logging.getLogger("headrace.tables")

# The most that one compaction may rewrite.
_BOUNDS: dict[str, Any] = {
    "max_source_fragments": 5_000,
    "max_source_rows": 20_000_000,
    "max_source_bytes": 4 * 1024**3,
}

# Target sizes in rows, each eight times the one below; the last is Lance's default. Fragments are rewritten to the
# next size only when there are enough of them, so the work of a compaction does not grow with the table.
_STEPS = (16_384, 131_072, 1_048_576)
_ENOUGH = 8

# At exit, the process waits this long for a running compaction.
_EXIT_SECONDS = 10.0


class Upkeep(Protocol):
    """The work of one compaction round."""

    def small_fragments(self, location: Location) -> int:
        """Return how many fragments are small."""

    def compact(self, location: Location) -> int:
        """Compact small fragments; return by how many the number of fragments has decreased."""

    def clean(self, location: Location, retain_versions: int) -> int:
        """Remove old versions; return how many."""


class LanceUpkeep:
    """The work on a Lance table, with the functions of this module."""

    def small_fragments(self, location: Location) -> int:
        """See `small_fragments`."""
        return small_fragments(location)

    def compact(self, location: Location) -> int:
        """See `compact`."""
        return compact(location)

    def clean(self, location: Location, retain_versions: int) -> int:
        """See `clean`."""
        return clean(location, retain_versions)


class Compactor:
    """Runs the compactions of this process.

    Args:
        upkeep: The work of a round; it may raise HeadraceError, which is logged.
    """

    def __init__(self, *, upkeep: Upkeep | None = None) -> None:
        self._upkeep = upkeep or LanceUpkeep()
        self._running: dict[Location, threading.Thread] = {}
        self._lock = threading.Lock()
        atexit.register(self.wait, _EXIT_SECONDS)

    def after_commit(self, location: Location, rules: CompactionRules, epoch: int) -> None:
        """Start a compaction if one is due and none is running for the table; return immediately."""
        if not rules.is_due(epoch) and rules.above_fragments is None:
            return
        with self._lock:
            current = self._running.get(location)
            if current is not None and current.is_alive():
                return
            thread = threading.Thread(
                target=self._run, args=(location, rules, epoch), name="headrace-compact", daemon=True
            )
            self._running[location] = thread
            thread.start()

    def wait(self, seconds: float | None = None) -> None:
        """Wait for running compactions, each for at most ``seconds``; None waits without limit."""
        with self._lock:
            threads = list(self._running.values())
        for thread in threads:
            thread.join(seconds)

    def _run(self, location: Location, rules: CompactionRules, epoch: int) -> None:
        try:
            if rules.is_due(epoch) or rules.is_too_many(self._upkeep.small_fragments(location)):
                self._upkeep.compact(location)
                if rules.retain_versions is not None:
                    self._upkeep.clean(location, rules.retain_versions)
        except HeadraceError as error:
            _log.warning("Compaction of %s after epoch %d failed; it is retried later: %s", location, epoch, error)


def small_fragments(location: Location) -> int:
    """Return how many fragments are smaller than the size the next compaction aims for."""
    with translated(location, "counting fragments"):
        sizes = _sizes(LanceStore(location).open().dataset)
    return sum(size < target_rows(sizes) for size in sizes)


def compact(location: Location, *, is_full: bool = False, store: LanceStore | None = None) -> int:
    """Compact small fragments, with bounded work unless ``is_full`` is set.

    Args:
        location: The table.
        is_full: Whether to compact all fragments below Lance's default size at once, without a bound.
        store: The table's store; by default a new one.

    Returns:
        By how many the number of fragments has decreased.

    Raises:
        StorageError: A file cannot be read or written, or another writer changed the same rows.
    """
    dataset = (store or LanceStore(location)).open().dataset
    with translated(location, "compacting"):
        metrics = dataset.optimize.compact_files(
            target_rows_per_fragment=_STEPS[-1] if is_full else target_rows(_sizes(dataset)),
            **({} if is_full else _BOUNDS),
            num_threads=1,
        )
    return int(metrics.fragments_removed - metrics.fragments_added)


def _sizes(dataset: lance.LanceDataset) -> list[int]:
    return [fragment.physical_rows for fragment in dataset.get_fragments()]


def target_rows(sizes: Sequence[int]) -> int:
    """Return the target size in rows for the next compaction, given the fragments' sizes."""
    for below, step in reversed(list(pairwise(_STEPS))):
        if sum(below <= size < step for size in sizes) >= _ENOUGH:
            return step
    return _STEPS[0]


def clean(location: Location, retain_versions: int) -> int:
    """Remove old versions, and the files that only they use. Tagged versions and uncommitted files are kept.

    Returns:
        The number of versions removed.

    Raises:
        StorageError: A file cannot be removed.
    """
    dataset = LanceStore(location).open().dataset
    with translated(location, "removing old versions"):
        stats = dataset.cleanup_old_versions(retain_versions=retain_versions, error_if_tagged_old_versions=False)
    return int(stats.old_versions)
