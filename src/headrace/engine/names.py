"""Parsing of table names, with the engine's rules.

A name is an SQL identifier: ``T1`` means ``t1``, ``"T1"`` keeps its case, and ``sales.orders`` is table ``orders`` in
schema ``sales``. Text that is not an SQL identifier, such as ``my table``, is used verbatim as one name.
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
    """A table name of one to three parts: catalog, schema and table; catalog and schema are optional.

    Attributes:
        parts: The parts, without quotes and with their case folded.
    """

    parts: tuple[str, ...]

    @property
    def sql(self) -> str:
        """The name as SQL text, with every part quoted."""
        return ".".join(quoted(part) for part in self.parts)

    def resolved(self, catalog: str, schema: str) -> TableName:
        """Return the name in three parts, with these defaults."""
        return TableName((catalog, schema)[: 3 - len(self.parts)] + self.parts)

    def __str__(self) -> str:
        """Return the name without quotes, for messages."""
        return ".".join(self.parts)


def parse_table_name(name: object) -> TableName:
    """Parse a table name.

    Raises:
        InvalidArgumentError: ``name`` is not text, is empty, or has an empty part.
    """
    if not isinstance(name, str) or not name.strip():
        raise InvalidArgumentError(f"A table name must be non-empty text, not {name!r}.")
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
    """Return an identifier as quoted SQL text, which keeps its case."""
    escaped = identifier.replace('"', '""')
    return f'"{escaped}"'


def _part(double: str | None, back: str | None, plain: str | None) -> str | None:
    if double is not None:
        return double.replace('""', '"')
    if back is not None:
        return back.replace("``", "`")
    # The engine folds the case of ASCII letters only.
    return None if plain is None else _UPPER.sub(lambda upper: upper.group().lower(), plain)
