"""The writers that Spark calls: tasks write data files, the driver commits them. `headrace.tables` does the work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from headrace.errors import HeadraceError, LandingError
from headrace.spark.collector import spare_modules
from headrace.spark.schema import arrow_schema
from headrace.spark.task import current_task
from headrace.tables.commit.ledger import QueryRun
from headrace.tables.commit.message import TaskMessage
from headrace.tables.commit.payload import AppendPayload, OverwritePayload, Payload
from headrace.tables.settings import SinkSettings
from headrace.tables.sink import EpochSink
from headrace.tables.write.data_files import write_rows


@dataclass
class CommitMessage(WriterCommitMessage):
    """A task's message to the driver, as JSON."""

    text: str


class _Writer:
    """The base of the streaming and the batch writer."""

    def __init__(self, settings: SinkSettings, schema: Any, overwrite: bool, checkpoint: str = "") -> None:
        spare_modules()
        self._settings = settings
        self._replaces = overwrite
        rows = arrow_schema(schema)
        sink, mode = EpochSink(settings), OverwritePayload.mode if overwrite else AppendPayload.mode
        sink.prepare(rows, before_creation=lambda: sink.require_new(checkpoint, mode))
        self._schema = sink.schema_of_new(rows) if settings.replaces_schema and overwrite else None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> CommitMessage:
        """Write one partition's rows as data files.

        Runs on: an executor. Called: once per attempt of a task, so more than once for a partition that is retried
        or run speculatively; Spark passes one attempt's message to `commit`. On failure: Spark retries the task.
        """
        spare_modules()
        message = write_rows(
            iterator,
            self._settings.location,
            current_task(),
            settings=self._settings.files,
            replacing=self._replaces,
            schema=self._schema,
            words=self._settings.rules.words,
        )
        return CommitMessage(message.to_json(self._settings.rules.words))

    def _payload(self, messages: Sequence[TaskMessage]) -> Payload:
        return OverwritePayload(messages, self._schema) if self._replaces else AppendPayload(messages)


class LanceStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Lands the epochs of a streaming query.

    Spark creates one on the driver for each epoch, before its tasks, and another before each commit.
    """

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Land an epoch.

        Runs on: the driver, in a Python process that usually serves the whole query. Called: when all tasks of an
        epoch are done, and again after a restart if Spark had not committed the epoch. On failure: Spark calls
        `abort` and the query stops.
        """
        found = _task_messages(messages)
        EpochSink(self._settings).land(batchId, _run_of(found, batchId), self._payload(found))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Delete the files that the epoch's tasks wrote.

        Runs on: the driver. Called: when a task has failed permanently, or `commit` has failed. On failure: it never
        fails; files that remain belong to no version, and Lance's cleanup deletes them.
        """
        _discard(self._settings, messages, batchId)


class LanceBatchWriter(_Writer, DataSourceArrowWriter):
    """Commits a batch job."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit what the job wrote.

        Runs on: the driver. Called: once, when all tasks are done. On failure: Spark calls `abort` and the job fails.
        """
        EpochSink(self._settings).land_batch(self._payload(_task_messages(messages)))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete the files that the job's tasks wrote.

        Runs on: the driver. Called: when a task has failed permanently, or `commit` has failed. On failure: it never
        fails.
        """
        _discard(self._settings, messages, 0)


def _task_messages(messages: Sequence[WriterCommitMessage | None]) -> list[TaskMessage]:
    if any(not isinstance(message, CommitMessage) for message in messages):
        raise LandingError("A task sent no commit message; nothing was committed.", hint="restart the query.")
    return [TaskMessage.from_json(message.text) for message in messages if isinstance(message, CommitMessage)]


def _run_of(messages: Sequence[TaskMessage], epoch: int) -> QueryRun | None:
    """Return the query run that all tasks belong to; None if there was no task.

    Raises:
        LandingError: The tasks belong to several runs, or to another epoch.
    """
    runs = {message.run for message in messages}
    epochs = {message.epoch for message in messages} - {None, epoch}
    if len(runs) > 1 or epochs:
        raise LandingError(
            f"The tasks of epoch {epoch} belong to more than one run or epoch; nothing was committed.",
        )
    return runs.pop() if runs else None


def _discard(settings: SinkSettings, messages: Sequence[WriterCommitMessage | None], epoch: int) -> None:
    found = []
    for message in messages:
        try:
            found += _task_messages([message])
        except HeadraceError:
            continue
    EpochSink(settings).discard(found, epoch)
