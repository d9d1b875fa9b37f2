"""Keeps the words of words.toml out of prose.

Prose is every line of Markdown, TOML, YAML and the Makefile; in Python it is comments, strings, docstrings and the
names of tests.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORDS = Path(__file__).with_name("words.toml")

Place = tuple[int, int]

_SUFFIXES = ("*.md", "*.py", "*.toml", "*.yml", "Makefile")
_CODE = "\0"
_BACKTICKS = re.compile(r"`[^`\n]+`")
_BRACES = re.compile(r"\{[^{}]*\}")
_SEPARATORS = re.compile(r"\b[rbfut]{1,2}(?=['\"])|['\"#_]", re.IGNORECASE)
_STRING_ENDS = re.compile(r"\A[a-zA-Z]*['\"]+|['\"]+\Z")
# Python 3.12 and newer cut a formatted string into tokens; 3.11 makes one of it.
_OPENS = {getattr(tokenize, name, None) for name in ("FSTRING_START", "TSTRING_START")}
_CLOSES = {getattr(tokenize, name, None) for name in ("FSTRING_END", "TSTRING_END")}


@dataclass(frozen=True, slots=True)
class Word:
    """A listed word in a file."""

    path: str
    line: int
    text: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: '{self.text}': write {self.instead}"


@dataclass(frozen=True, slots=True)
class WordList:
    """Patterns as one expression, what to write instead of each, and the files that may quote them."""

    pattern: re.Pattern[str]
    instead: dict[str, str]
    skip: frozenset[str]


def load(path: Path = WORDS) -> WordList:
    """Read the list. Where two patterns match at one place, the one listed first counts."""
    data = tomllib.loads(path.read_text("utf-8"))
    listed = data["words"]
    named = {f"word{number}": pattern for number, pattern in enumerate(listed)}
    either = "|".join(f"(?P<{name}>{pattern})" for name, pattern in named.items())
    pattern = re.compile(rf"\b(?:{either})\b".replace(" ", r"\s+"), re.IGNORECASE)
    return WordList(pattern, {name: listed[pattern] for name, pattern in named.items()}, frozenset(data["skip"]))


def find(path: str, text: str, words: WordList) -> list[Word]:
    """Find the listed words in a file's prose."""
    if not words.pattern.search(_SEPARATORS.sub(" ", text)):
        return []  # Most files, without the cost of their tokens.
    prose = _blank(_BACKTICKS, _python_prose(text) if path.endswith(".py") else text.replace("#", " "))
    return [
        Word(
            path,
            line=prose.count("\n", 0, match.start()) + 1,
            text=" ".join(match[0].split()),
            instead=words.instead[match.lastgroup or ""],
        )
        for match in words.pattern.finditer(prose)
    ]


def _blank(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda match: re.sub(r"[^\n]", _CODE, match[0]), text)


def _python_prose(text: str) -> str:
    """The source with its code blanked out, so that the prose keeps its lines and phrases may span them."""
    starts = [0]
    for line in io.StringIO(text):
        starts.append(starts[-1] + len(line))
    prose = list(re.sub(r"\S", _CODE, text))
    for (first_line, first), (last_line, last) in _places(text):
        begin, end = starts[first_line - 1] + first, starts[last_line - 1] + last
        prose[begin:end] = _unquoted(text[begin:end])
    return "".join(prose)


def _places(text: str) -> Iterator[tuple[Place, Place]]:
    """Where comments, strings and the names of tests begin and end."""
    opened: list[Place] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in _OPENS:
            opened.append(token.start)
        elif token.type in _CLOSES:
            start = opened.pop()
            if not opened:
                yield start, token.end
        elif not opened and (
            token.type in (tokenize.COMMENT, tokenize.STRING)
            or (token.type == tokenize.NAME and token.string.startswith("test_"))
        ):
            yield token.start, token.end


def _unquoted(source: str) -> str:
    """A token's words at their places: without quotes, without the code in the braces of a formatted string."""
    if source.startswith("#"):
        return source.replace("#", " ")
    if source.startswith("test_"):
        return source.replace("_", " ")
    is_formatted = re.match(r"[a-z]*[ft]", source, re.IGNORECASE)
    words = _STRING_ENDS.sub(lambda match: " " * len(match[0]), source)
    return _blank(_BRACES, words) if is_formatted else words


def files() -> list[str]:
    """The files of the repository that have prose, those not yet added included."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *_SUFFIXES]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted(path for path in set(listed.split("\0")) if path and (ROOT / path).is_file())


def main() -> int:
    """Print every listed word, with its place and what to write instead."""
    listed = load()
    found = [
        word
        for path in files()
        if path not in listed.skip
        for word in find(path, (ROOT / path).read_text("utf-8"), listed)
    ]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
