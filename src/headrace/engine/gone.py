"""Callbacks for objects that have been freed, on a separate thread."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue

from headrace.engine.threads import start_thread


class _DropWatcher:
    """Calls back after objects are freed, on its thread.

    Objects that the engine drops are freed by the next thread that enters Python, which may have an exception
    pending. A finalizer's first line would raise and swallow it. ``SimpleQueue.put`` runs no Python code.
    """

    def __init__(self) -> None:
        self._gone: SimpleQueue[weakref.ref[object] | None] = SimpleQueue()
        self._lock = threading.RLock()
        self._watched: dict[int, tuple[weakref.ref[object], Callable[[], None]]] = {}
        self._running = False

    def watch(self, thing: object, callback: Callable[[], None]) -> None:
        reference = weakref.ref(thing, self._gone.put)
        with self._lock:
            self._watched[id(reference)] = reference, callback
            if self._running:
                return
            self._running = True
        start_thread(self._run, "headrace-gone")

    def end(self) -> None:
        self._gone.put(None)

    def _run(self) -> None:
        while (reference := self._gone.get()) is not None:
            with self._lock:
                callback = self._watched.pop(id(reference))[1]
            callback()
            # Do not keep these objects alive while the thread waits.
            del callback, reference
            with self._lock:
                if not self._watched:
                    self._running = False
                    return


_drop_watcher = _DropWatcher()


def call_when_gone(thing: object, callback: Callable[[], None]) -> None:
    """Call ``callback`` on another thread after ``thing`` is freed, but not at interpreter exit."""
    _drop_watcher.watch(thing, callback)


def stop_calling() -> None:
    """Stop calling back: the interpreter is exiting."""
    _drop_watcher.end()
