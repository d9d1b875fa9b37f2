"""SQL text as a tree, so that a query can be made smaller part by part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Part = "str | Sql"


@dataclass(frozen=True, slots=True)
class Sql:
    """A piece of SQL.

    Attributes:
        parts: Text and smaller pieces, in order.
        instead: What may stand in its place when the query is made smaller.
        separator: Where it is set, the parts are a list: any may be left out as long as one remains.
    """

    parts: tuple[str | Sql, ...]
    instead: tuple[str | Sql, ...] = ()
    separator: str | None = None

    def __str__(self) -> str:
        return (self.separator or "").join(map(str, self.parts))


def sql(*parts: str | Sql, instead: Sequence[str | Sql] = ()) -> Sql:
    """A piece of SQL, and what may replace it in a smaller query."""
    return Sql(parts, tuple(instead))


def optional(*parts: str | Sql) -> Sql:
    """A piece that a smaller query can do without."""
    return Sql(parts, ("",))


def listed(parts: Sequence[str | Sql], separator: str = ", ") -> Sql:
    """A list of which at least one part must remain."""
    return Sql(tuple(parts), (), separator)


def smaller(piece: str | Sql) -> Iterator[Sql]:
    """Every query that is one step smaller, the largest steps first."""
    if isinstance(piece, str):
        return
    for other in piece.instead:
        yield other if isinstance(other, Sql) else Sql((other,))
    if piece.separator is not None and len(piece.parts) > 1:
        for i in range(len(piece.parts)):
            yield Sql(piece.parts[:i] + piece.parts[i + 1 :], piece.instead, piece.separator)
    for i, part in enumerate(piece.parts):
        for other in smaller(part):
            yield Sql((*piece.parts[:i], other, *piece.parts[i + 1 :]), piece.instead, piece.separator)
