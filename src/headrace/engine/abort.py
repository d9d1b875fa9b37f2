"""Queries that were stopped and compute on: how they are got out of the engine."""

from __future__ import annotations

import threading
import time
from typing import Protocol

from headrace.engine.threads import start_thread

# How long a stopped query may take to end by itself, and then to notice that it is aborted.
ABORT_AFTER = 0.5
_ABORT_AGAIN_AFTER = 3.0


class Abortable(Protocol):
    """A stopped query that may be inside the engine still."""

    done: bool
    abort_at: float

    def abort(self) -> bool:
        """Raise in the thread that is inside the engine; False if none is."""


class _Aborts:
    """Looks after stopped pulls: their scans have been told, and mostly that is enough to end them."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._watched: list[Abortable] = []
        self._running = False

    def watch(self, pull: Abortable) -> None:
        with self._lock:
            self._watched.append(pull)
            if self._running:
                return
            self._running = True
        start_thread(self._run, "headrace-abort")

    def _run(self) -> None:
        while True:
            time.sleep(ABORT_AFTER / 5)
            with self._lock:
                self._watched = [pull for pull in self._watched if not pull.done]
                if not self._watched:
                    self._running = False
                    return
                waiting = list(self._watched)
            for pull in waiting:
                if time.monotonic() > pull.abort_at and pull.abort():
                    pull.abort_at = time.monotonic() + _ABORT_AGAIN_AFTER


class AbortError(Exception):
    """Raised inside a draining thread to get it out of the engine."""


aborts = _Aborts()
