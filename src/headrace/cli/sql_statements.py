"""Split SQL text into statements at semicolons, ignoring those inside quotes and comments."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""
    '(?:[^']|'')*(?:'|\Z)      # a string
    | "(?:[^"]|"")*(?:"|\Z)    # a quoted identifier
    | --[^\n]*                 # a line comment
    | /\*.*?(?:\*/|\Z)         # a block comment
    | ;
    | [^;'"/-]+ | .
    """,
    re.VERBOSE | re.DOTALL,
)


def tokens(text: str) -> list[str]:
    """Return the parts of a text: quoted texts, comments, semicolons, and what is between them."""
    found: list[str] = _TOKEN.findall(text)
    return found


def split(text: str) -> list[str]:
    """Return the statements without their semicolons; statements that are only comments are left out."""
    return [statement for statement, _ in _parts(text) if statement]


def is_complete(text: str) -> bool:
    """Whether the last statement ends with a semicolon, or there is none."""
    parts = _parts(text)
    return not parts[-1][0]


def _parts(text: str) -> list[tuple[str, bool]]:
    found: list[tuple[str, bool]] = []
    current, has_code = "", False
    for token in tokens(text):
        if token == ";":
            found.append((current.strip() if has_code else "", True))
            current, has_code = "", False
        else:
            current += token
            has_code = has_code or not (token.isspace() or token.startswith(("--", "/*")))
    found.append((current.strip() if has_code else "", False))
    return found
