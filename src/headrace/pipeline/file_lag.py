"""How far a pipeline is behind a source of local files: the files and bytes that it has not read yet."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.pipeline.source_files import SourceFiles, local_path
from headrace.pipeline.source_log import SourceLog

if TYPE_CHECKING:
    from headrace.pipeline.config import Pipeline

_log = logging.getLogger("headrace.pipeline")

_FORMATS = {"json", "csv", "parquet", "orc", "text", "xml", "avro", "binaryfile"}

# Spend at most this share of the time on counting, after a first half second.
_MAX_SHARE = 0.1
_MAX_CREDIT_SECONDS = 0.5
# How long a report may wait for the count that it starts.
_PATIENCE_SECONDS = 0.2

_AGE = re.compile(r"(\d+)\s*([a-z]*)")
_AGE_SECONDS = {"": 0.001, "us": 1e-6, "ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}


class FileLag:
    """Counts the unread files of a pipeline's source, on a thread. Failures are logged and do not affect the run.

    Args:
        pipeline: The pipeline.
        clock: A monotonic clock, in seconds.
        patience: Seconds that `newest` waits for a count that it starts.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        clock: Callable[[], float] = time.monotonic,
        patience: float = _PATIENCE_SECONDS,
    ) -> None:
        self._unread = _unread_of(pipeline)
        self._clock = clock
        self._patience = patience
        self._credit = _MAX_CREDIT_SECONDS
        self._credited = clock()
        self._counting: threading.Thread | None = None
        self._found: Mapping[str, int] = {}
        self._has_warned = False

    def newest(self, batch: int) -> Mapping[str, int]:
        """Return the files and bytes that were unread after a batch of the source, as ``files`` and ``bytes``.

        Each count is returned once. A slow one is returned by a later call, so it may be of an earlier batch.

        Args:
            batch: The number of the batch, as in the offset of Spark's file source.

        Returns:
            The count; empty if it is not known, or if it is too early to count again.
        """
        if self._unread is None:
            return {}
        if self._counting is None:
            now = self._clock()
            self._credit = min(_MAX_CREDIT_SECONDS, self._credit + (now - self._credited) * _MAX_SHARE)
            self._credited = now
            if self._credit <= 0:
                return {}
            self._counting = threading.Thread(target=self._count, args=(self._unread, batch), daemon=True)
            self._counting.start()
            self._counting.join(self._patience)
        if self._counting.is_alive():
            return {}
        self._counting = None
        return self._found

    def _count(self, unread: _Unread, batch: int) -> None:
        before, self._found = self._clock(), {}
        try:
            self._found = unread.count(batch)
        except (OSError, ValueError) as error:
            log = _log.debug if self._has_warned else _log.warning
            log("It is not known how many files of the source are unread: %s", error)
            self._has_warned = True
        self._credit -= self._clock() - before


class _Unread:
    """The files of a source that its log does not have."""

    def __init__(self, files: SourceFiles, log: SourceLog) -> None:
        self._files = files
        self._log = log

    def count(self, batch: int) -> Mapping[str, int]:
        """Count the files that batches up to ``batch`` have not read.

        Raises:
            OSError: The files or the log cannot be read.
            ValueError: The path or the log is of a kind that is not known.
        """
        self._log.read(batch)
        # Whether the deeper files belong to the source is known only after the listing.
        files, sizes = [0, 0], [0, 0]
        for path, is_deeper in self._files:
            if self._log.has(path):
                continue
            try:
                found = os.stat(path)
            except FileNotFoundError:
                continue
            if not self._log.ignores(found.st_mtime_ns // 1_000_000):
                files[is_deeper] += 1
                sizes[is_deeper] += found.st_size
        if not self._files.reads_deeper:
            return {"files": files[False], "bytes": sizes[False]}
        return {"files": sum(files), "bytes": sum(sizes)}


def _unread_of(pipeline: Pipeline) -> _Unread | None:
    """Return what counts the unread files; None for sources whose unread files cannot be counted."""
    source = pipeline.source
    if source.format.lower() not in _FORMATS or source.path is None:
        return None
    path, checkpoint = local_path(source.path), local_path(pipeline.checkpoint)
    options = {name.lower(): value for name, value in source.options.items()}
    age = _max_age(options)
    if path is None or checkpoint is None or age is None:
        return None
    names = options.get("pathglobfilter")
    files = SourceFiles(path, names=names and str(names), recursive=_is_true(options.get("recursivefilelookup")))
    folder = Path(checkpoint) / "sources" / "0"
    return _Unread(files, SourceLog(folder, max_age=age, by_name=_is_true(options.get("filenameonly"))))


def _max_age(options: Mapping[str, Any]) -> float | None:
    """Return the seconds of ``maxFileAge``; infinity where Spark does not use it, None if it is not understood."""
    if _is_true(options.get("latestfirst")) and ("maxfilespertrigger" in options or "maxbytespertrigger" in options):
        return float("inf")
    found = _AGE.fullmatch(str(options.get("maxfileage", "7d")).strip().lower())
    return int(found[1]) * _AGE_SECONDS[found[2]] if found and found[2] in _AGE_SECONDS else None


def _is_true(value: Any) -> bool:
    return str(value).lower() == "true"
