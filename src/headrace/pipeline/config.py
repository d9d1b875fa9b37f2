"""What a pipeline file says: its sections and keys, as values. Imports neither Spark nor Lance."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from headrace.pipeline.spelling import PipelineSpelling
from headrace.tables.location import Location
from headrace.tables.settings import SinkSettings
from headrace.tables.sink_settings import location_of, stream_settings
from headrace.tables.spelling import Spelling


class _Redacted:
    """A repr that shows the names of options, but not their values, which may be secret."""

    def __repr__(self) -> str:
        shown = {
            name: sorted(value) if isinstance(value, dict) else value
            for name, value in ((each, getattr(self, each)) for each in self.__struct_fields__)
        }
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    __struct_fields__: tuple[str, ...]


class Source(_Redacted, msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The source: any streaming source of Spark.

    Attributes:
        format: The source's format, such as ``json``, ``rate``, ``lance`` or ``kafka``.
        path: The path, for formats that have one.
        schema: The columns, as in CREATE TABLE; file formats need it.
        options: The source's options.
    """

    format: str
    path: str | None = None
    schema: str | None = None
    options: dict[str, Any] = {}


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A query over ``source`` or an earlier step.

    Attributes:
        sql: The query, in Spark SQL.
        name: The name by which later steps refer to it.
    """

    sql: str
    name: str | None = None


class TableConfig(_Redacted, msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The table that rows land in: the settings of `LanceSink`. None is the sink's default.

    Attributes:
        uri: The Lance table; None if it is in a namespace.
        namespace: The kind of a Lance namespace, such as ``dir`` or ``rest``.
        namespace_options: The namespace's settings.
        table_id: The table's name in the namespace, as ``sales.orders`` or in parts.
        mode: Whether rows are appended, replace all rows, or are merged by key.
        keys: The key columns, for ``upsert``.
        create: Whether to create the table if it does not exist.
        merge_schema: Whether to add columns that the table does not have.
        columns: The types of columns that the sink creates, such as ``vector(128)``, by their names.
        on_table_replaced: Whether to fail or continue if the table no longer contains the epochs that landed in it.
        on_checkpoint_reset: Whether to fail or continue if the checkpoint is new and the name is not.
        on_history_gap: Whether to warn or fail if cleanup removed versions that matter.
        lookback_versions: The most versions of other writers that one commit reads, in the steady state.
        max_rows_per_file: The most rows in a data file.
        max_bytes_per_file: Bytes after which a new data file begins.
        data_storage_version: Lance's file format version for a new table.
        compact_every_epochs: Compact every this many epochs.
        compact_above_fragments: Compact when there are more small fragments than this.
        retain_versions: After compacting, keep this many versions.
        storage: Storage options of the object store.
    """

    uri: str | None = None
    namespace: str | None = None
    namespace_options: dict[str, Any] = {}
    table_id: str | tuple[str, ...] | None = None
    mode: Literal["append", "complete", "update", "upsert"] = "append"
    keys: tuple[str, ...] = ()
    create: bool = False
    merge_schema: bool = False
    columns: dict[str, Any] = {}
    on_table_replaced: str | None = None
    on_checkpoint_reset: str | None = None
    on_history_gap: str | None = None
    lookback_versions: int | None = None
    max_rows_per_file: int | None = None
    max_bytes_per_file: int | None = None
    data_storage_version: str | None = None
    compact_every_epochs: int | None = None
    compact_above_fragments: int | None = None
    retain_versions: int | None = None
    storage: dict[str, Any] = {}

    @property
    def location(self) -> Location:
        """The table's address, with its storage options."""
        return location_of(self.arguments(), PipelineSpelling())

    @property
    def label(self) -> str:
        """The table's name for people: its URI, or its name in the namespace."""
        return str(self.location)

    def arguments(self) -> dict[str, Any]:
        """Return the settings under the names of `LanceSink`'s arguments, without mode and keys."""
        given = {name: getattr(self, name) for name in self.__struct_fields__ if name not in ("mode", "keys")}
        given["create_table"] = given.pop("create")
        given["column_types"] = given.pop("columns")
        given["storage_options"] = _texts(given.pop("storage"))
        given["namespace_options"] = _texts(given["namespace_options"])
        return given


def _texts(options: dict[str, Any]) -> dict[str, str]:
    """Return options as text, as Lance takes them."""
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}


class Spark(_Redacted, msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The Spark session.

    Attributes:
        master: The master URL; ``local[*]`` runs Spark on this machine.
        conf: Configuration of the session.
    """

    master: str = "local[*]"
    conf: dict[str, Any] = {}


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What `headrace run` does when the query fails.

    Attributes:
        restart: Whether to restart the query after an error that may pass, such as an outage of the store; None
            restarts it with ``--follow`` only. Other errors end the run.
        max_restarts: How many restarts in a row may fail before the run does; None for no limit. An epoch that lands
            starts the count again, and so does a query that waits for rows.
        max_pause: The longest pause before a restart. The first is one second, and each further one twice as long.
        stuck_after: How long an epoch may do nothing before ``/healthz`` reports the query as stuck.
    """

    restart: Literal["on-failure", "never"] | None = None
    max_restarts: int | None = None
    max_pause: str = "1 minute"
    stuck_after: str = "10 minutes"


class Pipeline(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A pipeline file.

    Attributes:
        name: The query's key in the table's transaction log; it must not change.
        source: The source.
        table: The table.
        step: The queries between them, in this order.
        checkpoint: The checkpoint location of the Spark query.
        trigger: With ``--follow``, the trigger interval, such as ``10 seconds``; None starts each epoch as soon as
            the one before is done.
        spark: The Spark session.
        run: What happens when the query fails.
    """

    name: str
    source: Source
    table: TableConfig
    step: tuple[Step, ...] = ()
    checkpoint: str = ""
    trigger: str | None = None
    spark: Spark = Spark()
    run: Run = Run()

    def sink_settings(self, spelling: Spelling | None = None) -> SinkSettings:
        """Return the settings of the sink, checked.

        Args:
            spelling: How errors and hints name the keys; by default, without the line of the file.

        Raises:
            ConfigurationError: A key of the table, or the name, is missing or wrong.
        """
        return stream_settings({"query_id": self.name, **self.table.arguments()}, spelling or PipelineSpelling())
