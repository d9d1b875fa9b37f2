"""The status of a run: its state, totals and last epochs.

The run updates it, and the status page reads it on another thread. It is kept in memory only.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from headrace.pipeline.listener import IDLE

if TYPE_CHECKING:
    from headrace.channel.statistics import SinkStatistics
    from headrace.pipeline.failures import Failure
    from headrace.pipeline.progress import Progress, Totals

LAST_EPOCHS = 500

STARTING = "starting"
RUNNING = "running"
DOWN = "down"
STOPPING = "stopping"
ENDED = "ended"
FAILED = "failed"

_NOTHING = {"epochs": 0, "skipped": 0, "empty": 0, "rows": 0, "version": None, "null_rows": 0}


@dataclass(frozen=True, slots=True)
class _Epoch:
    """One epoch, and the table's versions and fragments after it."""

    time: float
    progress: Progress
    versions: int | None
    fragments: int | None

    def as_dict(self) -> dict[str, Any]:
        progress = self.progress
        return {
            "time": self.time,
            "epoch": progress.epoch,
            "rows_in": progress.rows_in,
            "rows_landed": progress.rows_landed,
            "null_rows": progress.null_rows,
            "rows_per_second": progress.rows_per_second,
            "seconds": progress.seconds,
            "phases": dict(progress.phases),
            "version": progress.version,
            "was_skipped": progress.was_skipped,
            "lag": dict(progress.lag) or None,
            "versions": self.versions,
            "fragments": self.fragments,
        }


class RunStatus:
    """The status of a run. It is thread-safe.

    Args:
        pipeline_name: The pipeline's name.
        table: The table it lands in, without secrets.
        clock: Returns the time in seconds since 1970.
    """

    def __init__(self, pipeline_name: str, table: str, *, clock: Callable[[], float] = time.time) -> None:
        self._pipeline = pipeline_name
        self._table = table
        self._clock = clock
        # Reentrant: a signal handler may call `stopping` on the thread that is inside `epoch`.
        self._lock = threading.RLock()
        self._state = STARTING
        self._message: str | None = None
        self._started = clock()
        self._ended: float | None = None
        self._epochs: deque[_Epoch] = deque(maxlen=LAST_EPOCHS)
        self._totals: dict[str, Any] = dict(_NOTHING)
        self._activity: str | None = None
        self._activity_since = self._started
        self._last_success: float | None = None
        self._last_rows: float | None = None
        self._next_try: float | None = None
        self._failures: Counter[str] = Counter()
        self._restarts: Counter[str] = Counter()
        self._watched: dict[str, Callable[[], SinkStatistics]] = {}

    @property
    def is_over(self) -> bool:
        """Whether the run has ended or failed."""
        with self._lock:
            return self._state in (ENDED, FAILED)

    def begin(self) -> None:
        """Record that Spark has started and the query runs."""
        with self._lock:
            if self._state == STARTING:
                self._state = RUNNING

    def epoch(self, progress: Progress, totals: Totals, *, versions: int | None, fragments: int | None) -> None:
        """Record an epoch that is done.

        Args:
            progress: The epoch.
            totals: The totals so far. They are copied.
            versions: The number of kept versions of the table; None if not counted.
            fragments: The number of fragments of the table; None if not counted.
        """
        with self._lock:
            now = self._clock()
            self._epochs.append(_Epoch(now, progress, versions, fragments))
            self._totals = asdict(totals)
            if progress.rows_in:
                self._last_rows = now
            self._succeed(now)

    def activity(self, activity: str) -> None:
        """Record what the query does now: it works, it is idle, or it is stuck."""
        with self._lock:
            now = self._clock()
            if activity != self._activity:
                self._activity, self._activity_since = activity, now
            if activity == IDLE:
                self._succeed(now)

    def down(self, failure: Failure, pause: float | None) -> None:
        """Record that the query failed.

        Args:
            failure: Why.
            pause: The seconds until it starts again; None if the run ends.
        """
        with self._lock:
            self._failures[failure.kind] += 1
            if pause is not None and not self.is_over:
                self._state, self._message = DOWN, str(failure.error)
                self._next_try = self._clock() + pause
                self._activity = None

    def restarted(self, failure: Failure) -> None:
        """Record that the query was started again. It is down until it has done something without an error."""
        with self._lock:
            self._restarts[failure.kind] += 1
            self._next_try = None

    def stopping(self) -> None:
        """Record that a stop was requested."""
        with self._lock:
            if not self.is_over:
                self._state = STOPPING

    def end(self) -> None:
        """Record that the run has ended without an error. The first call of `end` or `fail` wins."""
        self._finish(ENDED, None)

    def fail(self, message: str) -> None:
        """Record that the run has failed, with the reason. The first call of `end` or `fail` wins."""
        self._finish(FAILED, message)

    def watch(self, name: str, statistics: Callable[[], SinkStatistics]) -> None:
        """Show how many batches a push table has queued.

        Args:
            name: The table's name.
            statistics: Such as ``TableSink.statistics``. Called for each snapshot; if it raises, the table is shown
                without numbers.
        """
        with self._lock:
            self._watched[name] = statistics

    def snapshot(self) -> dict[str, Any]:
        """Return the status as JSON-compatible values. Times are seconds since 1970."""
        with self._lock:
            epochs = list(self._epochs)
            watched = list(self._watched.items())
            found: dict[str, Any] = {
                "pipeline": self._pipeline,
                "table": self._table,
                "state": self._state,
                "message": self._message,
                "now": self._clock(),
                "started": self._started,
                "ended": self._ended,
                "activity": self._activity,
                "activity_since": self._activity_since,
                "last_success": self._last_success,
                "last_rows": self._last_rows,
                "next_try": self._next_try,
                "failures": dict(self._failures),
                "restarts": dict(self._restarts),
                "totals": dict(self._totals),
            }
        # Outside the lock: the run must not wait for a page, nor for a push table's lock.
        found["epochs"] = [each.as_dict() for each in epochs]
        found["push_tables"] = [_queue_depth(name, statistics) for name, statistics in watched]
        return found

    def _succeed(self, now: float) -> None:
        self._last_success = now
        if self._state == DOWN:
            self._state, self._message = RUNNING, None

    def _finish(self, state: str, message: str | None) -> None:
        with self._lock:
            if not self.is_over:
                self._state, self._message, self._ended = state, message, self._clock()


def _queue_depth(name: str, statistics: Callable[[], SinkStatistics]) -> dict[str, Any]:
    try:
        found = statistics()
    except Exception:  # noqa: BLE001 - a failure of one table must not hide the others
        return {"name": name, "queued": None, "capacity": None, "state": "unknown"}
    return {"name": name, "queued": found.queued, "capacity": found.capacity, "state": found.state}
