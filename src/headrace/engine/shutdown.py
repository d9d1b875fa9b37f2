"""The exit hook: cancels what is open when the interpreter exits, and waits for its threads."""

from __future__ import annotations

import re
import threading
import time
import weakref
from typing import Protocol

from headrace.engine.gone import stop_calling
from headrace.engine.runtime import worker_threads, workers
from headrace.engine.threads import ExitingError, join_threads, living_threads, raise_in_thread

_EXIT_SECONDS = 1.7
_PARKED_SECONDS = 0.02
_PARKED = re.compile(r"^(?:State|Pid|voluntary_ctxt_switches|nonvoluntary_ctxt_switches):.*$", re.MULTILINE)


class Closable(Protocol):
    """An object that the exit hook closes."""

    def _close(self, reason: str) -> None: ...


_open: weakref.WeakSet[Closable] = weakref.WeakSet()
_registration = threading.Lock()
_is_registered = False


def register_exit_hook() -> None:
    """Register the exit hook; later calls do nothing."""
    global _is_registered
    with _registration:
        if not _is_registered:
            # Runs before Python joins the user's threads, which may be blocked in a write; atexit runs after.
            threading._register_atexit(_at_exit)  # type: ignore[attr-defined]
            _is_registered = True


def close_at_exit(closable: Closable) -> None:
    """Close ``closable`` when the interpreter exits, if it still exists."""
    _open.add(closable)


def _at_exit() -> None:
    # A worker that calls Python after the interpreter is finalized crashes the process, so cancel everything and wait
    # for it here.
    if workers.forked:
        return
    for closable in list(_open):
        closable._close("the interpreter is exiting")
    stop_calling()
    deadline = time.monotonic() + _EXIT_SECONDS
    join_threads(time.monotonic() + _EXIT_SECONDS / 5)
    for thread in living_threads():
        if thread.ident is not None:
            # A provider in a loop, or a computing engine, does not notice a cancelled channel.
            raise_in_thread(thread.ident, ExitingError)
    join_threads(deadline)
    workers.wait_idle(max(0.0, deadline - time.monotonic()))
    if workers.were_held:
        _wait_until_parked(deadline)


def _wait_until_parked(deadline: float) -> None:
    """Wait until the engine's workers are idle.

    Workers drop the remains of a query some time after it ends. One that calls Python for that while the interpreter
    is being finalized crashes the process.
    """
    before: list[str] | None = None
    while time.monotonic() < deadline:
        # A worker that waits for the GIL also sleeps, but its count of context switches keeps growing.
        now = ["".join(_PARKED.findall(status)) for status in worker_threads("status")]
        if now == before and all("(sleeping)" in status for status in now):
            return
        before = now
        time.sleep(_PARKED_SECONDS)
