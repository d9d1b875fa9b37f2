"""Aborts for cancelled queries that keep computing inside the engine."""

from __future__ import annotations

import threading
import time
from typing import Protocol

from headrace.engine.threads import start_thread

# Seconds until a cancelled query that has not ended is aborted, and until it is aborted once more.
ABORT_AFTER = 0.5
_ABORT_AGAIN_AFTER = 3.0


class Abortable(Protocol):
    """A cancelled stream whose thread may still be inside the engine."""

    done: bool
    abort_at: float

    def abort(self) -> bool:
        """Raise AbortError in the thread that is inside the engine; return False if none is."""


class _Aborts:
    """Aborts cancelled streams that do not end by themselves.

    Cancelling a stream ends its scans, which ends most queries. One that computes without reading needs an abort.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._watched: list[Abortable] = []
        self._running = False

    def watch(self, stream: Abortable) -> None:
        with self._lock:
            self._watched.append(stream)
            if self._running:
                return
            self._running = True
        start_thread(self._run, "headrace-abort")

    def _run(self) -> None:
        while True:
            time.sleep(ABORT_AFTER / 5)
            with self._lock:
                self._watched = [stream for stream in self._watched if not stream.done]
                if not self._watched:
                    self._running = False
                    return
                waiting = list(self._watched)
            for stream in waiting:
                if time.monotonic() > stream.abort_at and stream.abort():
                    stream.abort_at = time.monotonic() + _ABORT_AGAIN_AFTER


class AbortError(Exception):
    """Raised in a pump thread to make the engine return."""


aborts = _Aborts()
