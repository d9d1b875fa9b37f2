"""The bookmark: where in the table's history a query has got to, kept where cleanup does not reach.

Written after each commit and before the first, so that no number of other people's versions, and no cleanup of
old ones, makes a landed epoch look new. A bookmark that is behind is still true and only means reading further. Each
run has its own: one that was paused cannot put back what a later one has written.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from headrace._errors import LandingError
from headrace.tables.ledger import Stamp
from headrace.tables.store import Published, Store

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Bookmark:
    """As of a version, the newest stamp of a query.

    Attributes:
        at: The version that carries the stamp.
        stamp: The stamp.
    """

    at: Published
    stamp: Stamp


def _prefix(query_id: str) -> str:
    return hashlib.sha256(query_id.encode()).hexdigest()[:40]


def _name(stamp: Stamp) -> str:
    return f"{_prefix(stamp.query_id)}-{hashlib.sha256(stamp.run.encode()).hexdigest()[:16]}.json"


def read(store: Store, query_id: str) -> Bookmark | None:
    """The query's newest bookmark, or None.

    Raises:
        LandingError: One is not readable.
    """
    marks = [_read(store, query_id, name) for name in store.list_notes() if name.startswith(_prefix(query_id))]
    return max((mark for mark in marks if mark is not None), key=lambda mark: mark.at.version, default=None)


def _read(store: Store, query_id: str, name: str) -> Bookmark | None:
    text = store.read_note(name)
    if text is None:
        return None
    try:
        value = json.loads(text)
        if value["bookmark"] != _VERSION:
            raise ValueError(f"version {value['bookmark']!r}")
        stamp = value["stamp"]
        found = Bookmark(Published(**value["at"]), Stamp(**(stamp | {"superseded": tuple(stamp["superseded"])})))
    except (ValueError, KeyError, TypeError) as error:
        raise LandingError(
            f"A bookmark of query {query_id!r}, the file {name} in the table's folder _headrace/notes, cannot be read: "
            f"{error!r}.",
            hint="if no newer headrace wrote it, remove the file: the table's history is then read instead.",
        ) from error
    return found if found.stamp.query_id == query_id else None


def remove_older(store: Store, mark: Bookmark) -> None:
    """Remove the bookmarks of earlier runs, as far as possible, once a run has its own."""
    for name in store.list_notes():
        if name.startswith(_prefix(mark.stamp.query_id)) and name != _name(mark.stamp):
            other = _read(store, mark.stamp.query_id, name)
            if other is not None and other.at.version < mark.at.version:
                store.delete_note(name)


def write(store: Store, bookmark: Bookmark) -> None:
    """Keep the bookmark.

    Raises:
        StorageError: It cannot be written.
    """
    value = {"bookmark": _VERSION, "at": asdict(bookmark.at), "stamp": asdict(bookmark.stamp)}
    store.write_note(_name(bookmark.stamp), json.dumps(value, separators=(",", ":")))
