"""What an expression can name: the columns in reach, the fields inside them, and their families."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa

from support.differential.kinds import family
from support.differential.sql import Sql
from support.differential.tables import Table, quoted

# Families with an order and an equality that the engine can sort, group and join by.
ORDERED = {"int", "float", "decimal", "bool", "text", "binary", "date", "time", "timestamp"}


@dataclass(frozen=True, slots=True)
class Column:
    """An expression that can be named: a column, or a field or element inside one.

    Attributes:
        sql: How SQL says it.
        family: What can be done with it.
        kind: Its type, where it is known.
    """

    sql: str
    family: str
    kind: pa.DataType | None = None


@dataclass(slots=True)
class Grammar:
    """What decides about one query, and what it may read."""

    rng: Random
    tables: list[Table]
    condition: Callable[[Grammar, tuple[Column, ...], int], Sql]
    _aliases: int = field(default=0)

    def alias(self, prefix: str = "c") -> str:
        """A name that no other part of the query has."""
        self._aliases += 1
        return f"{prefix}{self._aliases}"

    def chance(self, share: float) -> bool:
        return self.rng.random() < share


def columns_of(table: Table, prefix: str) -> tuple[Column, ...]:
    """A table's columns, named with a prefix such as ``t1.``, each with what is inside it."""
    return tuple(column for field in table.schema for column in _inside(f"{prefix}{quoted(field.name)}", field.type))


def _inside(said: str, kind: pa.DataType) -> Iterator[Column]:
    yield Column(said, family(kind), kind)
    if pa.types.is_struct(kind):
        for inner in kind:
            escaped = inner.name.replace("'", "''")
            yield from _inside(f"{said}['{escaped}']", inner.type)
    elif pa.types.is_map(kind):
        key = {pa.string(): "'k0'", pa.int64(): "0"}.get(kind.key_type, "arrow_cast(0, 'Int32')")
        yield from _inside(f"{said}[{key}]", kind.item_type)
    elif family(kind) == "list":
        yield from _inside(f"{said}[1]", kind.value_type)


def of_family(columns: tuple[Column, ...], *families: str) -> list[Column]:
    """The columns of some families."""
    return [column for column in columns if column.family in families]
