"""What a running query does: it works, waits for rows, or is stuck."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.pipeline.listener import IDLE, STUCK, WORKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


# How Spark describes a query between two triggers; a query that starts is not active either.
_WAITING = "Waiting for"

# Tasks are counted at most this often.
_COUNT_SECONDS = 5.0


class ActivityMonitor:
    """Observes one query.

    A trigger is stuck if nothing has changed for a while: neither what Spark says it does nor the number of completed
    tasks. A long epoch is not, since its tasks complete one by one.

    Args:
        query: The query.
        spark: Its session.
        stuck_after: Seconds without a change after which a trigger is stuck.
        clock: A monotonic clock, in seconds.
    """

    def __init__(
        self,
        query: StreamingQuery,
        spark: SparkSession,
        stuck_after: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._query = query
        self._spark = spark
        self._stuck_after = stuck_after
        self._clock = clock
        self._signs: object = None
        self._changed = clock()
        self._counted = float("-inf")
        self._tasks: tuple[tuple[int, int, int], ...] = ()

    def look(self, epochs: int) -> str:
        """Return what the query does now.

        Args:
            epochs: How many epochs it has completed.
        """
        status = self._query.status
        now = self._clock()
        if not status["isTriggerActive"] and status["message"].startswith(_WAITING):
            self._signs, self._changed = None, now
            return IDLE
        if now - self._counted >= _COUNT_SECONDS:
            self._tasks, self._counted = self._task_counts(), now
        signs = (epochs, status["message"], self._tasks)
        if signs != self._signs:
            self._signs, self._changed = signs, now
        return STUCK if now - self._changed > self._stuck_after else WORKING

    def _task_counts(self) -> tuple[tuple[int, int, int], ...]:
        """Return the completed and failed tasks of each active stage."""
        try:
            tracker = self._spark.sparkContext.statusTracker()
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except Exception:  # noqa: BLE001 - a remote session has no tracker
            return ()
        return tuple((each.stageId, each.numCompletedTasks, each.numFailedTasks) for each in stages if each)
