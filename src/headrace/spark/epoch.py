"""One epoch of ``foreachBatch``: executors write its rows, the driver lands what they report."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace._errors import HeadraceError, MissingExtraError
from headrace.spark.schema import arrow_schema
from headrace.spark.task import current_task
from headrace.tables import creation, upsert
from headrace.tables.fragments import write_rows, write_staged
from headrace.tables.lance_store import LanceSnapshot
from headrace.tables.ledger import Run
from headrace.tables.location import Location
from headrace.tables.message import TaskMessage
from headrace.tables.payload import Payload, Result, Rows
from headrace.tables.settings import SinkSettings
from headrace.tables.sink import Sink

_log = logging.getLogger("headrace.spark")

# What a mode is stamped as, where that is not its name: update appends.
_STAMPED = {"update": Rows.mode}

Tasks = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Landed:
    """What became of an epoch.

    Attributes:
        epoch: The epoch.
        version: The version that holds its rows; None if it had none, or had landed before.
        was_skipped: Whether it had landed before.
        rows: How many rows it brought.
        files: How many data files; None for ``upsert``, where Lance writes them.
        seconds_writing: How long the tasks took.
        seconds_committing: How long the commit took.
    """

    epoch: int
    version: int | None = None
    was_skipped: bool = False
    rows: int = 0
    files: int | None = 0
    seconds_writing: float = 0.0
    seconds_committing: float = 0.0


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch on its way into the table.

    Attributes:
        settings: What the sink was told.
        mode: ``append``, ``complete``, ``update`` or ``upsert``.
        keys: The key columns, for ``upsert``.
        run: The run it belongs to.
        number: The epoch.
    """

    settings: SinkSettings
    mode: str
    keys: tuple[str, ...]
    run: Run
    number: int

    def land(self, df: Any) -> Landed:
        """Land the epoch's rows, unless they have landed before."""
        started = time.monotonic()
        sink = Sink(self.settings)
        schema = arrow_schema(df.schema)
        landing, mode = sink.landing(self.run), _STAMPED.get(self.mode, self.mode)
        snapshot = sink.prepare(
            schema,
            fills=self.mode != "upsert",
            before_creation=lambda: landing.require_new(self.number, mode),
        )
        if self.mode == "upsert":
            creation.require_keys(schema, snapshot.schema, self.keys)
        if sink.may_be_replay(self.run) and landing.has_landed(self.number, mode):
            _log.info("Epoch %d of query %r has landed before.", self.number, self.settings.rules.query_id)
            # Its rows are not wanted, but what aggregations and joins remember of them is: Spark notes that only if
            # the epoch is run.
            df.write.format("noop").mode("overwrite").save()
            return Landed(self.number, was_skipped=True, seconds_writing=time.monotonic() - started)
        if self.mode == "upsert":
            return self._upsert(sink, snapshot, df, started)
        return self._write(sink, df, started, replaces=self.mode == "complete")

    def _write(self, sink: Sink, df: Any, started: float, *, replaces: bool) -> Landed:
        messages = _run_tasks(df, _write(self.settings, replaces))
        try:
            return self._commit(sink, Result(messages) if replaces else Rows(messages), started)
        except HeadraceError:
            sink.discard(messages, self.number)
            raise

    def _upsert(self, sink: Sink, snapshot: LanceSnapshot, df: Any, started: float) -> Landed:
        location = self.settings.location
        staging = upsert.staging_for(snapshot, location, self.settings.rules.query_id)
        try:
            # One task sees all rows of a key, and can tell whether it is there twice.
            rows = df.repartition(*(df[f"`{key}`"] for key in self.keys))
            messages = _run_tasks(rows, _stage(self.settings, staging, self.keys))
            staged = upsert.staged_rows(messages, snapshot.schema, staging, location, self.keys)
            return self._commit(sink, staged, started)
        finally:
            upsert.remove_staging(staging)

    def _commit(self, sink: Sink, payload: Payload, started: float) -> Landed:
        written = time.monotonic()
        outcome = sink.land(self.number, self.run, payload)
        return Landed(
            self.number,
            outcome.version,
            outcome.was_skipped,
            payload.rows,
            None if payload.files is None else len(payload.files),
            written - started,
            time.monotonic() - written,
        )


def _run_tasks(df: Any, tasks: Tasks) -> list[TaskMessage]:
    """Let executors write, and collect what they report; no row comes back."""
    with warnings.catch_warnings():
        # mapInArrow looks for pandas, which it does not use, and warns about its version.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        try:
            reports = df.mapInArrow(tasks, "message string")
        except ImportError as error:
            raise MissingExtraError(
                "LanceSink needs pandas: Spark's mapInArrow asks for it.",
                hint="install it with: pip install 'headrace[spark]'",
            ) from error
    return [TaskMessage.from_json(row[0]) for row in reports.collect()]


def _write(settings: SinkSettings, replaces: bool) -> Tasks:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield _report(
            write_rows(batches, settings.location, current_task(), settings=settings.files, replacing=replaces)
        )

    return write


def _stage(settings: SinkSettings, staging: Location, keys: tuple[str, ...]) -> Tasks:
    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield _report(write_staged(batches, settings.location, staging, current_task(), keys))

    return stage


def _report(message: TaskMessage) -> pa.RecordBatch:
    return pa.record_batch([pa.array([message.to_json()])], names=["message"])
