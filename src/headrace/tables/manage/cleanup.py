"""Which old versions may go: never one by which a query knows what it has landed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headrace.errors import ConfigurationError
from headrace.tables.lance_store import LanceStore, translated
from headrace.tables.manage import queries


@dataclass(frozen=True, slots=True)
class Cleanup:
    """What a cleanup removes.

    Attributes:
        versions: The versions, oldest first.
        bytes: How much they held that nothing else needs; not known before it is done.
    """

    versions: tuple[int, ...]
    bytes: int | None = None


def plan(store: LanceStore, *, keep: int | None = None, older_than: timedelta | None = None) -> Cleanup:
    """The versions that would go: all but the newest ``keep``, of those the ones that are old enough. Tagged ones stay.

    Raises:
        ConfigurationError: A query would not know any more what it has landed.
        TableNotFoundError: There is no table.
    """
    snapshot = store.open()
    dates = snapshot.dates()
    versions = sorted(dates)
    tagged = snapshot.tagged()
    before = datetime.now(UTC) - (older_than or timedelta())
    doomed = tuple(
        version
        for version in (versions[:-keep] if keep else versions[:-1])
        if dates[version] < before and version not in tagged
    )
    _require_not_needed(store, doomed)
    return Cleanup(doomed)


def carry_out(store: LanceStore, cleanup: Cleanup) -> Cleanup:
    """Remove the versions, and the files that only they need.

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


def _require_not_needed(store: LanceStore, doomed: tuple[int, ...]) -> None:
    for query in queries.known(store):
        if query.version in doomed and not query.is_forgotten:
            raise ConfigurationError(
                f"Version {query.version} of {store.location} says that epoch {query.stamp.epoch} of query "
                f"{query.id!r} has landed; without it, a restart of that query could land rows twice. Nothing was "
                f"removed.",
                hint="keep more versions, run the query once more, or, if it will never run again, forget it.",
            )
