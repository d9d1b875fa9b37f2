"""What Spark's file source has read, from the log that it keeps in the checkpoint."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import msgspec

_VERSION_LINE = b"v1"
_BLOCK_BYTES = 64 * 1024
_COMPACT = ".compact"


class _Entry(msgspec.Struct):
    """One file that was read, as the log describes it: the time is the file's, in milliseconds since 1970."""

    path: str
    timestamp: int
    batchId: int  # noqa: N815 - Spark's name


_decoder = msgspec.json.Decoder(_Entry)


class SourceLog:
    """The files that a query's file source has read. Each entry of the log is read once.

    Spark writes the file ``<n>`` for its n-th batch of files. Every tenth is called ``<n>.compact`` and has the entries
    of all earlier batches too, in their order; so new entries are at its end.

    Args:
        folder: The log, ``sources/0`` in the checkpoint.
        max_age: Seconds by which a file may be older than the newest one that was read. Spark ignores and forgets older
            ones, and so does this.
        by_name: Whether Spark identifies a file by its name without the folder.
    """

    def __init__(self, folder: Path, *, max_age: float = float("inf"), by_name: bool = False) -> None:
        self._folder = folder
        self._max_age = max_age * 1000
        self._by_name = by_name
        self._next = 0
        self._newest = float("-inf")
        # Hashes of the files, which take less memory than their paths. All in `_old` were read before `_turned`, so
        # they are forgotten together once that is too long ago.
        self._young: set[int] = set()
        self._old: set[int] = set()
        self._turned = float("-inf")

    def read(self, through: int) -> None:
        """Read the entries up to batch ``through`` that were not read yet.

        Raises:
            OSError: The log cannot be read, or lacks a batch.
            ValueError: The log has another format.
        """
        if through < self._next:
            return
        names = os.listdir(self._folder)
        compacted = (int(name.removesuffix(_COMPACT)) for name in names if name.endswith(_COMPACT) and name[0] != ".")
        newest = max((number for number in compacted if number <= through), default=-1)
        if newest >= self._next:
            self._read(f"{newest}{_COMPACT}", newest)
        while self._next <= through:
            self._read(str(self._next), self._next)

    def has(self, path: str) -> bool:
        """Whether a file was read."""
        key = self._key(path)
        return key in self._young or key in self._old

    def ignores(self, milliseconds: float) -> bool:
        """Whether a file that was last modified then is too old to be read."""
        return milliseconds < self._newest - self._max_age

    def _read(self, name: str, number: int) -> None:
        for line in _lines_from_the_end(self._folder / name):
            if line == _VERSION_LINE:
                break
            if not line:
                continue
            try:
                entry = _decoder.decode(line)
            except msgspec.DecodeError as error:
                raise ValueError(f"{self._folder / name} has another format: {error}") from None
            if entry.batchId < self._next:
                break
            self._add(entry)
        self._next = number + 1

    def _add(self, entry: _Entry) -> None:
        self._newest = max(self._newest, entry.timestamp)
        if self._newest > self._turned + self._max_age:
            self._old, self._young, self._turned = self._young, set(), self._newest
        if not self.ignores(entry.timestamp):
            self._young.add(self._key(unquote(entry.path.removeprefix("file://"))))

    def _key(self, path: str) -> int:
        return hash(posixpath.basename(path) if self._by_name else path)


def _lines_from_the_end(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, the last one first."""
    with path.open("rb") as file:
        position = file.seek(0, os.SEEK_END)
        start = b""
        while position:
            size = min(_BLOCK_BYTES, position)
            position -= size
            file.seek(position)
            start, *lines = (file.read(size) + start).split(b"\n")
            yield from reversed(lines)
        yield start
