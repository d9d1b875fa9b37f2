"""The bookmark: where in the table's history a query has got to, kept where cleanup does not reach.

Written after each commit and before the first, so that no number of other people's versions, and no cleanup of
old ones, makes a landed epoch look new. A bookmark that is behind is still true and only means reading further.
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


def _name(query_id: str) -> str:
    return f"{hashlib.sha256(query_id.encode()).hexdigest()[:40]}.json"


def read(store: Store, query_id: str) -> Bookmark | None:
    """The query's bookmark, or None.

    Raises:
        LandingError: It is not readable as one.
    """
    text = store.read_note(_name(query_id))
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
            f"The bookmark of query {query_id!r}, the table's file _headrace/{_name(query_id)}, cannot be read: "
            f"{error!r}.",
            hint="if no newer headrace wrote it, remove the file: the table's history is then read instead.",
        ) from error
    return found if found.stamp.query_id == query_id else None


def write(store: Store, bookmark: Bookmark) -> None:
    """Keep the bookmark.

    Raises:
        StorageError: It cannot be written.
    """
    value = {"bookmark": _VERSION, "at": asdict(bookmark.at), "stamp": asdict(bookmark.stamp)}
    store.write_note(_name(bookmark.stamp.query_id), json.dumps(value, separators=(",", ":")))
