"""Version gaps left by cleanup, and overwrites committed into one.

Lance commits an overwrite as the version right after the one it is based on. If cleanup has removed the versions after
that one but not the version itself (a tagged version, for example), the number is free: the commit succeeds, but newer
versions exist that do not contain it. Every other operation is committed on top of the newest version.
"""

from __future__ import annotations

from headrace.tables.store import Snapshot


def missing_between(snapshot: Snapshot, above: int, below: int) -> list[int]:
    """Return the removed versions between two others, newest first."""
    between = range(below - 1, above, -1)
    kept = set(snapshot.kept_versions(above)) if between else set()
    return [version for version in between if version not in kept]


def may_fill_gap(snapshot: Snapshot, version: int) -> bool:
    """Whether an overwrite may have been committed into a gap, so that later versions do not have its rows.

    It was not if it is the newest version; if the next version has one of its files; if the version before it was
    removed; or if no version before it was removed or tagged.
    """
    if snapshot.version <= version and snapshot.latest() <= version:  # the snapshot may be an older one
        return False
    below = set(range(1, version))
    kept = below.intersection(snapshot.kept_versions(0))
    if version - 1 not in kept or (kept == below and below.isdisjoint(snapshot.tagged())):
        return False
    return snapshot.data_files(version).isdisjoint(snapshot.data_files(version + 1))
