"""The readers that Spark calls: the driver plans splits, tasks read them. `headrace.tables` does the work.

Lance is imported on first use: one of the processes in which Spark starts a stream only makes the reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from headrace.errors import ConfigurationError, HeadraceError
from headrace.spark.filters import Pushed, conditions
from headrace.spark.schema import arrow_schema, spark_schema
from headrace.tables.read.offset import Offset
from headrace.tables.read.shape import FEED_FIELDS
from headrace.tables.read.splits import Split, plan_tasks
from headrace.tables.settings import NO_LIMIT, Limit, ReadSettings

if TYPE_CHECKING:
    from headrace.tables.read.feed import Feed

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # Before 4.2, a trigger always reads everything.
    HAS_LIMITS = False

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Replaces the missing class, so that the reader can be defined."""
else:
    HAS_LIMITS = True


@dataclass
class Part(InputPartition):
    """The splits that one task reads."""

    splits: tuple[Split, ...]


def schema_of(settings: ReadSettings) -> Any:
    """Return the Spark schema of a read.

    Raises:
        TableNotFoundError: The table does not exist.
        ConfigurationError: There is no such version or column.
        SchemaMismatchError: Spark has no type for a column.
    """
    from headrace.tables.read.scan import open_for, table_schema

    snapshot = open_for(settings)
    fields = list(table_schema(snapshot, settings.columns))
    return spark_schema(pa.schema([*fields, *(FEED_FIELDS if settings.feed.with_updates else ())]))


class LanceBatchReader(DataSourceReader):
    """Reads one version of a table."""

    def __init__(self, settings: ReadSettings, schema: Any) -> None:
        self._settings = settings
        self._schema = arrow_schema(schema)
        self._conditions = [f"({settings.filter})"] if settings.filter else []

    def partitions(self) -> list[InputPartition]:
        """Plan the table's fragments as tasks.

        Runs on: the driver. Called: once per scan. On failure: the query fails.
        """
        from headrace.tables.read.scan import open_for, require_fit, whole_table

        snapshot = open_for(self._settings)
        require_fit(self._schema, snapshot.schema, str(self._settings.location))
        return _parts(whole_table(snapshot, is_filtered=bool(self._conditions)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's splits.

        Runs on: an executor. Called: once per attempt of a task. On failure: Spark retries the task.
        """
        from headrace.tables.read.scan import read

        if not isinstance(partition, Part):  # For a table without rows, Spark makes up one partition.
            return iter(())
        return read(partition.splits, self._settings.location, self._schema, condition=" AND ".join(self._conditions))


class FilteringBatchReader(LanceBatchReader):
    """A batch reader that accepts Spark's filters; Spark rejects it unless filter pushdown is enabled."""

    def pushFilters(self, filters: Sequence[Pushed]) -> Iterator[Pushed]:
        """Push the filters that Lance can evaluate into the scan. Spark still evaluates all of them on every row.

        Runs on: the driver. Called: once per scan, before `partitions`. On failure: the query fails.
        """
        for pushed in filters:
            self._conditions += conditions(pushed, self._schema)
            yield pushed


class LanceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the rows that are added to a table."""

    def __init__(self, settings: ReadSettings, schema: Any) -> None:
        self._settings = settings
        self._schema = arrow_schema(schema)
        self._last: int | None = None
        if settings.feed.limit != NO_LIMIT and not HAS_LIMITS:
            raise ConfigurationError(
                "Limits per trigger need Spark 4.2 or newer.", hint="remove the max...PerTrigger options."
            )

    @cached_property
    def _feed(self) -> Feed:
        from headrace.tables.lance_store import LanceStore
        from headrace.tables.read.feed import Feed
        from headrace.tables.read.scan import require_fit

        store = LanceStore(self._settings.location)
        snapshot = store.open()
        rules = self._settings.feed
        if rules.with_updates and not snapshot.dataset.has_stable_row_ids:
            raise ConfigurationError(
                f"readChangeFeed needs a table with stable row ids, but {self._settings.location} has none.",
                hint="create the table with enable_stable_row_ids=True.",
            )
        wanted = self._schema if not rules.with_updates else pa.schema(list(self._schema)[: -len(FEED_FIELDS)])
        require_fit(wanted, snapshot.schema, str(self._settings.location))
        return Feed(store, rules)

    @cached_property
    def _beginning(self) -> Offset:
        return self._feed.begin()

    @property
    def _origin(self) -> str:
        try:
            return self._beginning.origin
        except HeadraceError:  # Only a new query needs it, and `initialOffset` raises there.
            return ""

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset at which a query without a checkpoint starts.

        Runs on: the driver. Called: each time the first epoch is run. On failure: the query stops.
        """
        return self._beginning.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return whether there is a limit, so that Spark passes `ReadAllAvailable` when it must be ignored.

        Runs on: the driver. Called: for each trigger. On failure: it never fails.
        """
        limit = self._settings.feed.limit
        return ReadAllAvailable() if limit == NO_LIMIT else ReadMaxFiles(limit.files or 1)

    def latestOffset(self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:
        """Return the offset up to which the next trigger reads.

        Runs on: the driver. Called: for each trigger. On failure: the query stops.
        """
        if start is None:  # Spark before 4.2 does not pass it.
            newest = self._feed.newest()
            return Offset(newest + 1, 0, False, self._feed.transaction(newest), self._origin).to_json()
        most = Limit() if isinstance(limit, ReadAllAvailable) else self._settings.feed.limit
        return self._feed.advance(Offset.from_json(start), most, self._last).to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the version at which an AvailableNow query ends.

        Runs on: the driver. Called: once, when such a query starts. On failure: the query stops.
        """
        self._last = self._feed.newest()

    def reportLatestOffset(self) -> dict[str, Any]:
        """Return the table's end, from which the query's progress reports the lag.

        Runs on: the driver. Called: after each trigger. On failure: the query stops.
        """
        return Offset(self._feed.newest() + 1).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plan the rows between two offsets as tasks.

        Runs on: the driver. Called: for each trigger that has rows to read, and again after a restart if Spark had
        not committed the epoch. On failure: the query stops.
        """
        return _parts(self._feed.splits(Offset.from_json(start), Offset.from_json(end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's splits.

        Runs on: an executor. Called: once per attempt of a task. On failure: Spark retries the task.
        """
        from headrace.tables.read.scan import read

        assert isinstance(partition, Part)
        return read(
            partition.splits,
            self._settings.location,
            self._schema,
            with_changes=self._settings.feed.with_updates,
        )


def _parts(splits: Sequence[Split]) -> list[InputPartition]:
    return [Part(tuple(group)) for group in plan_tasks(splits)]
