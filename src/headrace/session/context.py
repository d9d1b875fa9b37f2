"""The session: tables by name, queries over them, and one close for everything."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from headrace.arrow.schema import require_schema
from headrace.channel.channel import Channel
from headrace.engine.names import TableName, parse_table_name, quoted
from headrace.engine.runner import QueryRunner
from headrace.engine.runtime import workers
from headrace.engine.settings import parse_settings
from headrace.engine.shutdown import close_at_exit
from headrace.engine.tables import PullTable, PushTable
from headrace.errors import InvalidArgumentError, PlanError, TableExistsError
from headrace.session.dataframe import DataFrame
from headrace.session.provider import TableProvider
from headrace.session.sink import TableSink


class SessionContext:
    """An embedded SQL engine over tables that are pulled, pushed, or read from Lance and files.

    Any thread may use it. Leaving it as a context manager, or ``close``, ends every running query and tells
    every producer.

    Args:
        target_partitions: How many partitions the engine works in; by default one a core.
        batch_size: The most rows in a batch of the engine; by default 8192, while tables of Python hand it up
            to 65536 at a time.
        memory_limit: The most memory that sorts, joins and aggregates may take: bytes, or ``"512MB"``,
            ``"2GiB"``. What is over it spills to disk, where it can.
        spill: Where to spill: True for the system's temporary folder, a folder, or False for nowhere.
        low_latency: Hand each row on as soon as it comes, in queries that look at one row at a time
            (projections, filters, UNION ALL, LIMIT). Without it, operators gather up to ``batch_size`` rows.
        config: Settings of DataFusion by their full names, such as ``datafusion.optimizer.max_passes``.

    Raises:
        ConfigurationError: A setting is unknown or has a value it cannot have.
        ForkedError: The engine was used before this process was forked off.
    """

    def __init__(
        self,
        *,
        target_partitions: int | None = None,
        batch_size: int | None = None,
        memory_limit: int | str | None = None,
        spill: bool | str | Path = True,
        low_latency: bool = False,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        workers.require_same_process()
        settings = parse_settings(
            target_partitions=target_partitions,
            batch_size=batch_size,
            memory_limit=memory_limit,
            spill=spill,
            low_latency=low_latency,
            config=config,
        )
        # The engine takes a second to import where pandas is installed: not before it is needed.
        from headrace.engine.engine import Engine

        self._engine = Engine(settings)
        self._runner = QueryRunner(self._engine)
        self._lock = threading.RLock()
        self._push_tables: dict[TableName, PushTable] = {}
        close_at_exit(self)

    # -- tables -------------------------------------------------------------------------------------

    def register_table(self, name: str, provider: TableProvider) -> None:
        """Register a table implemented in Python.

        Args:
            name: What queries call it, read as SQL: ``T1`` is ``t1``, ``"T1"`` keeps its case, ``sales.orders`` is in
                schema ``sales``; text that is no SQL name, such as ``my table``, is one name to the letter.
            provider: A ``TableProvider``, or any object with its ``schema()`` and ``scan()``.

        Raises:
            InvalidArgumentError: The name is empty, ``provider`` is no provider, or its schema is no schema.
            TableExistsError: The name is taken.
            ClosedError: The session is closed.
            Exception: Whatever ``schema()`` raises; the table then does not exist.
        """
        table = self._require_name(name)
        name = str(table)
        if isinstance(provider, type):
            raise InvalidArgumentError(
                f"Table {name!r}: {provider.__qualname__} is a class, and a provider is an object of one.",
                hint=f"pass {provider.__qualname__}(...).",
            )
        if not callable(getattr(provider, "schema", None)) or not callable(getattr(provider, "scan", None)):
            raise InvalidArgumentError(
                f"Table {name!r}: a provider has the methods schema() and scan(), and a "
                f"{type(provider).__qualname__} has not both.",
                hint="subclass TableProvider or use SimpleTableProvider; for data in memory, register_arrow.",
            )
        with self._lock:
            self._require_free(table)
            schema = require_schema(provider.schema(), f"What schema() of table {name!r} returned")
            wants_hints = getattr(type(provider), "scan_with", TableProvider.scan_with) is not TableProvider.scan_with
            self._engine.add_table(table, PullTable(name, schema, provider), wants_hints=wants_hints)

    def register_streaming_table(
        self, name: str, schema: pa.Schema, capacity: int = 64, *, max_bytes: int | None = None
    ) -> TableSink:
        """Register a table that producers write to while a query reads it.

        **It can be scanned once.** Batches are handed on as they come and kept nowhere, so a second query,
        a self-join or a UNION ALL of the table with itself is an error. EXPLAIN does not count.

        Args:
            name: What the query calls it.
            schema: The schema of every batch.
            capacity: The most batches that wait for the query; a writer then waits too. What the query has
                taken and is working on comes on top: a few MiB, or one batch where that is larger.
            max_bytes: The most bytes that wait, beside ``capacity``; one larger batch may wait alone.

        Returns:
            The sink to write to.

        Raises:
            InvalidArgumentError: The name is empty, ``schema`` is no schema or has no column, or ``capacity``
                or ``max_bytes`` is not a whole number of at least 1.
            TableExistsError: The name is taken.
            ClosedError: The session is closed.
        """
        table_name = self._require_name(name)
        name = str(table_name)
        schema = require_schema(schema, f"The schema of streaming table {name!r}")
        channel = Channel(f"streaming table {name!r}", capacity, max_bytes)
        with self._lock:
            self._require_free(table_name)
            table = PushTable(name, schema, channel)
            self._engine.add_table(
                table_name, table, wants_hints=False, when_gone=lambda: table.fail("the table was dropped")
            )
            self._push_tables[self._engine.resolved(table_name)] = table
        return TableSink(name, schema, channel)

    def register_lance(
        self,
        name: str,
        uri: str | Path,
        *,
        storage_options: Mapping[str, str] | None = None,
        version: int | str | None = None,
    ) -> None:
        """Register a Lance table; filters and projections are taken down into its scan.

        Args:
            name: What queries call it.
            uri: Where it is: a folder or an object store's URL.
            storage_options: Credentials and settings of the object store; they appear in no message.
            version: A version number or a tag; by default the latest, as of now.

        Raises:
            StorageError: There is no such table or version.
            TableExistsError: The name is taken.
        """
        from headrace.session.sources import lance_table, require_location

        table = self._require_name(name)
        require_location(str(table), uri)
        with self._lock:
            self._require_free(table)
            self._engine.add_native(table, lance_table(str(table), str(uri), storage_options, version))

    def register_history(self, name: str, uri: str | Path, *, storage_options: Mapping[str, str] | None = None) -> None:
        """Register the history of a Lance table: what each version did, by which query, epoch and run.

        Args:
            name: What queries call it.
            uri: Where the Lance table is.
            storage_options: Credentials and settings of the object store; they appear in no message.

        Raises:
            TableNotFoundError: There is no Lance table.
            TableExistsError: The name is taken.
        """
        from headrace.session.history_table import TableHistory
        from headrace.session.sources import require_storage_options

        options = require_storage_options(str(self._require_name(name)), storage_options)
        self.register_table(name, TableHistory(str(uri), options))

    def register_parquet(
        self, name: str, path: str | Path, *, schema: pa.Schema | None = None, file_extension: str | None = None
    ) -> None:
        """Register a parquet file, or a folder of them.

        Raises:
            StorageError: The path does not exist or cannot be read.
            TableExistsError: The name is taken.
        """
        self._register_file(name, path, "register_parquet", {"schema": schema, "file_extension": file_extension})

    def register_csv(
        self,
        name: str,
        path: str | Path,
        *,
        schema: pa.Schema | None = None,
        has_header: bool = True,
        delimiter: str = ",",
        file_extension: str | None = None,
    ) -> None:
        """Register a CSV file, or a folder of them; without ``schema`` the types are inferred.

        Raises:
            StorageError: The path does not exist or cannot be read.
            TableExistsError: The name is taken.
        """
        options = {
            "schema": schema,
            "has_header": has_header,
            "delimiter": delimiter,
            "file_extension": file_extension,
        }
        self._register_file(name, path, "register_csv", options)

    def register_json(
        self, name: str, path: str | Path, *, schema: pa.Schema | None = None, file_extension: str | None = None
    ) -> None:
        """Register a file of one JSON object a line, or a folder of them; without ``schema`` types are inferred.

        Raises:
            StorageError: The path does not exist or cannot be read.
            TableExistsError: The name is taken.
        """
        self._register_file(name, path, "register_json", {"schema": schema, "file_extension": file_extension})

    def register_arrow(self, name: str, data: Any) -> None:
        """Register Arrow data that can be scanned any number of times.

        Args:
            name: What queries call it.
            data: A Table, a RecordBatch, a pyarrow Dataset, anything that gives a new ``__arrow_c_stream__``
                each time (Polars and pandas frames, for instance), or the path of an Arrow IPC file.

        Raises:
            InvalidArgumentError: It is none of these, or a reader, which can be read only once.
            TableExistsError: The name is taken.
        """
        from headrace.session import sources

        if isinstance(data, (str, Path)):
            self._register_file(name, data, "register_arrow", {})
        elif isinstance(data, (pa.Table, pa.RecordBatch)):
            table = self._require_name(name)
            require_schema(data.schema, f"The schema of table {str(table)!r}")
            with self._lock:
                self._require_free(table)
                self._engine.add_native(table, sources.memory_table(data))
        elif _is_dataset(data):
            self.register_table(name, sources.ArrowDataset(data))
        else:
            self.register_table(name, sources.ArrowData(str(self._require_name(name)), data))

    def table_exists(self, name: str) -> bool:
        """Whether a table of this name is registered."""
        try:
            return self._engine.has_table(self._require_name(name))
        except PlanError:  # There is no such schema.
            return False

    def deregister_table(self, name: str) -> None:
        """Make a name unknown to later queries; queries that run finish.

        A push table ends with it unless it was closed before: its writers get a ConsumerGoneError, and a query
        that reads it gets an error after what is queued, since the stream is not whole.

        Raises:
            PlanError: There is no such table.
        """
        table_name = self._require_name(name)
        with self._lock:
            if not self.table_exists(name):
                raise PlanError(f"There is no table {str(table_name)!r} to deregister.")
            table = self._push_tables.pop(self._engine.resolved(table_name), None)
            if table is not None:
                table.fail("the table was deregistered")
            self._engine.remove_table(table_name)

    # -- queries ------------------------------------------------------------------------------------

    def sql(
        self, query: str, parameters: Mapping[str, Any] | Sequence[Any] | None = None, *, read_only: bool = False
    ) -> DataFrame:
        """Plan a query.

        Args:
            query: SQL text. DDL (CREATE TABLE, CREATE VIEW, DROP) takes effect in this call.
            parameters: Values for ``$name`` placeholders as a mapping, or for ``$1``, ``$2`` as a sequence.
                Values are bound, never pasted into the text.
            read_only: Refuse DDL, DML and statements; for SQL that comes from outside.

        Raises:
            PlanError: The SQL is wrong, or names a table or column that is not there.
            ClosedError: The session is closed.
        """
        self._runner.require_open()
        if not isinstance(query, str) or not query.strip():
            raise InvalidArgumentError(f"The query must be SQL text, not {query!r}.")
        bound = _bind(parameters)
        execution = self._runner.execution(None)
        try:
            planned = self._engine.sql(query, bound, read_only=read_only, execution=execution)
        except PlanError:
            # A session that was closed just now has no tables any more.
            self._runner.require_open()
            raise
        finally:
            execution.release_claims()
        return DataFrame(self._runner, planned)

    def table(self, name: str) -> DataFrame:
        """A frame over all of one table.

        Raises:
            PlanError: There is no such table.
        """
        return DataFrame(self._runner, self._engine.table(self._require_name(name)))

    # -- lifecycle ----------------------------------------------------------------------------------

    def close(self) -> None:
        """End every running query, tell every producer, and refuse everything from now on; idempotent."""
        workers.require_same_process()
        self._close("the session was closed")
        self._engine.remove_all_tables()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not workers.forked:
            self.close()

    def __repr__(self) -> str:
        return f"<headrace.SessionContext {'closed' if self._runner.closed else 'open'}>"

    def _close(self, reason: str) -> None:
        with self._lock:
            self._runner.closed = True
            tables, self._push_tables = list(self._push_tables.values()), {}
        self._runner.cancel_all(reason)
        for table in tables:
            table.fail(reason)

    def _register_file(self, name: str, path: str | Path, method: str, options: Mapping[str, Any]) -> None:
        from headrace.session.sources import file_table, require_location

        table = self._require_name(name)
        local = require_location(str(table), path)
        with self._lock:
            self._require_free(table)
            self._engine.add_native(table, file_table(str(table), path, method, options), local)

    def _require_name(self, name: object) -> TableName:
        self._runner.require_open()
        return parse_table_name(name)

    def _require_free(self, name: TableName) -> None:
        try:
            taken = self._engine.has_table(name)
        except PlanError as error:
            place = ".".join(name.parts[:-1])
            literal = quoted(".".join(name.parts))
            raise InvalidArgumentError(
                f"Table {str(name)!r}: there is no schema {place!r}.",
                hint=f"create it with CREATE SCHEMA {place}, or name the table {literal!r}, with the quotes, if its "
                "name has a dot in it.",
            ) from error
        if taken:
            raise TableExistsError(
                f"There is a table {str(name)!r} already.", hint="deregister it first, or choose another name."
            )


def _bind(parameters: Mapping[str, Any] | Sequence[Any] | None) -> dict[str, Any]:
    if parameters is None:
        return {}
    if isinstance(parameters, Mapping):
        return {str(key).removeprefix("$"): value for key, value in parameters.items()}
    if isinstance(parameters, Sequence) and not isinstance(parameters, (str, bytes)):
        return {str(position): value for position, value in enumerate(parameters, start=1)}
    raise InvalidArgumentError(f"parameters must be a mapping or a sequence, not {parameters!r}.")


def _is_dataset(data: object) -> bool:
    import pyarrow.dataset

    return isinstance(data, pyarrow.dataset.Dataset)
