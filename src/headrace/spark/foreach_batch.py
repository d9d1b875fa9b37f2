"""The sink for ``foreachBatch``: every mode, on every Spark since 3.5.

Executors write an epoch's rows to files, and the driver commits these files. Lance is imported with the first epoch: it
warns when a process that has loaded it forks, and a program that starts Spark afterwards does fork.
"""

from __future__ import annotations

import logging
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.errors import HeadraceError, InvalidArgumentError, MissingExtraError
from headrace.spark.collector import spare_modules
from headrace.spark.registration import require_pyspark
from headrace.spark.schema import arrow_schema
from headrace.spark.task import current_task, run_of
from headrace.tables.commit.landed import Landed
from headrace.tables.commit.ledger import QueryRun
from headrace.tables.commit.message import TaskMessage
from headrace.tables.commit.payload import AppendPayload, OverwritePayload, Payload
from headrace.tables.location import Location
from headrace.tables.settings import SinkSettings
from headrace.tables.sink_settings import stream_settings
from headrace.tables.spelling import PythonSpelling, Words

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.tables.lance_store import LanceSnapshot
    from headrace.tables.sink import EpochSink

_log = logging.getLogger("headrace.spark")
_MODES = ("append", "complete", "update", "upsert")
# What a mode is stamped as, where that is not its name: update appends.
_STAMPED = {"update": AppendPayload.mode}
Tasks = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class LanceSink:
    """Lands the epochs of a streaming query: ``df.writeStream.foreachBatch(LanceSink(...))``.

    Args:
        uri: The table; leave it out if a namespace is given.
        query_id: The key by which landed epochs are recognised; no other query on the table may have it.
        mode: ``append`` adds the rows. ``complete`` replaces all rows of the table. ``update`` adds the rows too: an
            earlier result stays beside the row that changes it. ``upsert`` replaces the rows with the same keys and
            adds the others; it needs every column, and each key at most once in an epoch.
        keys: The key columns, for ``upsert``.
        storage_options: Credentials and settings of the object store.
        create_table: Whether to create a missing table.
        merge_schema: Whether to add columns that the table does not have.
        column_types: The types of columns that the sink creates and Spark has no type for, by their names:
            ``{"embedding": "vector(128)"}``, or ``"vector(128, float16)"``.
        lookback_versions: The most versions of other writers that a commit reads, in the steady state.
        on_history_gap: ``warn`` or ``fail``, when history that matters was removed.
        on_checkpoint_reset: ``fail``, or ``accept`` a new checkpoint under the same key.
        on_table_replaced: ``fail``, or ``accept`` a table that no longer has the epochs that landed in it.
        max_rows_per_file: The most rows in a data file.
        max_bytes_per_file: Bytes after which a new data file begins.
        data_storage_version: Lance's file format version for a new table.
        namespace: The kind of a Lance namespace, such as ``dir`` or ``rest``, instead of a URI.
        namespace_options: Its settings.
        table_id: The table's name in it, as ``sales.orders`` or in parts.
        compact_every_epochs: The number of epochs after which small files are compacted.
        compact_above_fragments: The number of small fragments above which they are compacted.
        retain_versions: The number of versions to keep after a compaction.

    Raises:
        ConfigurationError: An argument is missing or wrong; the message names it and what is allowed.
        InvalidArgumentError: The mode is unknown, or it and the keys do not go together.

    Example:
        >>> import headrace.spark
        >>> orders = spark.readStream.schema("id long, total double").json(str(folder))
        >>> sink = headrace.spark.LanceSink(
        ...     folder / "orders.lance", query_id="orders-v1", mode="upsert", keys="id", create_table=True
        ... )
        >>> writer = orders.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / "checkpoint"))
        >>> writer.trigger(availableNow=True).start().awaitTermination()
    """

    def __init__(
        self,
        uri: str | Path | None = None,
        *,
        query_id: str,
        mode: str = "append",
        keys: Sequence[str] | str | None = None,
        storage_options: Mapping[str, str] | None = None,
        create_table: bool = False,
        merge_schema: bool = False,
        column_types: Mapping[str, str] | None = None,
        lookback_versions: int | None = None,
        on_history_gap: str | None = None,
        on_checkpoint_reset: str | None = None,
        on_table_replaced: str | None = None,
        max_rows_per_file: int | None = None,
        max_bytes_per_file: int | None = None,
        data_storage_version: str | None = None,
        namespace: str | None = None,
        namespace_options: Mapping[str, str] | None = None,
        table_id: Sequence[str] | str | None = None,
        compact_every_epochs: int | None = None,
        compact_above_fragments: int | None = None,
        retain_versions: int | None = None,
    ) -> None:
        given = {
            "uri": str(uri) if isinstance(uri, Path) else uri,
            "query_id": query_id,
            "storage_options": storage_options,
            "create_table": create_table,
            "merge_schema": merge_schema,
            "column_types": column_types,
            "lookback_versions": lookback_versions,
            "on_history_gap": on_history_gap,
            "on_checkpoint_reset": on_checkpoint_reset,
            "on_table_replaced": on_table_replaced,
            "max_rows_per_file": max_rows_per_file,
            "max_bytes_per_file": max_bytes_per_file,
            "data_storage_version": data_storage_version,
            "namespace": namespace,
            "namespace_options": namespace_options,
            "table_id": table_id,
            "compact_every_epochs": compact_every_epochs,
            "compact_above_fragments": compact_above_fragments,
            "retain_versions": retain_versions,
        }
        self._begin(stream_settings(given, PythonSpelling()), mode, keys)

    @classmethod
    def from_settings(
        cls, settings: SinkSettings, *, mode: str = "append", keys: Sequence[str] | str | None = None
    ) -> LanceSink:
        """Return a sink with settings that were checked elsewhere, and with their words in its hints.

        Args:
            settings: The settings.
            mode: As for the class.
            keys: As for the class.

        Raises:
            InvalidArgumentError: The mode is unknown, or it and the keys do not go together.
        """
        sink = cls.__new__(cls)
        sink._begin(settings, mode, keys)
        return sink

    def _begin(self, settings: SinkSettings, mode: str, keys: Sequence[str] | str | None) -> None:
        if mode not in _MODES:
            raise InvalidArgumentError(f"mode is {mode!r}; it must be one of {', '.join(_MODES)}.")
        self._keys = (keys,) if isinstance(keys, str) else tuple(keys or ())
        if (mode == "upsert") != bool(self._keys) or not all(isinstance(key, str) and key for key in self._keys):
            raise InvalidArgumentError(
                "mode upsert needs keys, and no other mode takes any.", hint='as in mode="upsert", keys=["id"].'
            )
        self._settings = settings
        self._mode = mode
        self._run_id = uuid.uuid4().hex

    def __repr__(self) -> str:
        table, query_id = str(self._settings.location), self._settings.rules.query_id
        return f"LanceSink({table!r}, query_id={query_id!r}, mode={self._mode!r})"

    def __call__(self, df: DataFrame, epoch_id: int) -> None:
        """Land one epoch.

        Runs on: the driver. Called: by Spark for each epoch, and again after a restart if Spark had not noted that
        it returned; then it does nothing. On failure: the query stops, and a restart is safe.

        Args:
            df: The epoch's rows.
            epoch_id: The epoch.

        Raises:
            SchemaMismatchError, LandingError: It was not landed, and why.
            StorageError: The table cannot be read or written.
        """
        self.land(df, epoch_id)

    def land(self, df: DataFrame, epoch_id: int) -> Landed:
        """Land one epoch, as a call does, and return the result.

        Args:
            df: The epoch's rows.
            epoch_id: The epoch.

        Returns:
            The version with its rows, whether it had landed before, its rows and files, and how long it took.

        Raises:
            SchemaMismatchError, LandingError: It was not landed, and why.
            StorageError: The table cannot be read or written.

        Example:
            >>> import headrace.spark
            >>> sink = headrace.spark.LanceSink(folder / "numbers.lance", query_id="numbers", create_table=True)
            >>> sink.land(spark.range(3), 0).rows
            3
            >>> sink.land(spark.range(3), 0).was_skipped
            True
        """
        require_pyspark((3, 5))
        return _Epoch(self._settings, self._mode, self._keys, self._run(df), epoch_id).land(df)

    def _run(self, df: DataFrame) -> QueryRun:
        """Return Spark's run; where it is not known (a direct call, Spark Connect), this object is the run."""
        try:
            found = run_of(df.sparkSession.sparkContext)
        except Exception:  # noqa: BLE001 - each kind of session refuses in its own way
            found = None
        return found or QueryRun(self._run_id)


@dataclass(frozen=True, slots=True)
class _Epoch:
    """One epoch that lands in the table.

    Attributes:
        settings: The sink's settings.
        mode: ``append``, ``complete``, ``update`` or ``upsert``.
        keys: The key columns, for ``upsert``.
        run: The run it belongs to.
        number: The epoch.
    """

    settings: SinkSettings
    mode: str
    keys: tuple[str, ...]
    run: QueryRun
    number: int

    def land(self, df: DataFrame) -> Landed:
        """Land the epoch's rows, unless they have landed before."""
        from headrace.tables.sink import EpochSink
        from headrace.tables.write import create

        started = time.monotonic()
        sink = EpochSink(self.settings)
        schema = arrow_schema(df.schema)
        committer, mode = sink.committer(self.run), _STAMPED.get(self.mode, self.mode)
        snapshot = sink.prepare(
            schema,
            fills=self.mode != "upsert",
            before_creation=lambda: committer.require_new(self.number, mode),
        )
        if self.mode == "upsert":
            create.require_keys(schema, snapshot.schema, self.keys)
        if committer.may_be_replay() and committer.has_landed(self.number, mode):
            _log.info("Epoch %d of query %r has landed before.", self.number, self.settings.rules.query_id)
            # The epoch must run although its rows are not needed: Spark saves the state of aggregations and joins
            # only then.
            df.write.format("noop").mode("overwrite").save()
            return Landed(self.number, was_skipped=True, seconds_writing=time.monotonic() - started)
        if self.mode == "upsert":
            return self._upsert(sink, snapshot, df, started)
        return self._write(sink, df, started, replaces=self.mode == "complete")

    def _write(self, sink: EpochSink, df: DataFrame, started: float, *, replaces: bool) -> Landed:
        messages = _run_tasks(df, _write(self.settings, replaces))
        try:
            return self._commit(sink, OverwritePayload(messages) if replaces else AppendPayload(messages), started)
        except HeadraceError:
            sink.discard(messages, self.number)
            raise

    def _upsert(self, sink: EpochSink, snapshot: LanceSnapshot, df: DataFrame, started: float) -> Landed:
        from headrace.tables.write import upsert

        location = self.settings.location
        staging = upsert.staging_for(snapshot, location, self.settings.rules.query_id)
        try:
            # One task gets all rows of a key, and can find duplicates.
            rows = df.repartition(*(df[f"`{key}`"] for key in self.keys))
            messages = _run_tasks(rows, _stage(self.settings, staging, self.keys))
            staged = upsert.staged_rows(messages, snapshot.schema, staging, location, self.keys)
            return self._commit(sink, staged, started)
        finally:
            upsert.remove_staging(staging)

    def _commit(self, sink: EpochSink, payload: Payload, started: float) -> Landed:
        written = time.monotonic()
        landed = sink.land(self.number, self.run, payload)
        return replace(landed, seconds_writing=written - started, seconds_committing=time.monotonic() - written)


def _run_tasks(df: DataFrame, tasks: Tasks) -> list[TaskMessage]:
    """Let executors write the rows, and collect their reports; no row is sent to the driver."""
    with warnings.catch_warnings():
        # mapInArrow imports pandas without using it, and warns about its version.
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
        from headrace.tables.write.data_files import write_rows

        spare_modules()
        words = settings.rules.words
        message = write_rows(
            batches, settings.location, current_task(), settings=settings.files, replacing=replaces, words=words
        )
        yield _report(message, words)

    return write


def _stage(settings: SinkSettings, staging: Location, keys: tuple[str, ...]) -> Tasks:
    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from headrace.tables.write.data_files import write_staged

        spare_modules()
        words = settings.rules.words
        message = write_staged(batches, settings.location, staging, current_task(), keys, words=words)
        yield _report(message, words)

    return stage


def _report(message: TaskMessage, words: Words) -> pa.RecordBatch:
    return pa.record_batch([pa.array([message.to_json(words)])], names=["message"])
