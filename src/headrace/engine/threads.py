"""headrace's threads: daemon threads that the exit hook joins."""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
import weakref
from collections.abc import Callable

_own = threading.local()
_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


class ExitingError(BaseException):
    """Raised in headrace's threads that still run when the interpreter exits."""


def start_thread(target: Callable[[], None], name: str) -> threading.Thread:
    """Start a daemon thread that the exit hook joins."""

    def run() -> None:
        _own.is_own = True
        # The exit hook raises it to end the thread.
        with contextlib.suppress(ExitingError):
            target()

    thread = threading.Thread(target=run, name=name, daemon=True)
    _threads.add(thread)
    try:
        thread.start()
    except BaseException:
        _threads.discard(thread)
        raise
    return thread


def is_own_thread() -> bool:
    """Whether the calling thread was started by ``start_thread``."""
    return getattr(_own, "is_own", False)


def raise_in_thread(thread: int, error: type[BaseException]) -> None:
    """Raise ``error`` in another thread, at the next line of Python that it runs."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


def living_threads() -> list[threading.Thread]:
    """Return the threads that are running."""
    return [thread for thread in _threads if thread.ident is not None and thread.is_alive()]


def join_threads(deadline: float) -> None:
    """Join all threads, until ``deadline`` on the monotonic clock."""
    for thread in list(_threads):
        while True:
            try:
                thread.join(max(0.0, deadline - time.monotonic()))
                break
            except RuntimeError:  # Another thread is just starting it.
                if time.monotonic() > deadline:
                    break
                time.sleep(0.001)
