"""The session: registers tables, plans queries, and closes everything together."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from headrace.arrow.protocols import ArrowExportable
from headrace.arrow.schema import require_schema
from headrace.arrow.sizes import BatchSizes
from headrace.channel.channel import Channel
from headrace.engine.names import TableName, parse_table_name, quoted
from headrace.engine.runner import QueryRunner, SessionStatistics
from headrace.engine.runtime import workers
from headrace.engine.settings import parse_settings
from headrace.engine.shutdown import close_at_exit
from headrace.engine.tables import PullTable, PushTable
from headrace.errors import InvalidArgumentError, PlanError, TableExistsError
from headrace.session.dataframe import DataFrame
from headrace.session.provider import TableProvider
from headrace.session.sink import TableSink

if TYPE_CHECKING:
    import pyarrow.dataset


class SessionContext:
    """An embedded SQL engine over Python tables, push tables, Lance tables and files.

    Any thread may use it. ``close``, or the end of a ``with`` block, ends every running query and every push table.

    Args:
        target_partitions: The number of partitions that the engine works in; by default the number of cores.
        batch_size: The maximum number of rows in a batch of the engine; by default 8192, and up to 65536 in a batch
            from a Python table.
        memory_limit: The maximum memory for sorts, joins and aggregates: a number of bytes, or text such as
            ``"512MB"`` or ``"2GiB"``. Operators that can spill to disk do so above it.
        spill: Where to spill: True for the system's temporary folder, a folder, or False to never spill.
        ordered: Return the rows of a Python table in the order in which they were written or read, in queries that
            compute each row from one row (projections, filters, UNION ALL, LIMIT). False gives up the order, so that
            such a query over one table uses all cores. Either way a row is returned as soon as it arrives.
        low_latency: Accepted and without effect: such queries return each row as soon as it arrives by default.
        config: Settings of DataFusion by their full names, such as ``datafusion.optimizer.max_passes``.

    Raises:
        ConfigurationError: A setting is unknown or has an invalid value.
        ForkedError: The engine was started before this process was forked.

    Example:
        >>> with headrace.SessionContext(target_partitions=2) as session:
        ...     session.sql("SELECT 1 + 1 AS two").collect().read_all().to_pylist()
        [{'two': 2}]
    """

    def __init__(
        self,
        *,
        target_partitions: int | None = None,
        batch_size: int | None = None,
        memory_limit: int | str | None = None,
        spill: bool | str | Path = True,
        ordered: bool = True,
        low_latency: bool = False,
        config: Mapping[str, object] | None = None,
    ) -> None:
        workers.require_same_process()
        settings = parse_settings(
            target_partitions=target_partitions,
            batch_size=batch_size,
            memory_limit=memory_limit,
            spill=spill,
            ordered=ordered,
            low_latency=low_latency,
            config=config,
        )
        # Importing datafusion takes a second if pandas is installed: import it when it is needed.
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
            name: The table's name in queries, an SQL identifier: ``T1`` means ``t1``, ``"T1"`` keeps its case, and
                ``sales.orders`` is in schema ``sales``. Text that is not an SQL identifier, such as ``my table``, is
                used verbatim.
            provider: A ``TableProvider``, or any object with the methods ``schema()`` and ``scan()``.

        Raises:
            InvalidArgumentError: The name is empty, ``provider`` is not a provider, or ``schema()`` does not return a
                schema that a table can have.
            TableExistsError: A table with this name is registered already.
            ClosedError: The session is closed.
            Exception: ``schema()`` raised it; the table is not registered.

        Example:
            >>> numbers = pa.table({"x": [1, 2]})
            >>> ctx.register_table("numbers", headrace.SimpleTableProvider(numbers.schema, lambda: numbers))
            >>> ctx.sql("SELECT sum(x) AS total FROM numbers").collect().read_all().to_pylist()
            [{'total': 3}]
        """
        table = self._require_name(name)
        name = str(table)
        if isinstance(provider, type):
            raise InvalidArgumentError(
                f"Table {name!r}: {provider.__qualname__} is a class; a provider is an instance of one.",
                hint=f"pass {provider.__qualname__}(...).",
            )
        if not callable(getattr(provider, "schema", None)) or not callable(getattr(provider, "scan", None)):
            raise InvalidArgumentError(
                f"Table {name!r}: a provider has the methods schema() and scan(); a "
                f"{type(provider).__qualname__} does not have both.",
                hint="subclass TableProvider or use SimpleTableProvider; for data in memory, register_arrow.",
            )
        with self._lock:
            self._require_free(table)
            schema = require_schema(provider.schema(), f"The return value of schema() of table {name!r}")
            wants_hints = getattr(type(provider), "scan_with", TableProvider.scan_with) is not TableProvider.scan_with
            self._engine.add_table(table, PullTable(name, schema, provider), wants_hints=wants_hints)

    def register_streaming_table(
        self, name: str, schema: pa.Schema, capacity: int = 64, *, max_bytes: int | None = None
    ) -> TableSink:
        """Register a push table: producers write to it while a query reads it.

        **It can be scanned once.** Batches are streamed to the query and not kept, so a second query, a self-join or
        a UNION ALL of the table with itself raises ConsumedError. EXPLAIN does not scan the table.

        Args:
            name: The table's name in queries.
            schema: The schema of every batch.
            capacity: The maximum number of queued batches; a write waits while the queue is full. Batches that the
                query has taken are not counted: a few MiB, or one batch if that is larger.
            max_bytes: The maximum number of queued bytes, in addition to ``capacity``; None for no limit. A larger
                batch is accepted when the queue is empty.

        Returns:
            The sink to write to.

        Raises:
            InvalidArgumentError: The name is empty, ``schema`` is not a schema that a table can have, or ``capacity``
                or ``max_bytes`` is not a whole number of at least 1.
            TableExistsError: A table with this name is registered already.
            ClosedError: The session is closed.

        Example:
            >>> with ctx.register_streaming_table("events", pa.schema([("id", pa.int64())])) as sink:
            ...     sink.write(pa.record_batch({"id": [1, 2]}))
            >>> ctx.sql("SELECT id FROM events").collect().read_all().to_pylist()
            [{'id': 1}, {'id': 2}]
        """
        table_name = self._require_name(name)
        name = str(table_name)
        schema = require_schema(schema, f"The schema of streaming table {name!r}")
        channel = Channel(f"streaming table {name!r}", capacity, max_bytes, BatchSizes(schema))
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
        """Register a Lance table; the engine pushes filters and projections into its scan.

        Args:
            name: The table's name in queries.
            uri: The table's folder or object store URL.
            storage_options: Credentials and settings of the object store; no error message contains them.
            version: A version number or a tag; by default the latest version at the time of this call.

        Raises:
            InvalidArgumentError: The name is empty, or ``uri``, ``version`` or ``storage_options`` is invalid.
            StorageError: The table or the version does not exist.
            TableExistsError: A table with this name is registered already.
            ClosedError: The session is closed.

        Example:
            >>> import lance
            >>> dataset = lance.write_dataset(pa.table({"x": [1, 2, 3]}), folder / "numbers.lance")
            >>> ctx.register_lance("numbers", folder / "numbers.lance")
            >>> ctx.sql("SELECT x FROM numbers WHERE x > 2").collect().read_all().to_pylist()
            [{'x': 3}]
        """
        from headrace.session.sources import lance_table, require_location

        table = self._require_name(name)
        require_location(str(table), uri)
        with self._lock:
            self._require_free(table)
            self._engine.add_native(table, lance_table(str(table), str(uri), storage_options, version))

    def register_history(self, name: str, uri: str | Path, *, storage_options: Mapping[str, str] | None = None) -> None:
        """Register the history of a Lance table: one row per version, with its operation, query, epoch and run.

        Args:
            name: The table's name in queries.
            uri: The Lance table's folder or object store URL.
            storage_options: Credentials and settings of the object store; no error message contains them.

        Raises:
            TableNotFoundError: The Lance table does not exist.
            TableExistsError: A table with this name is registered already.
            ClosedError: The session is closed.

        Example:
            >>> import lance
            >>> dataset = lance.write_dataset(pa.table({"x": [1, 2, 3]}), folder / "numbers.lance")
            >>> ctx.register_history("history", folder / "numbers.lance")
            >>> ctx.sql("SELECT version, query FROM history").collect().read_all().to_pylist()
            [{'version': 1, 'query': None}]
        """
        from headrace.session.history_table import TableHistory
        from headrace.session.sources import require_storage_options

        options = require_storage_options(str(self._require_name(name)), storage_options)
        self.register_table(name, TableHistory(str(uri), options))

    def register_parquet(
        self, name: str, path: str | Path, *, schema: pa.Schema | None = None, file_extension: str | None = None
    ) -> None:
        """Register a Parquet file, or a folder of Parquet files.

        Args:
            name: The table's name in queries.
            path: The file, folder or glob pattern.
            schema: The schema; by default that of the files.
            file_extension: The extension of the files in a folder; by default ``.parquet``.

        Raises:
            InvalidArgumentError: The name is empty, or an option has an invalid value.
            StorageError: The path does not exist or cannot be read.
            TableExistsError: A table with this name is registered already.
            ClosedError: The session is closed.

        Example:
            >>> import pyarrow.parquet
            >>> pyarrow.parquet.write_table(pa.table({"x": [1, 2]}), folder / "numbers.parquet")
            >>> ctx.register_parquet("numbers", folder / "numbers.parquet")
            >>> ctx.sql("SELECT max(x) AS largest FROM numbers").collect().read_all().to_pylist()
            [{'largest': 2}]
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
        r"""Register a CSV file, or a folder of CSV files.

        Args:
            name: The table's name in queries.
            path: The file, folder or glob pattern.
            schema: The schema; by default it is inferred from the files.
            has_header: Whether the first line of a file has the column names.
            delimiter: The character between fields.
            file_extension: The extension of the files in a folder; by default ``.csv``.

        Raises:
            InvalidArgumentError: The name is empty, or an option has an invalid value.
            StorageError: The path does not exist or cannot be read.
            TableExistsError: A table with this name is registered already.
            ClosedError: The session is closed.

        Example:
            >>> written = (folder / "numbers.csv").write_text("x;y\n1;a\n")
            >>> ctx.register_csv("numbers", folder / "numbers.csv", delimiter=";")
            >>> ctx.sql("SELECT x, y FROM numbers").collect().read_all().to_pylist()
            [{'x': 1, 'y': 'a'}]
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
        """Register a file of newline-delimited JSON objects, or a folder of such files.

        Args:
            name: The table's name in queries.
            path: The file, folder or glob pattern.
            schema: The schema; by default it is inferred from the files.
            file_extension: The extension of the files in a folder; by default ``.json``.

        Raises:
            InvalidArgumentError: The name is empty, or an option has an invalid value.
            StorageError: The path does not exist or cannot be read.
            TableExistsError: A table with this name is registered already.
            ClosedError: The session is closed.

        Example:
            >>> written = (folder / "numbers.json").write_text('{"x": 1}')
            >>> ctx.register_json("numbers", folder / "numbers.json")
            >>> ctx.sql("SELECT x FROM numbers").collect().read_all().to_pylist()
            [{'x': 1}]
        """
        self._register_file(name, path, "register_json", {"schema": schema, "file_extension": file_extension})

    def register_arrow(self, name: str, data: ArrowExportable | pyarrow.dataset.Dataset | str | Path) -> None:
        """Register Arrow data that can be scanned any number of times.

        Args:
            name: The table's name in queries.
            data: A Table, a RecordBatch, a pyarrow Dataset, an object whose ``__arrow_c_stream__`` returns a new
                stream on every call (a Polars or pandas frame, for example), or the path of an Arrow IPC file.

        Raises:
            InvalidArgumentError: The name is empty, or ``data`` is none of these, or is a reader, which can be read
                only once.
            StorageError: The path does not exist or cannot be read.
            TableExistsError: A table with this name is registered already.
            ClosedError: The session is closed.

        Example:
            >>> ctx.register_arrow("numbers", pa.table({"x": [1, 2]}))
            >>> ctx.sql("SELECT count(*) AS rows FROM numbers").collect().read_all().to_pylist()
            [{'rows': 2}]
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
        """Return whether a table of this name is registered.

        Raises:
            InvalidArgumentError: The name is empty.
            ClosedError: The session is closed.

        Example:
            >>> ctx.table_exists("numbers")
            False
        """
        try:
            return self._engine.has_table(self._require_name(name))
        except PlanError:  # The schema or catalog does not exist.
            return False

    def deregister_table(self, name: str) -> None:
        """Deregister a table: later queries cannot name it, running queries finish.

        A push table that is still open ends: writes raise ConsumerGoneError. A query that reads it reads the queued
        batches and then raises, since the stream is incomplete.

        Raises:
            InvalidArgumentError: The name is empty.
            PlanError: The table does not exist.
            ClosedError: The session is closed.

        Example:
            >>> ctx.register_arrow("numbers", pa.table({"x": [1, 2]}))
            >>> ctx.deregister_table("numbers")
            >>> ctx.table_exists("numbers")
            False
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
        self, query: str, parameters: Mapping[str, object] | Sequence[object] | None = None, *, read_only: bool = False
    ) -> DataFrame:
        """Plan a query; the returned frame executes it.

        Args:
            query: SQL text. DDL (CREATE TABLE, CREATE VIEW, DROP) is executed in this call.
            parameters: Values for ``$name`` placeholders as a mapping, or for ``$1``, ``$2`` as a sequence. Values
                are bound, never inserted into the text.
            read_only: Whether to reject DDL, DML and statements such as SET; use it for untrusted SQL.

        Returns:
            A frame, which is planned and not executed.

        Raises:
            InvalidArgumentError: ``query`` is not text or is empty, or ``parameters`` is not a mapping or a sequence.
            PlanError: The SQL is invalid, names an unknown table or column, or is rejected by ``read_only``.
            ClosedError: The session is closed.

        Example:
            >>> frame = ctx.sql("SELECT $x + 1 AS y", {"x": 1})
            >>> frame.collect().read_all().to_pylist()
            [{'y': 2}]
        """
        self._runner.require_open()
        if not isinstance(query, str) or not query.strip():
            raise InvalidArgumentError(f"The query must be SQL text, not {query!r}.")
        bound = _bind(parameters)
        execution = self._runner.execution(None)
        try:
            planned = self._engine.sql(query, bound, read_only=read_only, execution=execution)
        except PlanError:
            # If another thread has closed the session, its tables are gone: raise ClosedError instead.
            self._runner.require_open()
            raise
        finally:
            execution.release_claims()
        return DataFrame(self._runner, planned)

    def table(self, name: str) -> DataFrame:
        """Return a frame over all rows and columns of a table.

        Raises:
            InvalidArgumentError: The name is empty.
            PlanError: The table does not exist.
            ClosedError: The session is closed.

        Example:
            >>> ctx.register_arrow("numbers", pa.table({"x": [1, 2]}))
            >>> ctx.table("numbers").count()
            2
        """
        return DataFrame(self._runner, self._engine.table(self._require_name(name)))

    def statistics(self) -> SessionStatistics:
        """Return how many queries are running, how many readers wait, and how many worker threads are held.

        What the engine has dropped is freed first. A closed session counts what its queries have not released yet.

        Raises:
            ForkedError: This process was forked after the engine was started.

        Example:
            >>> reader = ctx.sql("SELECT 1 AS one").execute_stream()
            >>> ctx.statistics().running_queries
            1
            >>> reader.close()
        """
        workers.require_same_process()
        return self._runner.statistics()

    # -- lifecycle ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the session; idempotent.

        Running queries end: their readers raise ClosedError. Push tables end: writes raise ConsumerGoneError. Later
        calls on the session raise ClosedError.

        Raises:
            ForkedError: This process was forked after the engine was started.

        Example:
            >>> ctx.close()
            >>> ctx
            <headrace.SessionContext closed>
        """
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

    def _register_file(self, name: str, path: str | Path, method: str, options: Mapping[str, object]) -> None:
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
                hint=f"create it with CREATE SCHEMA {place}, or, if the table's name contains a dot, quote it: "
                f"{literal!r}.",
            ) from error
        if taken:
            raise TableExistsError(
                f"There is a table {str(name)!r} already.", hint="deregister it first, or choose another name."
            )


def _bind(parameters: Mapping[str, object] | Sequence[object] | None) -> dict[str, object]:
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
