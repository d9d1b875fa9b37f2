"""Where a streaming reader is in a table's history; what Spark keeps in a checkpoint as its offset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.errors import ReadingError

_SNAPSHOT = "s"


@dataclass(frozen=True, slots=True, order=True)
class Offset:
    """The row that is read next.

    Attributes:
        version: The version that brings it; one above the newest if all is read.
        row: How many rows of that version are read already.
        is_snapshot: Whether the rows are all those the table has in that version, and not only those it added.
        after: The transaction of the newest version of which something is read or passed over, by which a table that
            was made anew is recognised; empty if there is none.
        origin: Where the query began. Spark asks for that anew when it runs the first epoch again, and gets another
            answer if the table has grown; so the end of the epoch says it too.
    """

    version: int
    row: int = 0
    is_snapshot: bool = False
    after: str = ""
    origin: str = ""

    @classmethod
    def first(cls, version: int, *, is_snapshot: bool = False, after: str = "") -> Offset:
        """Where a query begins."""
        return cls(version, 0, is_snapshot, after, f"{version}{_SNAPSHOT if is_snapshot else ''}")

    @property
    def is_first(self) -> bool:
        """Whether nothing is read yet."""
        return self.origin != "" and replace(self, after="") == self.at_origin()

    def at_origin(self) -> Offset:
        """Where the query of this position began."""
        version = self.origin.removesuffix(_SNAPSHOT)
        return Offset.first(int(version), is_snapshot=version != self.origin)

    @property
    def newest_seen(self) -> int:
        """The version that `after` belongs to."""
        return self.version if self.row or self.is_snapshot else self.version - 1

    def to_json(self) -> dict[str, Any]:
        """As Spark keeps it."""
        return {
            "version": self.version,
            "row": self.row,
            "snapshot": self.is_snapshot,
            "after": self.after,
            "origin": self.origin,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Offset:
        """As Spark hands it back.

        Raises:
            ReadingError: It is not an offset of ours.
        """
        try:
            return cls(
                int(value["version"]),
                int(value["row"]),
                bool(value["snapshot"]),
                str(value["after"]),
                str(value["origin"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ReadingError(
                f"The checkpoint holds {dict(value)!r}, which is no offset of a Lance table.",
                hint="give the query a checkpoint of its own.",
            ) from error
