"""Run a pipeline: start the Spark query, report its progress, and stop it after an epoch."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.errors import ConfigurationError, ExecutionError, HeadraceError, PlanError
from headrace.pipeline.progress import Progress, Reports, Totals
from headrace.spark.foreach_batch import LanceSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from headrace.pipeline.config import Pipeline

# Spark's output mode for each mode of the table. An upsert merges the rows that changed.
_OUTPUT_MODES = {"append": "append", "complete": "complete", "update": "update", "upsert": "update"}

_POLL_SECONDS = 0.2
_STOP_SECONDS = 20.0


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


class _StopError(Exception):
    """Fails the epoch that Spark starts after a stop was requested, before it writes anything."""


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
        self._reports = Reports()
        self._failure: Exception | None = None
        table = pipeline.table
        self._sink = LanceSink.from_settings(pipeline.sink_settings(), mode=table.mode, keys=table.keys)

    def run(
        self,
        on_progress: Callable[[Progress, Totals], object] = lambda *_: None,
        on_stopping: Callable[[], object] = lambda: None,
    ) -> Totals:
        """Run until all available rows have landed, or until a stop is requested.

        Args:
            on_progress: Called after each epoch.
            on_stopping: Called once when a stop was requested.

        Returns:
            The totals of the run.

        Raises:
            PlanError: The source or a step cannot be planned.
            ConfigurationError: A step does not read the stream.
            HeadraceError: The query failed.
        """
        totals = Totals()
        query, is_announced = self._start(), False

        def report() -> None:
            nonlocal is_announced
            for progress in self._new_progress(query):
                totals.add(progress)
                on_progress(progress, totals)
            if self._stop.is_asked and not is_announced:
                is_announced = True
                on_stopping()

        try:
            while not self._await(query):
                report()
                if self._stop.is_now or (self._stop.is_asked and not query.status["isTriggerActive"]):
                    break
        except Exception as error:
            if not isinstance(self._failure, _StopError):
                report()
                raise _explained(self._failure or error) from error
        finally:
            _end(query)
        report()
        return totals

    def _start(self) -> StreamingQuery:
        pipeline = self._pipeline
        writer = (
            self._frame()
            .writeStream.queryName(pipeline.name)
            .outputMode(_OUTPUT_MODES[pipeline.table.mode])
            .option("checkpointLocation", pipeline.checkpoint)
            .foreachBatch(self._land)
        )
        try:
            if not self._follow:
                writer = writer.trigger(availableNow=True)
            elif pipeline.trigger is not None:
                writer = writer.trigger(processingTime=pipeline.trigger)
            return writer.start()
        except Exception as error:
            raise _explained(error) from error

    def _frame(self) -> DataFrame:
        """Return the DataFrame of the last step.

        Raises:
            PlanError: The source or a step cannot be planned.
            ConfigurationError: A step does not read the stream.
        """
        source = self._pipeline.source
        reader = self._spark.readStream.format(source.format)
        try:
            if source.schema is not None:
                reader = reader.schema(source.schema)
            frame = reader.options(**source.options).load(*([source.path] if source.path is not None else []))
        except Exception as error:
            raise PlanError(f"The source {source.format!r} cannot be used: {_first_line(error)}") from error
        frame.createOrReplaceTempView("source")
        for number, step in enumerate(self._pipeline.step, 1):
            try:
                frame = self._spark.sql(step.sql)
            except Exception as error:
                which = f"{number} ({step.name})" if step.name else f"{number}"
                raise PlanError(f"Step {which} cannot be planned: {_first_line(error)}") from error
            if not frame.isStreaming:
                raise ConfigurationError(
                    f"Step {number} does not read the stream.", hint="select from source, or from an earlier step."
                )
            frame.createOrReplaceTempView(step.name or f"step{number}")
        return frame

    def _land(self, df: Any, epoch: int) -> None:
        """Land an epoch.

        Runs on: the driver, on Spark's callback thread. Called: for each epoch, again after a restart. On failure: the
        query stops.
        """
        try:
            if self._stop.is_asked:
                raise _StopError
            self._reports.note(self._sink.land(df, epoch))
        except Exception as error:
            self._failure = error
            raise

    def _await(self, query: StreamingQuery) -> bool:
        return bool(query.awaitTermination(_POLL_SECONDS))  # type: ignore[arg-type]

    def _new_progress(self, query: StreamingQuery) -> list[Progress]:
        """Return the epochs that Spark has reported since the last call."""
        if not self._reports.landed:
            return []
        found = (self._reports.progress(_as_mapping(event)) for event in query.recentProgress)
        return [progress for progress in found if progress is not None]


def _end(query: StreamingQuery) -> None:
    """Stop a query, with a timeout: Spark waits for the `foreachBatch` callback, which may not return."""
    stopping = threading.Thread(target=_quietly, args=(query.stop,), daemon=True)
    stopping.start()
    stopping.join(_STOP_SECONDS)


def _quietly(call: Callable[[], object]) -> None:
    try:
        call()
    except Exception:  # noqa: BLE001 - Spark is shutting down
        return


def _as_mapping(event: Any) -> Any:
    """Return Spark's progress event as a mapping; newer versions of Spark have a class for it."""
    return event if isinstance(event, dict) else json.loads(event.json)


def _explained(error: Exception) -> HeadraceError:
    if isinstance(error, HeadraceError):
        return error
    if type(error).__name__ in ("AnalysisException", "IllegalArgumentException"):
        return PlanError(f"The pipeline cannot be planned: {_first_line(error)}")
    return ExecutionError(f"The query failed: {_first_line(error)}", hint="see Spark's output in the log.")


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
