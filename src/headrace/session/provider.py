"""Tables implemented in Python: what a user writes, and what a query asks of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headrace.arrow.schema import require_schema
from headrace.engine.tables import ScanRequest
from headrace.errors import InvalidArgumentError


class TableProvider(ABC):
    """A table whose rows come from Python code.

    Only ``schema`` and ``scan`` must be written. The other methods have defaults and are there for
    providers that can do better than hand out every row in one stream.
    """

    @abstractmethod
    def schema(self) -> pa.Schema:
        """The table's schema.

        Called exactly once, at registration, on the thread that registers. What it raises comes out of
        ``register_table``, and the table then does not exist.
        """

    @abstractmethod
    def scan(self) -> Any:
        """A fresh reader over the table's rows.

        Called once per physical scan (twice in a self-join), on a thread of the session's own, so it may
        block, query the same session or write to a sink. Returns a ``pyarrow.RecordBatchReader``, anything
        with ``__arrow_c_stream__``, a reader-like object with ``schema``, ``read_next_batch`` and
        ``close``, a Table, or a generator of record batches. Its schema must be the table's. It is closed
        by headrace, once, on that same thread: at the end, after an error, or when the query leaves early.
        """

    def scan_with(self, request: ScanRequest) -> Any:
        """A fresh reader for one scan, given what the query needs; by default ``scan()``.

        Called instead of ``scan``, under the same rules, once per partition.
        """
        return self.scan()

    def partition_count(self) -> int:
        """In how many parts the table can be read at the same time; by default 1.

        Called exactly once, at registration, after ``schema``.
        """
        return 1


class SimpleTableProvider(TableProvider):
    """A schema and a function that opens a reader, as a table.

    Args:
        schema: The table's schema.
        scan: Called without arguments once per physical scan; see ``TableProvider.scan``.

    Raises:
        InvalidArgumentError: ``schema`` is not a schema or ``scan`` cannot be called.
    """

    def __init__(self, schema: pa.Schema, scan: Callable[[], Any]) -> None:
        self._schema = require_schema(schema, "The schema of a SimpleTableProvider")
        if not callable(scan):
            raise InvalidArgumentError(
                f"The scan of a SimpleTableProvider must be callable, not {scan!r}.",
                hint="pass a function without arguments that returns a fresh reader.",
            )
        self._scan = scan

    def schema(self) -> pa.Schema:
        """The schema given at construction."""
        return self._schema

    def scan(self) -> Any:
        """What the function given at construction returns."""
        return self._scan()
