"""The offset of a streaming read: its position in a table's history, which Spark keeps in the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.errors import ReadingError

_SNAPSHOT = "s"


@dataclass(frozen=True, slots=True, order=True)
class Offset:
    """The position of the next row to read.

    Attributes:
        version: The version that added the row; the newest version plus one if everything was read.
        row: How many rows of that version were read already.
        is_snapshot: Whether all rows of that version are read, not only those it added.
        after: The transaction of the newest version that was read, in part or whole, or skipped; empty if there is
            none. If the version has another transaction now, the table was dropped and created again.
        origin: Where the query started. When Spark runs the first epoch again, it calls `initialOffset` again, and
            the answer differs if the table has grown since; so every end offset repeats it.
    """

    version: int
    row: int = 0
    is_snapshot: bool = False
    after: str = ""
    origin: str = ""

    @classmethod
    def first(cls, version: int, *, is_snapshot: bool = False, after: str = "") -> Offset:
        """Return the offset at which a query starts."""
        return cls(version, 0, is_snapshot, after, f"{version}{_SNAPSHOT if is_snapshot else ''}")

    @property
    def is_first(self) -> bool:
        """Whether nothing was read yet."""
        return self.origin != "" and replace(self, after="") == self.at_origin()

    def at_origin(self) -> Offset:
        """Return the offset at which this query started."""
        version = self.origin.removesuffix(_SNAPSHOT)
        return Offset.first(int(version), is_snapshot=version != self.origin)

    @property
    def newest_seen(self) -> int:
        """The version that `after` belongs to."""
        return self.version if self.row or self.is_snapshot else self.version - 1

    def to_json(self) -> dict[str, Any]:
        """Return the value that Spark keeps in the checkpoint."""
        return {
            "version": self.version,
            "row": self.row,
            "snapshot": self.is_snapshot,
            "after": self.after,
            "origin": self.origin,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Offset:
        """Return the offset for a value from the checkpoint.

        Raises:
            ReadingError: The value is not an offset of a Lance table.
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
                f"The checkpoint contains {dict(value)!r}, which is not an offset of a Lance table.",
                hint="start the query with a new checkpointLocation.",
            ) from error
