"""Table names, read as the engine reads them.

A name is SQL: ``T1`` means ``t1``, ``"T1"`` keeps its case, ``sales.orders`` is table ``orders`` of schema
``sales``. Text that is no SQL name, such as ``my table``, is one name to the letter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.errors import InvalidArgumentError

_PART = r"""\s*(?:"((?:[^"]|"")*)"|`((?:[^`]|``)*)`|([^\W\d](?:[^\W\d]|[0-9@$#])*))\s*"""
_NAME = re.compile(rf"{_PART}(?:\.{_PART})?(?:\.{_PART})?")
_UPPER = re.compile("[A-Z]+")


@dataclass(frozen=True, slots=True)
class TableName:
    """A table's name, in one to three parts: catalog, schema and table, or the last of these.

    Attributes:
        parts: The parts, each as it is stored.
    """

    parts: tuple[str, ...]

    @property
    def sql(self) -> str:
        """The name as SQL text that means nothing else."""
        return ".".join(quoted(part) for part in self.parts)

    def resolved(self, catalog: str, schema: str) -> TableName:
        """The name in three parts, with these defaults."""
        return TableName((catalog, schema)[: 3 - len(self.parts)] + self.parts)

    def __str__(self) -> str:
        """The name for messages."""
        return ".".join(self.parts)


def parse_table_name(name: object) -> TableName:
    """Read a table's name.

    Raises:
        InvalidArgumentError: It is not text, or empty.
    """
    if not isinstance(name, str) or not name.strip():
        raise InvalidArgumentError(f"A table's name must be text that is not empty, not {name!r}.")
    match = _NAME.fullmatch(name)
    if match is None:
        return TableName((name,))
    groups = match.groups()
    parts = [_part(*groups[start : start + 3]) for start in range(0, len(groups), 3)]
    named = tuple(part for part in parts if part is not None)
    if not all(named):
        raise InvalidArgumentError(f"The table name {name!r} has an empty part.")
    return TableName(named)


def quoted(identifier: str) -> str:
    """An identifier as SQL text that keeps its case."""
    escaped = identifier.replace('"', '""')
    return f'"{escaped}"'


def _part(double: str | None, back: str | None, plain: str | None) -> str | None:
    if double is not None:
        return double.replace('""', '"')
    if back is not None:
        return back.replace("``", "`")
    # The engine folds ASCII letters only.
    return None if plain is None else _UPPER.sub(lambda upper: upper.group().lower(), plain)
