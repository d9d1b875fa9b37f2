"""A planned query, which can be transformed any number of times and executed once."""

from __future__ import annotations

import html
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from headrace.engine.result import ResultStream
from headrace.engine.runner import COLLECTED, STREAMED, QueryRunner, ReadAhead
from headrace.errors import ClosedError, ConsumedError, InvalidArgumentError
from headrace.session.reader import RecordBatchReader

if TYPE_CHECKING:
    from headrace.engine.expressions import Expression, SortKey
    from headrace.engine.planner import Query


class DataFrame:
    """A query that is planned and not executed; ``SessionContext.sql`` and ``table`` return one.

    ``execute_stream``, ``execute_stream_partitioned`` and ``collect`` consume the frame: only one of them can be
    called, once. Every other method leaves the frame usable. A frame has a plan and no rows; ``close`` releases the
    plan.

    Example:
        >>> frame = ctx.sql("SELECT 1 AS x")
        >>> frame.collect().read_all().to_pylist()
        [{'x': 1}]
    """

    def __init__(self, runner: QueryRunner, query: Query) -> None:
        self._runner = runner
        self._query: Query | None = query
        self._consumed = False
        self._lock = threading.RLock()

    # -- execution ----------------------------------------------------------------------------------

    def execute_stream(self) -> RecordBatchReader:
        """Execute the query and stream its result, with a few batches in memory at a time.

        Lazy: no table is read before the first batch is requested.

        Returns:
            A reader of the result.

        Raises:
            ConsumedError: The frame was already executed, or a push table that it reads was already scanned.
            ClosedError: The frame or its session is closed.
            PlanError: The query cannot be planned.
            StorageError: A file that the query reads does not exist any more.
            ResourcesExhaustedError: The query scans more tables at once than there are free worker threads.

        Example:
            >>> with ctx.sql("SELECT 1 AS x").execute_stream() as reader:
            ...     for batch in reader:
            ...         print(batch.to_pylist())
            [{'x': 1}]
        """
        return RecordBatchReader(self._run()[0])

    def execute_stream_partitioned(self) -> list[RecordBatchReader]:
        """Execute the query and stream each partition of its result separately.

        The readers can be read at the same time, by different threads. They share the rows of a Python table: each
        returns its rows in the order in which they were written or read, and no order holds between readers.

        Returns:
            One reader per partition.

        Raises:
            HeadraceError: As ``execute_stream``.

        Example:
            >>> readers = ctx.sql("SELECT 1 AS x").execute_stream_partitioned()
            >>> [reader.read_all().to_pylist() for reader in readers]
            [[{'x': 1}]]
        """
        return [RecordBatchReader(result) for result in self._run(partitioned=True)]

    def collect(self) -> RecordBatchReader:
        """Execute the query to its end and keep the whole result in memory.

        Returns:
            A reader of the result.

        Raises:
            HeadraceError: As ``execute_stream``, or the query failed.

        Example:
            >>> ctx.sql("SELECT 1 AS x").collect().read_all().to_pylist()
            [{'x': 1}]
        """
        result = self._run(COLLECTED)[0]
        result.wait_until_over()
        return RecordBatchReader(result)

    def count(self) -> int:
        """Execute the query and count its rows; the frame stays usable.

        Raises:
            HeadraceError: As ``execute_stream``, or the query failed.

        Example:
            >>> ctx.sql("SELECT * FROM (VALUES (1), (2)) AS t(x)").count()
            2
        """
        with RecordBatchReader(self._runner.run(self._checked())[0]) as reader:
            return sum(batch.num_rows for batch in reader)

    def show(self, rows: int = 20) -> None:
        """Execute the query and print its first rows as a table; the frame stays usable.

        Args:
            rows: The maximum number of rows to print.

        Raises:
            InvalidArgumentError: ``rows`` is not a whole number of at least 1.
            HeadraceError: As ``execute_stream``, or the query failed.

        Example:
            >>> ctx.sql("SELECT 1 AS x").show()
            ┌───┐
            │ x │
            ├───┤
            │ 1 │
            └───┘
            1 row
        """
        from headrace.session.render import render_table

        print(render_table(*self._head(rows)))

    # -- inspection ---------------------------------------------------------------------------------

    def schema(self) -> pa.Schema:
        """Return the schema of the result; executes nothing.

        Raises:
            ConsumedError: The frame was already executed.
            ClosedError: The frame or its session is closed.
            PlanError: The query cannot be planned.

        Example:
            >>> ctx.sql("SELECT 'a' AS name").schema().names
            ['name']
        """
        return self._runner.engine.schema(self._checked())

    def explain(self) -> str:
        """Return the optimised logical plan and the physical plan as text; executes nothing.

        For the metrics of each operator, query ``EXPLAIN ANALYZE SELECT ...``, which executes the query.

        Raises:
            ConsumedError: The frame was already executed.
            ClosedError: The frame or its session is closed.
            PlanError: The query cannot be planned.

        Example:
            >>> ctx.sql("SELECT 1 AS x").explain().splitlines()[0]
            'logical_plan'
        """
        return self._runner.engine.explain(self._checked())

    def __repr__(self) -> str:
        if self._query is None:
            return f"<headrace.DataFrame {'executed' if self._consumed else 'closed'}>"
        return f"<headrace.DataFrame ({', '.join(f'{f.name} {f.type}' for f in self.schema())})>"

    def _repr_html_(self) -> str:
        """Return the schema as HTML for notebooks; executes nothing, since that would consume push tables."""
        if self._query is None:
            return f"<p>{html.escape(repr(self))}</p>"
        rows = "".join(
            f"<tr><td>{html.escape(f.name)}</td><td>{html.escape(str(f.type))}</td>"
            f"<td>{'' if f.nullable else 'not null'}</td></tr>"
            for f in self.schema()
        )
        return f"<table><thead><tr><th>column</th><th>type</th><th></th></tr></thead><tbody>{rows}</tbody></table>"

    # -- transformations ----------------------------------------------------------------------------

    def select(self, *columns: Expression) -> DataFrame:
        """Return a frame with these columns.

        Args:
            columns: Column names, SQL expressions as text, or datafusion expressions.

        Raises:
            PlanError: A column does not exist, or an expression is invalid.
            ConsumedError: The frame was already executed.
            ClosedError: The frame or its session is closed.

        Example:
            >>> ctx.sql("SELECT 1 AS x").select("x", "x + 1 AS y").collect().read_all().to_pylist()
            [{'x': 1, 'y': 2}]
        """
        return self._transform(lambda frame: frame.select(*[_expression(frame, column) for column in columns]))

    def filter(self, *predicates: Expression) -> DataFrame:
        """Return a frame with the rows for which every predicate is true.

        Args:
            predicates: SQL expressions as text, or datafusion expressions.

        Raises:
            PlanError: A column does not exist, or an expression is invalid.
            ConsumedError: The frame was already executed.
            ClosedError: The frame or its session is closed.

        Example:
            >>> frame = ctx.sql("SELECT * FROM (VALUES (1), (2)) AS t(x)")
            >>> frame.filter("x > 1").collect().read_all().to_pylist()
            [{'x': 2}]
        """
        return self._transform(lambda frame: frame.filter(*predicates))

    def with_column(self, name: str, expression: Expression) -> DataFrame:
        """Return a frame with an additional column, or with a column of that name replaced.

        Args:
            name: The name of the column.
            expression: An SQL expression as text, or a datafusion expression.

        Raises:
            PlanError: The expression is invalid.
            ConsumedError: The frame was already executed.
            ClosedError: The frame or its session is closed.

        Example:
            >>> ctx.sql("SELECT 1 AS x").with_column("y", "x * 10").collect().read_all().to_pylist()
            [{'x': 1, 'y': 10}]
        """
        return self._transform(lambda frame: frame.with_column(name, expression))

    def drop(self, *columns: str) -> DataFrame:
        """Return a frame without these columns; a name that is not a column is ignored.

        Raises:
            ConsumedError: The frame was already executed.
            ClosedError: The frame or its session is closed.

        Example:
            >>> ctx.sql("SELECT 1 AS x, 2 AS y").drop("y").collect().read_all().to_pylist()
            [{'x': 1}]
        """
        return self._transform(lambda frame: frame.drop(*columns))

    def sort(self, *keys: SortKey) -> DataFrame:
        """Return a frame sorted by these keys.

        Args:
            keys: Column names, datafusion expressions, or datafusion sort expressions.

        Raises:
            PlanError: A column does not exist, or an expression is invalid.
            ConsumedError: The frame was already executed.
            ClosedError: The frame or its session is closed.

        Example:
            >>> frame = ctx.sql("SELECT * FROM (VALUES (2), (1)) AS t(x)")
            >>> frame.sort("x").collect().read_all().to_pylist()
            [{'x': 1}, {'x': 2}]
        """
        return self._transform(lambda frame: frame.sort(*keys))

    def limit(self, count: int, offset: int = 0) -> DataFrame:
        """Return a frame with at most ``count`` rows, after skipping ``offset`` rows.

        Raises:
            PlanError: ``count`` or ``offset`` is negative.
            ConsumedError: The frame was already executed.
            ClosedError: The frame or its session is closed.

        Example:
            >>> frame = ctx.sql("SELECT * FROM (VALUES (1), (2), (3)) AS t(x) ORDER BY x")
            >>> frame.limit(1, offset=1).collect().read_all().to_pylist()
            [{'x': 2}]
        """
        return self._transform(lambda frame: frame.limit(count, offset))

    def distinct(self) -> DataFrame:
        """Return a frame without duplicate rows.

        Raises:
            ConsumedError: The frame was already executed.
            ClosedError: The frame or its session is closed.

        Example:
            >>> ctx.sql("SELECT * FROM (VALUES (1), (1)) AS t(x)").distinct().collect().read_all().to_pylist()
            [{'x': 1}]
        """
        return self._transform(lambda frame: frame.distinct())

    def union(self, other: DataFrame) -> DataFrame:
        """Return a frame with the rows of both frames, duplicates included.

        Raises:
            PlanError: The frames have different numbers of columns, or types without a common type.
            ConsumedError: One of the frames was already executed.
            ClosedError: One of the frames or its session is closed.

        Example:
            >>> frame = ctx.sql("SELECT 1 AS x").union(ctx.sql("SELECT 2 AS x"))
            >>> frame.sort("x").collect().read_all().to_pylist()
            [{'x': 1}, {'x': 2}]
        """
        return self._transform(lambda frame, others: frame.union(others), other)

    # -- lifecycle ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Release the plan; does nothing on a frame that was executed or closed. Never raises.

        Example:
            >>> frame = ctx.sql("SELECT 1 AS x")
            >>> frame.close()
            >>> frame
            <headrace.DataFrame closed>
        """
        self._query = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Execute the query and export its result through the Arrow PyCapsule interface."""
        return self.execute_stream().__arrow_c_stream__(requested_schema)

    def _run(self, read_ahead: ReadAhead = STREAMED, *, partitioned: bool = False) -> list[ResultStream]:
        with self._lock:
            results = self._runner.run(self._checked(), read_ahead, partitioned=partitioned)
            self._query, self._consumed = None, True
        return results

    def _checked(self) -> Query:
        if self._consumed:
            raise ConsumedError(
                "The frame is already consumed: execute_stream() and collect() can be called once.",
                hint="call sql() again to execute the query again.",
            )
        self._runner.require_open()
        if self._query is None:
            raise ClosedError("The frame is closed.", hint="call sql() again for a new frame.")
        return self._query

    def _transform(self, change: Callable[..., Any], *others: DataFrame) -> DataFrame:
        from headrace.engine.engine import translating
        from headrace.engine.planner import Query

        queries = [frame._checked() for frame in (self, *others)]
        with translating(planning=True):
            changed = change(*(query.frame for query in queries))
        return DataFrame(self._runner, Query(changed, is_flat=any(query.is_flat for query in queries)))

    def _head(self, rows: int) -> tuple[pa.Table, bool]:
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise InvalidArgumentError(f"rows must be a whole number of at least 1, not {rows!r}.")
        with self.limit(rows + 1).execute_stream() as reader:
            table = reader.read_all()
        return table.slice(0, rows), table.num_rows > rows


def _expression(frame: Any, column: Any) -> Any:
    return frame.parse_sql_expr(column) if isinstance(column, str) else column
