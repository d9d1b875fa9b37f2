"""What is one per process: the engine's worker threads, the fork guard and the way out.

DataFusion polls a Python table on a worker thread, and a scan that waits for its next batch holds that
worker. So the pool is made large enough before the engine starts it, every scan of a running query is
counted against it, and one worker always stays free: whatever is ready to run can run.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Protocol

from headrace._errors import ConfigurationError, ForkedError, ResourcesExhaustedError

WORKERS_VARIABLE = "TOKIO_WORKER_THREADS"
_DEFAULT_WORKERS = max(128, 4 * (os.cpu_count() or 1))
_WORKER_THREAD_NAMES = ("tokio-rt-worker", "tokio-runtime-w")
_EXIT_SECONDS = 1.7
_START_SECONDS = 5.0
_PARKED_SECONDS = 0.02
_PARKED = re.compile(r"^(?:State|Pid|voluntary_ctxt_switches|nonvoluntary_ctxt_switches):.*$", re.MULTILINE)


class Closable(Protocol):
    """A thing that the end of the process must bring to rest."""

    def _shut_down(self, reason: str) -> None: ...


class _Workers:
    """The worker threads of the engine's runtime, and who holds them."""

    def __init__(self) -> None:
        self._idle = threading.Condition()
        self._held = 0
        self.were_held = False
        self._count: int | None = None
        self._pid: int | None = None
        self._set_by_us = False
        # Finalizers ask even when the interpreter has taken the modules down.
        self._getpid = os.getpid

    def size(self) -> None:
        """Ask for a large pool, unless the user chose a size; the engine reads it when it starts."""
        if WORKERS_VARIABLE not in os.environ:
            os.environ[WORKERS_VARIABLE] = str(_DEFAULT_WORKERS)
            self._set_by_us = True

    def start(self, run_something: Callable[[], object]) -> None:
        """Start the engine's runtime, once, and learn how many workers it has.

        Args:
            run_something: Makes the engine run anything, which starts its threads.
        """
        self.require_same_process()
        with self._idle:
            if self._count is not None:
                return
            asked = _requested(os.environ.get(WORKERS_VARIABLE))
            before = _count_worker_threads()
            run_something()
            self._count = asked if before == 0 or _have_started(asked, before) else os.cpu_count() or 1
            self._pid = os.getpid()
            if self._set_by_us:
                # Child processes and other libraries' runtimes keep their own defaults.
                os.environ.pop(WORKERS_VARIABLE, None)

    def acquire(self, scans: int) -> None:
        """Take workers for scans of a query about to start.

        Raises:
            ResourcesExhaustedError: Too many are taken; nothing was taken more.
        """
        with self._idle:
            limit = (self._count or 1) - 1
            if self._held + scans > limit:
                raise ResourcesExhaustedError(
                    f"The query scans more tables at once than there are worker threads left: {limit} scans can "
                    f"wait for data at the same time, over all running queries; starting it could deadlock.",
                    hint=f"set the environment variable {WORKERS_VARIABLE} (now {self._count}) to more than the number "
                    "of tables and partitions scanned at once, before headrace is imported, or close readers "
                    "that are still open.",
                )
            self._held += scans
            self.were_held = True

    def release(self, scans: int) -> None:
        """Give workers back."""
        with self._idle:
            self._held -= scans
            self._idle.notify_all()

    @property
    def held(self) -> int:
        """Workers held by running queries."""
        return self._held

    def wait_idle(self, seconds: float) -> bool:
        """Wait until no query holds a worker; False if one still does after ``seconds``."""
        with self._idle:
            return self._idle.wait_for(lambda: self._held <= 0, seconds)

    def require_same_process(self) -> None:
        """Refuse to work in a forked child, where the engine's threads do not exist.

        Raises:
            ForkedError: The engine was started before the fork.
        """
        if self._pid is not None and self._pid != os.getpid():
            raise ForkedError(
                f"headrace was used in process {self._pid} and cannot be used in its fork {os.getpid()}: "
                "the engine's threads do not exist here.",
                hint='start processes with multiprocessing.get_context("spawn").',
            )

    @property
    def forked(self) -> bool:
        """Whether this is a forked child of the process that uses the engine."""
        return self._pid is not None and self._pid != self._getpid()


workers = _Workers()
_open: weakref.WeakSet[Closable] = weakref.WeakSet()
_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


def shut_down_at_exit(closable: Closable) -> None:
    """Bring ``closable`` to rest when the interpreter exits."""
    _open.add(closable)


def start_thread(target: Callable[[], None], name: str) -> threading.Thread:
    """Start a thread of headrace's own, waited for at exit but never keeping the process alive."""
    thread = threading.Thread(target=target, name=name, daemon=True)
    _threads.add(thread)
    try:
        thread.start()
    except BaseException:
        _threads.discard(thread)
        raise
    return thread


def raise_in_thread(thread: int, error: type[BaseException]) -> None:
    """Make ``error`` come out of whatever a thread does next in Python."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


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


class ExitingError(BaseException):
    """Raised in threads of headrace's own that are still at work when the interpreter exits."""


def _at_exit() -> None:
    # A worker that returns into Python after the interpreter is gone aborts the process: everything
    # is cancelled and waited for while Python still runs.
    if workers.forked:
        return
    for closable in list(_open):
        closable._shut_down("the interpreter is exiting")
    _gone.end()
    deadline = time.monotonic() + _EXIT_SECONDS
    _join_threads(time.monotonic() + _EXIT_SECONDS / 5)
    for thread in list(_threads):
        if thread.ident is not None and thread.is_alive():
            # A provider that loops, or the engine at work: neither hears of a cancelled channel.
            raise_in_thread(thread.ident, ExitingError)
    _join_threads(deadline)
    workers.wait_idle(max(0.0, deadline - time.monotonic()))
    if workers.were_held:
        _wait_until_parked(deadline)


def _join_threads(deadline: float) -> None:
    for thread in list(_threads):
        while True:
            try:
                thread.join(max(0.0, deadline - time.monotonic()))
                break
            except RuntimeError:  # Somebody is just starting it.
                if time.monotonic() > deadline:
                    break
                time.sleep(0.001)


def _wait_until_parked(deadline: float) -> None:
    """Wait until the engine's workers have nothing more to do.

    They drop what is left of a query when they get to it, and one that enters Python for that while the interpreter
    is being taken down ends in a crash.
    """
    before: list[str] | None = None
    while time.monotonic() < deadline:
        # A worker that waits for the interpreter's lock sleeps too, but wakes up again and again.
        now = ["".join(_PARKED.findall(status)) for status in _worker_threads("status")]
        if now == before and all("(sleeping)" in status for status in now):
            return
        before = now
        time.sleep(_PARKED_SECONDS)


def _worker_threads(file: str) -> Iterator[str]:
    """One of the files in which Linux tells about a thread, for each of the engine's workers."""
    for comm in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):
            if comm.read_text().strip() in _WORKER_THREAD_NAMES:
                yield comm.with_name(file).read_text()


def _count_worker_threads() -> int:
    return sum(1 for _ in _worker_threads("comm"))


def _requested(asked: str | None) -> int:
    if asked is None:
        return os.cpu_count() or 1
    if not asked.isdigit() or int(asked) < 1:
        raise ConfigurationError(
            f"The environment variable {WORKERS_VARIABLE} must be a whole number of at least 1, not {asked!r}."
        )
    return int(asked)


def _have_started(asked: int, before: int) -> bool:
    """Whether the engine started its workers just now; else it ran before they could be asked for.

    A thread is known by its name, which it gives itself a moment after it is started.
    """
    started = time.monotonic()
    while (new := _count_worker_threads() - before) < asked:
        waited = time.monotonic() - started
        if waited > _START_SECONDS or (new <= 0 and waited > _START_SECONDS / 10):
            return False
        time.sleep(0.002)
    return True


# Runs before Python joins the user's threads, which may be blocked in a write; atexit runs after.
threading._register_atexit(_at_exit)  # type: ignore[attr-defined]
workers.size()
