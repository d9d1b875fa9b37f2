"""The bookmark: a query's newest stamp and its version, in a file that cleanup does not remove.

A run writes its bookmark when it takes over and after each commit. So a landed epoch is recognised even after cleanup
has removed its version, however many versions other writers have added. An outdated bookmark is still correct: the
lookup only reads more versions. Each run has its own file, so a run that was paused cannot overwrite a later run's.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from headrace.errors import LandingError
from headrace.tables.commit.ledger import Stamp
from headrace.tables.store import Published, Store

_VERSION = 1
_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class Bookmark:
    """The newest stamp of a query, as of a version.

    Attributes:
        at: The version that carries the stamp.
        stamp: The stamp.
    """

    at: Published
    stamp: Stamp


def key_of(query_id: str, run: str | None = None) -> str:
    """Return the prefix of the names of a query's notes, or of one run's; a hash, since ids may have any characters."""
    key = hashlib.sha256(query_id.encode()).hexdigest()[:40]
    return key if run is None else f"{key}-{hashlib.sha256(run.encode()).hexdigest()[:16]}"


def name_of(stamp: Stamp) -> str:
    """Return the name of the note that the stamp's run writes its bookmark to."""
    return f"{key_of(stamp.query_id, stamp.run)}{_SUFFIX}"


def read(store: Store, query_id: str) -> Bookmark | None:
    """Return the query's newest bookmark, or None.

    Raises:
        LandingError: A bookmark cannot be read.
    """
    found = (_read(store, name) for name in store.list_notes() if name.startswith(key_of(query_id)))
    marks = [mark for mark in found if mark is not None and mark.stamp.query_id == query_id]
    return max(marks, key=lambda mark: mark.at.version, default=None)


def read_all(store: Store) -> list[Bookmark]:
    """Return the newest bookmark of each query, ordered by query id.

    Raises:
        LandingError: A bookmark cannot be read.
    """
    newest: dict[str, Bookmark] = {}
    for mark in (_read(store, name) for name in store.list_notes() if name.endswith(_SUFFIX)):
        if mark is not None:
            other = newest.get(mark.stamp.query_id, mark)
            newest[mark.stamp.query_id] = max(mark, other, key=lambda each: each.at.version)
    return [newest[query_id] for query_id in sorted(newest)]


def _read(store: Store, name: str) -> Bookmark | None:
    text = store.read_note(name)
    if text is None:
        return None
    try:
        value = json.loads(text)
        if value["bookmark"] != _VERSION:
            raise ValueError(f"version {value['bookmark']!r}")
        stamp = dict(value["stamp"])
        remembered = {each: tuple(stamp.get(each, ())) for each in ("superseded", "given_up")}
        return Bookmark(Published(**value["at"]), Stamp(**(stamp | remembered)))
    except (ValueError, KeyError, TypeError) as error:
        raise LandingError(
            f"A query's bookmark, the file {name} in the table's folder _headrace/notes, cannot be read: {error!r}.",
            hint="if no newer headrace wrote it, remove the file: the table's history is then read instead.",
        ) from error


def remove_older(store: Store, mark: Bookmark) -> None:
    """Remove the older bookmarks of other runs of the query."""
    for name in store.list_notes():
        if name.startswith(key_of(mark.stamp.query_id)) and name != name_of(mark.stamp):
            other = _read(store, name)
            if other is not None and other.at.version < mark.at.version:
                store.delete_note(name)


def write(store: Store, bookmark: Bookmark) -> None:
    """Write the bookmark.

    Raises:
        StorageError: The bookmark cannot be written.
    """
    value = {"bookmark": _VERSION, "at": asdict(bookmark.at), "stamp": asdict(bookmark.stamp)}
    store.write_note(name_of(bookmark.stamp), json.dumps(value, separators=(",", ":")))
