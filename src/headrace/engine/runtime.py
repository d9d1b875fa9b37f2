"""The engine's worker threads, one pool per process, and the check for forks.

DataFusion polls a Python table on a worker thread, and a scan that waits for its next batch blocks that worker. So the
pool is made large before the engine starts it, every scan of a running query is counted against it, and one worker
always stays free to run tasks that are ready.
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
    """The worker threads of the engine's runtime, and how many of them scans occupy."""

    def __init__(self) -> None:
        self._idle = threading.Condition()
        self._held = 0
        self.were_held = False
        self._count: int | None = None
        self._pid: int | None = None
        self.forked = False
        """Whether this process was forked after the engine was started."""

    def start(self, run_query: Callable[[], object]) -> None:
        """Start the engine's runtime, once per process, and determine how many workers it has.

        The pool has the size in ``TOKIO_WORKER_THREADS``. If the variable is not set, it is set for the time of this
        call, since the engine reads it when its first query starts the runtime.

        Args:
            run_query: Runs a query in the engine.

        Raises:
            ConfigurationError: The variable is not a whole number of at least 1.
            ForkedError: The engine was started before this process was forked.
        """
        self.require_same_process()
        with self._idle:
            if self._count is not None:
                return
            with _pool_size() as size:
                before = _count_worker_threads()
                run_query()
            self._count = size if before == 0 or _have_started(size, before) else os.cpu_count() or 1
            self._pid = os.getpid()
            # Every call checks for a fork, and os.getpid() would take longer than the rest of a small write.
            os.register_at_fork(after_in_child=self._set_forked)

    def acquire(self, scans: int) -> None:
        """Reserve workers for the scans of a query.

        Raises:
            ResourcesExhaustedError: Too few workers are free; none is reserved.
        """
        with self._idle:
            limit = (self._count or 1) - 1
            if self._held + scans > limit:
                raise ResourcesExhaustedError(
                    f"The query scans more tables at once than there are free worker threads: at most {limit} scans "
                    f"can wait for data at the same time, over all running queries. Starting it could deadlock.",
                    hint=f"set the environment variable {WORKERS_VARIABLE} (now {self._count}) to more than the number "
                    "of tables and partitions scanned at once, before the process makes its first SessionContext, or "
                    "close readers that are still open.",
                )
            self._held += scans
            self.were_held = True

    def spare(self, scans: int) -> int:
        """Return how many workers each of a query's scans may have, at least 1.

        More than one makes a query faster. Only half of the pool is given away like this, so that many queries can
        still run at the same time.
        """
        with self._idle:
            return max(1, ((self._count or 1) // 2 - self._held) // max(1, scans))

    def release(self, scans: int) -> None:
        """Release reserved workers."""
        with self._idle:
            self._held -= scans
            self._idle.notify_all()

    @property
    def held(self) -> int:
        """The number of workers reserved by running queries."""
        return self._held

    def wait_idle(self, seconds: float) -> bool:
        """Wait until no worker is reserved; return False if one still is after ``seconds``."""
        with self._idle:
            return self._idle.wait_for(lambda: self._held <= 0, seconds)

    def require_same_process(self) -> None:
        """Check that this process is not a fork: the engine's threads do not exist in the child.

        Raises:
            ForkedError: The engine was started before this process was forked.
        """
        if self.forked:
            raise ForkedError(
                f"headrace was used in process {self._pid} and cannot be used in its fork {os.getpid()}: "
                "the engine's threads do not exist here.",
                hint='start processes with multiprocessing.get_context("spawn").',
            )

    def _set_forked(self) -> None:
        self.forked = True


workers = _Workers()


def worker_threads(file: str) -> Iterator[str]:
    """Yield the contents of ``/proc/self/task/<thread>/<file>`` for each of the engine's workers."""
    for comm in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):
            if comm.read_text().strip() in _WORKER_THREAD_NAMES:
                yield comm.with_name(file).read_text()


def _count_worker_threads() -> int:
    return sum(1 for _ in worker_threads("comm"))


@contextlib.contextmanager
def _pool_size() -> Iterator[int]:
    """Yield the pool's size, and set the variable for the time of the block if the user has not set it."""
    chosen = os.environ.get(WORKERS_VARIABLE)
    if chosen is not None:
        if not chosen.isdigit() or int(chosen) < 1:
            raise ConfigurationError(
                f"The environment variable {WORKERS_VARIABLE} must be a whole number of at least 1, not {chosen!r}."
            )
        yield int(chosen)
        return
    os.environ[WORKERS_VARIABLE] = str(_DEFAULT_WORKERS)
    try:
        yield _DEFAULT_WORKERS
    finally:
        # Child processes and the runtimes of other libraries keep their defaults.
        os.environ.pop(WORKERS_VARIABLE, None)


def _have_started(workers: int, before: int) -> bool:
    """Whether the engine started this many workers just now; if not, its runtime was already running.

    Workers are recognised by their names. A thread sets its name shortly after it starts, so this waits.
    """
    started = time.monotonic()
    while (new := _count_worker_threads() - before) < workers:
        waited = time.monotonic() - started
        if waited > _START_SECONDS or (new <= 0 and waited > _START_SECONDS / 10):
            return False
        time.sleep(0.002)
    return True
