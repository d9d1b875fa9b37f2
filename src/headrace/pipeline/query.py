"""The Spark query of a pipeline: its source, its steps and its sink, from its start to its end."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.errors import ConfigurationError, PlanError
from headrace.pipeline.failures import Failure, explain
from headrace.pipeline.progress import Progress, Reports
from headrace.spark.foreach_batch import LanceSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from headrace.pipeline.config import Pipeline

# Spark's output mode for each mode of the table. An upsert merges the rows that changed.
_OUTPUT_MODES = {"append": "append", "complete": "complete", "update": "update", "upsert": "update"}

_STOP_SECONDS = 20.0


class StopRequestedError(Exception):
    """Fails the epoch that Spark starts after a stop was requested, before it writes anything."""


class PipelineQuery:
    """One Spark query of a pipeline. A restart makes another one.

    Args:
        pipeline: The pipeline.
        spark: The session to run it in.
        sink: Lands the epochs.
        follow: Whether to keep running when all available rows have landed.
        reports: Joins what the sink and what Spark report of an epoch; new for each query.
        is_stopping: Whether a stop was requested: no further epoch may start.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        sink: LanceSink,
        *,
        follow: bool,
        reports: Reports,
        is_stopping: Callable[[], bool],
    ) -> None:
        self._pipeline = pipeline
        self._spark = spark
        self._sink = sink
        self._follow = follow
        self._is_stopping = is_stopping
        self._reports = reports
        self._failure: Exception | None = None
        self._query: StreamingQuery | None = None

    def start(self) -> StreamingQuery:
        """Start the query.

        Raises:
            PlanError: The source or a step cannot be planned.
            ConfigurationError: A step does not read the stream.
            Exception: As Spark raises it.
        """
        pipeline = self._pipeline
        writer = (
            self._frame()
            .writeStream.queryName(pipeline.name)
            .outputMode(_OUTPUT_MODES[pipeline.table.mode])
            .option("checkpointLocation", pipeline.checkpoint)
            .foreachBatch(self._land)
        )
        if not self._follow:
            writer = writer.trigger(availableNow=True)
        elif pipeline.trigger is not None:
            writer = writer.trigger(processingTime=pipeline.trigger)
        self._query = writer.start()
        return self._query

    def await_end(self, seconds: float) -> bool:
        """Wait for the end of the query; return whether it has ended.

        Raises:
            Exception: The query failed, as Spark raises it.
        """
        return bool(self._started.awaitTermination(seconds))  # type: ignore[arg-type]

    def new_progress(self) -> list[Progress]:
        """Return the epochs that Spark has reported since the last call."""
        if not self._reports.landed or self._query is None:
            return []
        found = (self._reports.progress(_as_mapping(event)) for event in self._query.recentProgress)
        return [progress for progress in found if progress is not None]

    def failure(self, error: Exception) -> Failure | None:
        """Return why the query failed; None if it ended because a stop was requested."""
        if isinstance(self._failure, StopRequestedError):
            return None
        found = explain(self._failure or error, self._pipeline.checkpoint)
        if self._failure is not None and found.error is not self._failure:
            found.error.__context__ = self._failure
        return found

    def end(self) -> None:
        """Stop the query, with a timeout: Spark waits for the `foreachBatch` callback, which may not return."""
        if self._query is not None:
            stopping = threading.Thread(target=_quietly, args=(self._query.stop,), daemon=True)
            stopping.start()
            stopping.join(_STOP_SECONDS)

    @property
    def _started(self) -> StreamingQuery:
        if self._query is None:
            raise RuntimeError("The query was not started.")
        return self._query

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
            found = explain(error, self._pipeline.checkpoint)
            if found.kind not in ("configuration", "query"):
                raise found.error from error
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

    def _land(self, df: DataFrame, epoch: int) -> None:
        """Land an epoch.

        Runs on: the driver, on Spark's callback thread. Called: for each epoch, again after a restart. On failure: the
        query stops.
        """
        try:
            if self._is_stopping():
                raise StopRequestedError
            self._reports.note(self._sink.land(df, epoch))
        except Exception as error:
            self._failure = error
            raise


def _quietly(call: Callable[[], object]) -> None:
    try:
        call()
    except Exception:  # noqa: BLE001 - Spark is shutting down
        return


def _as_mapping(event: Any) -> Any:
    """Return Spark's progress event as a mapping; newer versions of Spark have a class for it."""
    return event if isinstance(event, dict) else json.loads(event.json)


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
