"""Run a pipeline: start its query, report its progress, start it again after an outage, and stop it after an epoch."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from headrace.pipeline.activity import ActivityMonitor
from headrace.pipeline.durations import seconds_of
from headrace.pipeline.failures import Failure, drop_origin
from headrace.pipeline.file_lag import FileLag
from headrace.pipeline.listener import IDLE, Listener
from headrace.pipeline.progress import Reports, Totals
from headrace.pipeline.query import PipelineQuery
from headrace.pipeline.restarts import RestartPolicy
from headrace.spark.foreach_batch import LanceSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipeline.config import Pipeline

_POLL_SECONDS = 0.2


class Stop:
    """A request to stop the job: after the current epoch or, when requested again, immediately."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._now = threading.Event()

    def ask(self) -> None:
        """Request a stop; the second call requests it immediately."""
        (self._now if self._asked.is_set() else self._asked).set()

    @property
    def is_asked(self) -> bool:
        """Whether no further epoch may start."""
        return self._asked.is_set()

    @property
    def is_now(self) -> bool:
        """Whether to stop without waiting for the current epoch."""
        return self._now.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait for a request, at most so long; return whether there is one."""
        return self._asked.wait(seconds)


class Job:
    """One run of a pipeline.

    Args:
        pipeline: The pipeline to run.
        spark: The session to run it in.
        follow: Whether to keep running when all available rows have landed.
        stop: The request to stop; None if there will be none.
    """

    def __init__(self, pipeline: Pipeline, spark: SparkSession, *, follow: bool, stop: Stop | None = None) -> None:
        self._pipeline = pipeline
        self._spark = spark
        self._follow = follow
        self._stop = stop or Stop()
        self._policy = RestartPolicy(pipeline.run, follow=follow)
        self._file_lag = FileLag(pipeline)
        self._totals = Totals()
        self._is_announced = False
        table = pipeline.table
        self._sink = LanceSink.from_settings(pipeline.sink_settings(), mode=table.mode, keys=table.keys)

    def run(self, listener: Listener | None = None) -> Totals:
        """Run until all available rows have landed, or until a stop is requested.

        A query that fails with an error that may pass is started again, as the section [run] says.

        Args:
            listener: Hears what the job does.

        Returns:
            The totals of the run.

        Raises:
            PlanError: The source or a step cannot be planned.
            ConfigurationError: A step does not read the stream.
            HeadraceError: The query failed, and was not started again.
        """
        listener = listener or Listener()
        failure: Failure | None = None
        while not self._stop.is_asked:
            failure = self._run_query(listener, failure)
            if failure is None:
                break
            pause = self._policy.pause_after(failure)
            listener.failed(failure, pause)
            if pause is None:
                raise failure.error
            drop_origin(failure.error)
            self._stop.wait(pause)
        self._announce_stop(listener)
        return self._totals

    def _run_query(self, listener: Listener, before: Failure | None) -> Failure | None:
        """Run the query once, to its end; return why it failed, if it did.

        Args:
            listener: Hears what happens.
            before: The failure of the query that this one follows.
        """
        query = PipelineQuery(
            self._pipeline,
            self._spark,
            self._sink,
            follow=self._follow,
            reports=Reports(file_lag=self._file_lag),
            is_stopping=lambda: self._stop.is_asked,
        )
        try:
            started = query.start()
            if before is not None:
                listener.restarted(before)
            monitor = ActivityMonitor(started, self._spark, seconds_of(self._pipeline.run.stuck_after) or 0.0)
            while not query.await_end(_POLL_SECONDS):
                self._report(query, listener)
                activity = monitor.look(self._totals.ended)
                listener.activity(activity)
                if activity == IDLE:
                    self._policy.succeeded()
                self._announce_stop(listener)
                if self._stop.is_now or (self._stop.is_asked and activity == IDLE):
                    break
        except Exception as error:  # noqa: BLE001 - explained, and raised by the caller
            self._report(query, listener)
            failure = query.failure(error)
            if failure is not None:
                failure.error.__cause__ = None if failure.error is error else error
            return failure
        finally:
            query.end()
        self._report(query, listener)
        return None

    def _report(self, query: PipelineQuery, listener: Listener) -> None:
        for progress in query.new_progress():
            self._totals.add(progress)
            self._policy.succeeded()
            listener.epoch(progress, self._totals)

    def _announce_stop(self, listener: Listener) -> None:
        if self._stop.is_asked and not self._is_announced:
            self._is_announced = True
            listener.stopping()
