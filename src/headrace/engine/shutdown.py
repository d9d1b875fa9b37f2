"""The way out: what is open when the interpreter exits is cancelled and waited for."""

from __future__ import annotations

import re
import threading
import time
import weakref
from typing import Protocol

from headrace.engine.gone import stop_calling
from headrace.engine.runtime import worker_threads, workers
from headrace.engine.threads import join_threads, living_threads, raise_in_thread

_EXIT_SECONDS = 1.7
_PARKED_SECONDS = 0.02
_PARKED = re.compile(r"^(?:State|Pid|voluntary_ctxt_switches|nonvoluntary_ctxt_switches):.*$", re.MULTILINE)


class Closable(Protocol):
    """A thing that the end of the process must bring to rest."""

    def _close(self, reason: str) -> None: ...


_open: weakref.WeakSet[Closable] = weakref.WeakSet()


def close_at_exit(closable: Closable) -> None:
    """Bring ``closable`` to rest when the interpreter exits."""
    _open.add(closable)


class ExitingError(BaseException):
    """Raised in threads of headrace's own that are still at work when the interpreter exits."""


def _at_exit() -> None:
    # A worker that returns into Python after the interpreter is gone aborts the process: everything
    # is cancelled and waited for while Python still runs.
    if workers.forked:
        return
    for closable in list(_open):
        closable._close("the interpreter is exiting")
    stop_calling()
    deadline = time.monotonic() + _EXIT_SECONDS
    join_threads(time.monotonic() + _EXIT_SECONDS / 5)
    for thread in living_threads():
        if thread.ident is not None:
            # A provider that loops, or the engine at work: neither hears of a cancelled channel.
            raise_in_thread(thread.ident, ExitingError)
    join_threads(deadline)
    workers.wait_idle(max(0.0, deadline - time.monotonic()))
    if workers.were_held:
        _wait_until_parked(deadline)


def _wait_until_parked(deadline: float) -> None:
    """Wait until the engine's workers have nothing more to do.

    They drop what is left of a query when they get to it, and one that enters Python for that while the interpreter
    is being taken down ends in a crash.
    """
    before: list[str] | None = None
    while time.monotonic() < deadline:
        # A worker that waits for the interpreter's lock sleeps too, but wakes up again and again.
        now = ["".join(_PARKED.findall(status)) for status in worker_threads("status")]
        if now == before and all("(sleeping)" in status for status in now):
            return
        before = now
        time.sleep(_PARKED_SECONDS)


# Runs before Python joins the user's threads, which may be blocked in a write; atexit runs after.
threading._register_atexit(_at_exit)  # type: ignore[attr-defined]
