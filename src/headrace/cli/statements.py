"""SQL text cut into statements at its semicolons, except for those inside quotes and comments."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""
    '(?:[^']|'')*(?:'|\Z)      # text
    | "(?:[^"]|"")*(?:"|\Z)    # a quoted name
    | --[^\n]*                 # a comment to the end of the line
    | /\*.*?(?:\*/|\Z)         # a comment between marks
    | ;
    | [^;'"/-]+ | .
    """,
    re.VERBOSE | re.DOTALL,
)


def split(text: str) -> list[str]:
    """The statements, without their semicolons; those of nothing but comments are left out."""
    return [statement for statement, _ in _parts(text) if statement]


def is_complete(text: str) -> bool:
    """Whether the last statement has its semicolon, or there is none."""
    parts = _parts(text)
    return not parts[-1][0]


def _parts(text: str) -> list[tuple[str, bool]]:
    found: list[tuple[str, bool]] = []
    current, has_code = "", False
    for token in _TOKEN.findall(text):
        if token == ";":
            found.append((current.strip() if has_code else "", True))
            current, has_code = "", False
        else:
            current += token
            has_code = has_code or not (token.isspace() or token.startswith(("--", "/*")))
    found.append((current.strip() if has_code else "", False))
    return found
