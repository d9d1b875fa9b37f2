"""Gaps: what cleanup leaves above a version that it spares, and how an overwrite can fall into one.

An overwrite becomes the version after the one it was based on, and nothing else. If the versions after that one were
removed meanwhile, but not it, as when it is tagged, the place is free: the overwrite is acknowledged, and lies below
versions that know nothing of it. Every other change is put on top of the newest version.
"""

from __future__ import annotations

from headrace.tables.store import Snapshot


def missing_between(snapshot: Snapshot, above: int, below: int) -> list[int]:
    """Versions between two others that are no longer kept, newest first."""
    between = range(below - 1, above, -1)
    kept = set(snapshot.kept_versions(above)) if between else set()
    return [version for version in between if version not in kept]


def may_fill_gap(snapshot: Snapshot, version: int) -> bool:
    """Whether an overwrite may lie in a gap, so that its rows are in no later version.

    It does not if it is the newest; if the version after it has one of its files; if the version before it is gone; or
    if nothing below it was ever removed or tagged.
    """
    if snapshot.version <= version and snapshot.latest() <= version:  # the snapshot may be an older one
        return False
    below = set(range(1, version))
    kept = below.intersection(snapshot.kept_versions(0))
    if version - 1 not in kept or (kept == below and below.isdisjoint(snapshot.tagged())):
        return False
    return snapshot.data_files(version).isdisjoint(snapshot.data_files(version + 1))
