"""Remove old versions, except those that record a query's newest landed epoch."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headrace.errors import ConfigurationError
from headrace.tables.lance_errors import translated
from headrace.tables.lance_store import LanceStore
from headrace.tables.manage import queries


@dataclass(frozen=True, slots=True)
class Cleanup:
    """A cleanup, planned or done.

    Attributes:
        versions: The versions to remove, oldest first.
        bytes: The bytes that were freed; None before the cleanup is done.
    """

    versions: tuple[int, ...]
    bytes: int | None = None


def plan(store: LanceStore, *, keep: int | None = None, older_than: timedelta | None = None) -> Cleanup:
    """Plan which versions to remove.

    The newest version and tagged versions are always kept.

    Args:
        store: The table.
        keep: Keep this many of the newest versions; None for one.
        older_than: Remove only versions older than this; None for any age.

    Raises:
        ConfigurationError: One of the versions records the newest landed epoch of a query.
        TableNotFoundError: The table does not exist.
    """
    snapshot = store.open()
    dates = snapshot.dates()
    versions = sorted(dates)
    tagged = snapshot.tagged()
    before = datetime.now(UTC) - (older_than or timedelta())
    removed = tuple(
        version
        for version in (versions[:-keep] if keep else versions[:-1])
        if dates[version] < before and version not in tagged
    )
    _require_not_needed(store, removed)
    return Cleanup(removed)


def carry_out(store: LanceStore, cleanup: Cleanup) -> Cleanup:
    """Remove the planned versions, and the files that only they use.

    Raises:
        StorageError: A file cannot be removed.
    """
    if not cleanup.versions:
        return Cleanup((), 0)
    snapshot = store.open()
    with translated(store.location, "removing old versions"):
        done = snapshot.dataset.cleanup_old_versions(
            versions=list(cleanup.versions), error_if_tagged_old_versions=False
        )
    return Cleanup(cleanup.versions, int(done.bytes_removed))


def _require_not_needed(store: LanceStore, removed: tuple[int, ...]) -> None:
    for query in queries.known(store):
        if query.version in removed and not query.is_forgotten:
            raise ConfigurationError(
                f"Version {query.version} of {store.location} records that epoch {query.stamp.epoch} of query "
                f"{query.id!r} has landed; without it, a restart of the query could land rows twice. Nothing was "
                f"removed.",
                hint="keep more versions, run the query again, or, if it will never run again, forget it.",
            )
