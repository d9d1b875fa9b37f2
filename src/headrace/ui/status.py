"""The board: what is known of a run at this moment, and of its last epochs.

The run writes to it and the status page reads from it, on another thread. It is kept in memory and ends with the run.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.channel.channel import SinkStatistics
    from headrace.pipeline.progress import Progress, Totals

LAST_EPOCHS = 500

STARTING = "starting"
RUNNING = "running"
STOPPING = "stopping"
ENDED = "ended"
FAILED = "failed"

_NOTHING = {"epochs": 0, "skipped": 0, "empty": 0, "rows": 0, "version": None}


@dataclass(frozen=True, slots=True)
class _Epoch:
    """One epoch, and what the table was like after it."""

    time: float
    progress: Progress
    versions: int | None
    fragments: int | None

    def as_dict(self) -> dict[str, Any]:
        told = self.progress
        return {
            "time": self.time,
            "epoch": told.epoch,
            "rows_in": told.rows_in,
            "rows_landed": told.rows_landed,
            "rows_per_second": told.rows_per_second,
            "seconds": told.seconds,
            "phases": dict(told.phases),
            "version": told.version,
            "was_skipped": told.was_skipped,
            "lag": {"value": told.lag[0], "unit": told.lag[1]} if told.lag else None,
            "versions": self.versions,
            "fragments": self.fragments,
        }


class RunStatus:
    """What is known of a run. Any thread may use it.

    Args:
        pipeline_name: The pipeline that is run.
        table: The table it lands in, as it may be shown.
        clock: Seconds since 1970.
    """

    def __init__(self, pipeline_name: str, table: str, *, clock: Callable[[], float] = time.time) -> None:
        self._pipeline = pipeline_name
        self._table = table
        self._clock = clock
        # A signal's handler may tell of the stop on the very thread that is telling of an epoch, hence the R.
        self._lock = threading.RLock()
        self._state = STARTING
        self._message: str | None = None
        self._started = clock()
        self._ended: float | None = None
        self._epochs: deque[_Epoch] = deque(maxlen=LAST_EPOCHS)
        self._totals: dict[str, Any] = dict(_NOTHING)
        self._watched: dict[str, Callable[[], SinkStatistics]] = {}

    @property
    def is_over(self) -> bool:
        """Whether the run has ended or failed."""
        with self._lock:
            return self._state in (ENDED, FAILED)

    def begin(self) -> None:
        """Spark is there, and the query begins."""
        with self._lock:
            if self._state == STARTING:
                self._state = RUNNING

    def epoch(self, progress: Progress, totals: Totals, *, versions: int | None, fragments: int | None) -> None:
        """An epoch is done.

        Args:
            progress: The epoch.
            totals: All epochs so far. They may change afterwards: what they say now is kept.
            versions: How many versions the table keeps; None if nobody has looked.
            fragments: How many fragments the table has; None if nobody has looked.
        """
        with self._lock:
            self._epochs.append(_Epoch(self._clock(), progress, versions, fragments))
            self._totals = asdict(totals)

    def stopping(self) -> None:
        """The run was told to stop."""
        with self._lock:
            if not self.is_over:
                self._state = STOPPING

    def end(self) -> None:
        """The run is over, and all is well."""
        self._finish(ENDED, None)

    def fail(self, message: str) -> None:
        """The run is over, and why. What ended it first, stands."""
        self._finish(FAILED, message)

    def watch(self, name: str, statistics: Callable[[], SinkStatistics]) -> None:
        """Show how full a push table is.

        Args:
            name: The table's name.
            statistics: Such as ``TableSink.statistics``. Called for each snapshot; if it raises, the table is shown
                without numbers.
        """
        with self._lock:
            self._watched[name] = statistics

    def snapshot(self) -> dict[str, Any]:
        """All of it, in plain values, as JSON has them. Times are seconds since 1970."""
        with self._lock:
            epochs = list(self._epochs)
            watched = list(self._watched.items())
            told: dict[str, Any] = {
                "pipeline": self._pipeline,
                "table": self._table,
                "state": self._state,
                "message": self._message,
                "now": self._clock(),
                "started": self._started,
                "ended": self._ended,
                "totals": dict(self._totals),
            }
        # Neither takes the lock: the run must not wait for a page, nor for a table's own lock.
        told["epochs"] = [each.as_dict() for each in epochs]
        told["push_tables"] = [_depth(name, statistics) for name, statistics in watched]
        return told

    def _finish(self, state: str, message: str | None) -> None:
        with self._lock:
            if not self.is_over:
                self._state, self._message, self._ended = state, message, self._clock()


def _depth(name: str, statistics: Callable[[], SinkStatistics]) -> dict[str, Any]:
    try:
        found = statistics()
    except Exception:  # noqa: BLE001 - whatever is wrong with one table, the page shows the rest
        return {"name": name, "queued": None, "capacity": None, "state": "unknown"}
    return {"name": name, "queued": found.queued, "capacity": found.capacity, "state": found.state}
