"""Callbacks for objects that have gone."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue

from headrace.engine.threads import start_thread


class _Gone:
    """Calls back when objects have gone, on a thread of its own.

    What the engine drops goes on whichever of its threads enters Python next, maybe one with an exception
    pending in it, which would come out of a finalizer's first line. The queue's put() runs no line of Python.
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
            # Nothing may live on because this thread waits.
            del callback, reference
            with self._lock:
                if not self._watched:
                    self._running = False
                    return


_gone = _Gone()


def call_when_gone(thing: object, callback: Callable[[], None]) -> None:
    """Call back, from another thread, when nothing refers to ``thing`` any more; not at exit."""
    _gone.watch(thing, callback)


def stop_calling() -> None:
    """Call back no more; the process is about to exit."""
    _gone.end()
