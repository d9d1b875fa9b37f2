"""The files of a file source: lists a local path as Spark's file source does."""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections.abc import Iterator

_LOCAL = re.compile(r"(?:file://|file:(?!//))?(/.*)")
_MAGIC = re.compile(r"[{}\[\]*?\\]")
_METADATA = ("_metadata", "_common_metadata")
_SINK_LOG = "_spark_metadata"


def local_path(location: str) -> str | None:
    """Return the absolute path of a local location, as Spark spells it; None for another location."""
    found = _LOCAL.fullmatch(location)
    return "/" + posixpath.normpath(found[1]).lstrip("/") if found else None


class SourceFiles:
    """The files of a local path. Iterating lists them again.

    Of a plain folder, Spark reads the files directly in it; of a folder with partitions such as ``day=1``, those at any
    depth. Which it is is known only after the listing, so each file comes with whether it is deeper.

    Args:
        path: The absolute path; it may have wildcards.
        names: A wildcard that the files' names must match; None for all.
        recursive: Whether files at any depth are read without partitions too.

    Attributes:
        reads_deeper: After the iteration, whether the deeper files are read.
    """

    def __init__(self, path: str, *, names: str | None = None, recursive: bool = False) -> None:
        self._path = path
        self._names = names
        self._pattern: re.Pattern[str] | None = None
        self._recursive = recursive
        self.reads_deeper = recursive

    def __iter__(self) -> Iterator[tuple[str, bool]]:
        """Yield each file's path, and whether it is deeper.

        Raises:
            OSError: A folder cannot be read, or a path without wildcards does not exist.
            ValueError: The path is the output of another streaming query, which has a log of its files; or its
                wildcards are not understood.
        """
        self.reads_deeper = self._recursive
        self._pattern = None if self._names is None else wildcard(self._names)
        has_wildcards = bool(_MAGIC.search(self._path))
        if not has_wildcards and os.path.exists(f"{self._path}/{_SINK_LOG}"):
            raise ValueError(f"{self._path} is the output of a streaming query")
        roots = _matching("", self._path[1:].split("/")) if has_wildcards else [(self._path, _is_folder(self._path))]
        for root, is_folder in roots:
            name = posixpath.basename(root)
            if is_folder:
                yield from self._in_folder(root, is_deeper=False, is_partition=False)
            elif not is_hidden(name) and self._has_name(name):
                yield root, False

    def _in_folder(self, folder: str, *, is_deeper: bool, is_partition: bool) -> Iterator[tuple[str, bool]]:
        folders = []
        for entry in _entries(folder):
            if is_hidden(entry.name):
                continue
            if entry.is_dir():
                folders.append(entry.name)
                continue
            self.reads_deeper = self.reads_deeper or is_partition
            if self._has_name(entry.name):
                yield f"{folder}/{entry.name}", is_deeper
        for name in folders:
            yield from self._in_folder(f"{folder}/{name}", is_deeper=True, is_partition=is_partition or "=" in name)

    def _has_name(self, name: str) -> bool:
        return self._pattern is None or bool(self._pattern.fullmatch(name))


def is_hidden(name: str) -> bool:
    """Whether Spark leaves out a file or folder of this name; partitions such as ``_day=1`` are not hidden."""
    if name.startswith(_METADATA):
        return False
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def wildcard(text: str) -> re.Pattern[str]:
    """Return the pattern of a Hadoop wildcard for one name: ``*``, ``?``, ``[a-c]``, ``[^a]`` and ``{a,b}``.

    Raises:
        ValueError: It is not valid.
    """
    found, depth, position = "", 0, 0
    while position < len(text):
        sign = text[position]
        if sign == "\\" and position + 1 < len(text):
            position += 1
            found += re.escape(text[position])
        elif sign == "[":
            end = text.find("]", position + 2)
            if end < 0:
                raise ValueError(f"the wildcard {text!r} has an open bracket")
            inside = re.sub(r"([\[\\&~|])", r"\\\1", text[position + 1 : end])
            found += f"[^{inside[1:]}]" if inside[0] in "^!" else f"[{inside}]"
            position = end
        elif sign == "{":
            depth += 1
            found += "(?:"
        elif sign == "}" and depth:
            depth -= 1
            found += ")"
        else:
            found += {"*": ".*", "?": "."}.get(sign, "|" if sign == "," and depth else re.escape(sign))
        position += 1
    if depth:
        raise ValueError(f"the wildcard {text!r} has an open brace")
    try:
        return re.compile(found, re.DOTALL)
    except re.error as error:
        raise ValueError(f"the wildcard {text!r} is not valid: {error}") from None


def _matching(folder: str, parts: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield the paths below ``folder`` whose names match the parts, and whether they are folders."""
    part, *rest = parts
    if not _MAGIC.search(part):
        path = f"{folder}/{part}"
        if rest:
            yield from _matching(path, rest)
        elif os.path.exists(path):
            yield path, _is_folder(path)
        return
    pattern = wildcard(part)
    for entry in _entries(folder or "/"):
        if pattern.fullmatch(entry.name):
            path = f"{folder}/{entry.name}"
            if rest:
                yield from _matching(path, rest)
            else:
                yield path, entry.is_dir()


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield what is in a folder; nothing if it is gone, or is a file."""
    try:
        found = os.scandir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    with found:
        yield from found


def _is_folder(path: str) -> bool:
    """Whether a path is a folder.

    Raises:
        OSError: There is nothing.
    """
    return stat.S_ISDIR(os.stat(path).st_mode)
