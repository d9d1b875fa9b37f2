"""The base classes of tables implemented in Python."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import pyarrow as pa

from headrace.arrow.protocols import BatchSource
from headrace.arrow.schema import require_schema
from headrace.engine.tables import ScanRequest
from headrace.errors import InvalidArgumentError


class TableProvider(ABC):
    """A table whose rows come from Python code.

    Subclasses implement ``schema`` and ``scan``. Override ``scan_with`` to skip columns and rows that the query does
    not need, and ``partition_count`` to read the table in parallel.

    Example:
        >>> class Numbers(headrace.TableProvider):
        ...     def schema(self):
        ...         return pa.schema([("x", pa.int64())])
        ...
        ...     def scan(self):
        ...         yield pa.record_batch({"x": [1, 2]})
        >>> ctx.register_table("numbers", Numbers())
        >>> ctx.sql("SELECT x FROM numbers ORDER BY x").collect().read_all().to_pylist()
        [{'x': 1}, {'x': 2}]
    """

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Return the table's schema.

        headrace calls it exactly once, during ``register_table``, on the calling thread. If it raises,
        ``register_table`` raises the same exception and the table is not registered.

        Example:
            >>> numbers = pa.table({"x": [1, 2]})
            >>> headrace.SimpleTableProvider(numbers.schema, lambda: numbers).schema().names
            ['x']
        """

    @abstractmethod
    def scan(self) -> BatchSource:
        """Return a new reader over the table's rows.

        headrace calls it once per physical scan (twice in a self-join), on a thread that belongs to the session. It
        may block, query the same session or write to a sink. headrace closes the reader exactly once, on the same
        thread: at its end, after an error, or when the query ends early. If it raises, the query raises a TableError
        with the exception as its cause.

        Returns:
            A ``pyarrow.RecordBatchReader``, a Table, an object with ``__arrow_c_stream__``, an object with
            ``schema``, ``read_next_batch`` and ``close``, or a generator of record batches. Its schema must be the
            table's.

        Example:
            >>> numbers = pa.table({"x": [1, 2]})
            >>> ctx.register_table("numbers", headrace.SimpleTableProvider(numbers.schema, lambda: numbers))
            >>> ctx.table("numbers").count()
            2
        """

    def scan_with(self, request: ScanRequest) -> BatchSource:
        """Return a new reader for one partition of a scan; by default the result of ``scan()``.

        headrace calls it instead of ``scan``, once per partition and physical scan, under the same rules.

        Args:
            request: The partition to read, and the columns and rows that the query needs.

        Returns:
            As ``scan``. The reader may have only the requested columns.

        Example:
            >>> class Numbers(headrace.SimpleTableProvider):
            ...     def scan_with(self, request):
            ...         return self.scan().select(request.columns)
            >>> numbers = pa.table({"x": [1, 2], "unread": [3, 4]})
            >>> ctx.register_table("numbers", Numbers(numbers.schema, lambda: numbers))
            >>> ctx.sql("SELECT sum(x) AS total FROM numbers").collect().read_all().to_pylist()
            [{'total': 3}]
        """
        return self.scan()

    def partition_count(self) -> int:
        """Return the number of partitions that can be read at the same time; by default 1.

        headrace calls it exactly once, during ``register_table``, after ``schema``.

        Example:
            >>> class Halves(headrace.SimpleTableProvider):
            ...     def partition_count(self):
            ...         return 2
            ...
            ...     def scan_with(self, request):
            ...         return self.scan().slice(request.partition, 1)
            >>> numbers = pa.table({"x": [1, 2]})
            >>> ctx.register_table("numbers", Halves(numbers.schema, lambda: numbers))
            >>> ctx.sql("SELECT x FROM numbers ORDER BY x").collect().read_all().to_pylist()
            [{'x': 1}, {'x': 2}]
        """
        return 1


class SimpleTableProvider(TableProvider):
    """A table made of a schema and a function that opens a reader.

    Args:
        schema: The table's schema.
        scan: Called without arguments once per physical scan; see ``TableProvider.scan`` for its return value.

    Raises:
        InvalidArgumentError: ``schema`` is not a schema that a table can have, or ``scan`` is not callable.

    Example:
        >>> numbers = pa.table({"x": [1, 2]})
        >>> ctx.register_table("numbers", headrace.SimpleTableProvider(numbers.schema, lambda: numbers))
        >>> ctx.sql("SELECT max(x) AS largest FROM numbers").collect().read_all().to_pylist()
        [{'largest': 2}]
    """

    def __init__(self, schema: pa.Schema, scan: Callable[[], BatchSource]) -> None:
        self._schema = require_schema(schema, "The schema of a SimpleTableProvider")
        if not callable(scan):
            raise InvalidArgumentError(
                f"The scan of a SimpleTableProvider must be callable, not {scan!r}.",
                hint="pass a function without arguments that returns a new reader.",
            )
        self._scan = scan

    def schema(self) -> pa.Schema:
        """Return the schema given at construction.

        Example:
            >>> numbers = pa.table({"x": [1, 2]})
            >>> headrace.SimpleTableProvider(numbers.schema, lambda: numbers).schema().names
            ['x']
        """
        return self._schema

    def scan(self) -> BatchSource:
        """Call the function given at construction and return its result.

        Example:
            >>> numbers = pa.table({"x": [1, 2]})
            >>> headrace.SimpleTableProvider(numbers.schema, lambda: numbers).scan().num_rows
            2
        """
        return self._scan()
