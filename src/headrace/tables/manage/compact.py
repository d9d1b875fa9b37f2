"""Upkeep: small files are put together and old versions removed while a stream goes on.

It runs on a thread of its own after a commit, one at a time for a table, and a bounded amount of it. It cannot
disturb the ledger: compaction is a version like any other writer's, and landed epochs are known from the bookmark
when their versions are gone. If it fails, it is logged, and tried again when it is next due.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import lance

from headrace.errors import HeadraceError
from headrace.tables.lance_store import LanceStore, translated
from headrace.tables.location import Location
from headrace.tables.settings import CompactionRules

_log = logging.getLogger("headrace.tables")

# What one round may read and write anew.
_BOUNDS: dict[str, Any] = {
    "max_source_fragments": 5_000,
    "max_source_rows": 20_000_000,
    "max_source_bytes": 4 * 1024**3,
}

# Fragments are put together in steps, each so many times the one below, up to the size Lance aims for: the newest rows
# are written anew every round, but only a small fragment of them; what has grown is left alone until enough of its
# kind has come together. So the work of a round does not grow with the table.
_STEPS = (16_384, 131_072, 1_048_576)
_ENOUGH = 8

# A run that ends with the round still going waits for it this long.
_PATIENCE_SECONDS = 10.0


class Compactor:
    """The upkeep of tables by this process."""

    def __init__(self) -> None:
        self._running: dict[Location, threading.Thread] = {}
        self._lock = threading.Lock()
        atexit.register(self.wait, _PATIENCE_SECONDS)

    def after_commit(self, location: Location, rules: CompactionRules, epoch: int) -> None:
        """Begin a round if one is due and none is going on; returns at once."""
        if not rules.is_due(epoch) and rules.above_fragments is None:
            return
        with self._lock:
            current = self._running.get(location)
            if current is not None and current.is_alive():
                return
            thread = threading.Thread(
                target=self._round, args=(location, rules, epoch), name="headrace-compact", daemon=True
            )
            self._running[location] = thread
            thread.start()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until no round is going on, or for so long."""
        with self._lock:
            threads = list(self._running.values())
        for thread in threads:
            thread.join(seconds)

    @staticmethod
    def _round(location: Location, rules: CompactionRules, epoch: int) -> None:
        try:
            if rules.is_due(epoch) or rules.is_too_many(small_fragments(location)):
                compact(location)
                if rules.retain_versions is not None:
                    clean(location, rules.retain_versions)
        except HeadraceError as error:
            _log.warning(
                "Upkeep of %s after epoch %d was not done, and is tried again later: %s", location, epoch, error
            )


def small_fragments(location: Location) -> int:
    """How many fragments a round would look at now, because they are smaller than it makes them."""
    with translated(location, "counting fragments"):
        sizes = _sizes(LanceStore(location).open().dataset)
    return sum(size < target_rows(sizes) for size in sizes)


def compact(location: Location, *, is_full: bool = False) -> int:
    """Put small fragments together, a bounded number of them unless told otherwise.

    Args:
        location: The table.
        is_full: Whether to take all of them at once, up to the size Lance aims for.

    Returns:
        How many fragments there are less.

    Raises:
        StorageError: A file cannot be read or written, or another writer changed the same rows.
    """
    dataset = LanceStore(location).open().dataset
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
    """How large fragments should become in this round, where they have so many rows now."""
    for below, step in reversed(list(pairwise(_STEPS))):
        if sum(below <= size < step for size in sizes) >= _ENOUGH:
            return step
    return _STEPS[0]


def clean(location: Location, retain_versions: int) -> int:
    """Remove old versions, and the files only they need; tagged ones stay, and files no version knows yet.

    Returns:
        How many versions were removed.

    Raises:
        StorageError: A file cannot be removed.
    """
    dataset = LanceStore(location).open().dataset
    with translated(location, "removing old versions"):
        stats = dataset.cleanup_old_versions(retain_versions=retain_versions, error_if_tagged_old_versions=False)
    return int(stats.old_versions)
