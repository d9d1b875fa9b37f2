"""The engine's worker threads, one pool per process, and the fork guard.

DataFusion polls a Python table on a worker thread, and a scan that waits for its next batch holds that
worker. So the pool is made large enough before the engine starts it, every scan of a running query is
counted against it, and one worker always stays free: whatever is ready to run can run.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from headrace.errors import ConfigurationError, ForkedError, ResourcesExhaustedError

WORKERS_VARIABLE = "TOKIO_WORKER_THREADS"
_DEFAULT_WORKERS = max(128, 4 * (os.cpu_count() or 1))
_WORKER_THREAD_NAMES = ("tokio-rt-worker", "tokio-runtime-w")
_START_SECONDS = 5.0


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


def worker_threads(file: str) -> Iterator[str]:
    """One of the files in which Linux tells about a thread, for each of the engine's workers."""
    for comm in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):
            if comm.read_text().strip() in _WORKER_THREAD_NAMES:
                yield comm.with_name(file).read_text()


def _count_worker_threads() -> int:
    return sum(1 for _ in worker_threads("comm"))


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


workers.size()
