"""Find the line of a key in a TOML file, which `tomllib` does not report."""

from __future__ import annotations

import re
from collections.abc import Iterator

_PART = r"""(?:"[^"]*"|'[^']*'|[\w-]+)"""
_KEY = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_KEY})\s*\]\]?\s*(?:#.*)?")
_SETTING = re.compile(rf"\s*({_KEY})\s*=")
_QUOTES = re.compile(r"\"\"\"|" + r"'''")


def line_of(text: str, key: str) -> int | None:
    """Return the line, counted from 1, of a key such as ``source.options.path`` or ``step[1].sql``.

    If the key does not exist, return the line of the innermost table around it; None if there is none.
    """
    places: dict[str, int] = {}
    for name, line in _places(text):
        places.setdefault(name, line)
        for outer in _outer(name):
            places.setdefault(outer, line)
    while key:
        if key in places:
            return places[key]
        key = next(_outer(key), "")
    return None


def _outer(key: str) -> Iterator[str]:
    """Yield the tables around a key, innermost first."""
    while key:
        key = key.rpartition("[")[0] if key.endswith("]") else key.rpartition(".")[0]
        if key:
            yield key


def _places(text: str) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    counts: dict[str, int] = {}
    table, is_inside_text = "", False
    for number, line in enumerate(text.splitlines(), 1):
        was_inside = is_inside_text
        if len(_QUOTES.findall(line)) % 2:
            is_inside_text = not is_inside_text
        if was_inside:
            continue
        if header := _HEADER.fullmatch(line):
            table = _plain(header[2])
            if header[1] == "[[":
                position = counts[table] = counts.get(table, -1) + 1
                table = f"{table}[{position}]"
            found.append((table, number))
        elif key := _SETTING.match(line):
            found.append((f"{table}.{_plain(key[1])}" if table else _plain(key[1]), number))
    return found


def _plain(key: str) -> str:
    """Return a key without spaces around dots and without quotes."""
    return ".".join(part.strip("\"'") for part in re.findall(_PART, key))
