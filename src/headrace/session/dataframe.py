"""A planned query: transformed freely, executed once."""

from __future__ import annotations

import html
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from headrace.engine.result import ResultStream
from headrace.errors import ClosedError, ConsumedError, InvalidArgumentError
from headrace.session.reader import RecordBatchReader

if TYPE_CHECKING:
    from headrace.engine.planner import Query
from headrace.engine.runner import COLLECTED, STREAMED, QueryRunner, ReadAhead


class DataFrame:
    """A query that is planned and not yet executed; made by ``SessionContext.sql`` or ``table``.

    ``execute_stream`` and ``collect`` hand the plan over to the reader they return, so they can be called
    once, one of them. Everything else leaves the frame usable. A frame holds a plan and no rows; ``close``
    lets go of it early.
    """

    def __init__(self, runner: QueryRunner, query: Query) -> None:
        self._runner = runner
        self._query: Query | None = query
        self._consumed = False
        self._lock = threading.RLock()

    # -- execution ----------------------------------------------------------------------------------

    def execute_stream(self) -> RecordBatchReader:
        """Run the query and read its result batch by batch, with a few of them in memory at a time.

        Lazy: no table is read before the first batch is asked for.

        Raises:
            ConsumedError: The frame was executed before, or a push table it reads was.
            ClosedError: The frame or its session is closed.
            PlanError: The query cannot be planned.
            ResourcesExhaustedError: It reads more tables at once than there are worker threads.
        """
        return RecordBatchReader(self._run()[0])

    def execute_stream_partitioned(self) -> list[RecordBatchReader]:
        """Run the query and read each partition of its result by itself, all at the same time if wanted.

        Raises as ``execute_stream`` does.
        """
        return [RecordBatchReader(result) for result in self._run(partitioned=True)]

    def collect(self) -> RecordBatchReader:
        """Run the query to its end and keep the whole result in memory, as a reader of the same kind.

        Raises:
            HeadraceError: As ``execute_stream``, and whatever the query fails with.
        """
        result = self._run(COLLECTED)[0]
        result.wait_until_over()
        return RecordBatchReader(result)

    def count(self) -> int:
        """Run the query and count its rows, keeping none; the frame stays usable.

        Raises:
            HeadraceError: As ``execute_stream``, and whatever the query fails with.
        """
        with RecordBatchReader(self._runner.run(self._checked())[0]) as reader:
            return sum(batch.num_rows for batch in reader)

    def show(self, rows: int = 20) -> None:
        """Run the query and print its first rows as a table; the frame stays usable.

        Raises:
            InvalidArgumentError: ``rows`` is not a whole number of at least 1.
            HeadraceError: As ``execute_stream``, and whatever the query fails with.
        """
        from headrace.session.render import render_table

        print(render_table(*self._head(rows)))

    # -- looking at it ------------------------------------------------------------------------------

    def schema(self) -> pa.Schema:
        """The schema of the result; executes nothing."""
        return self._runner.engine.schema(self._checked())

    def explain(self) -> str:
        """The optimised and the physical plan as text; executes nothing.

        For what each operator did in a run, query ``EXPLAIN ANALYZE SELECT ...``, which executes it.
        """
        return self._runner.engine.explain(self._checked())

    def __repr__(self) -> str:
        if self._query is None:
            return f"<headrace.DataFrame {'executed' if self._consumed else 'closed'}>"
        return f"<headrace.DataFrame ({', '.join(f'{f.name} {f.type}' for f in self.schema())})>"

    def _repr_html_(self) -> str:
        """The schema, for notebooks; nothing is executed, since that would use up a push table."""
        if self._query is None:
            return f"<p>{html.escape(repr(self))}</p>"
        rows = "".join(
            f"<tr><td>{html.escape(f.name)}</td><td>{html.escape(str(f.type))}</td>"
            f"<td>{'' if f.nullable else 'not null'}</td></tr>"
            for f in self.schema()
        )
        return f"<table><thead><tr><th>column</th><th>type</th><th></th></tr></thead><tbody>{rows}</tbody></table>"

    # -- transformations ----------------------------------------------------------------------------

    def select(self, *columns: Any) -> DataFrame:
        """A frame with these columns: names, SQL expressions, or datafusion expressions."""
        return self._transform(lambda frame: frame.select(*[_expression(frame, column) for column in columns]))

    def filter(self, *predicates: Any) -> DataFrame:
        """A frame with the rows for which every predicate (SQL text or a datafusion expression) is true."""
        return self._transform(lambda frame: frame.filter(*predicates))

    def with_column(self, name: str, expression: Any) -> DataFrame:
        """A frame with one more column, given as SQL text or a datafusion expression."""
        return self._transform(lambda frame: frame.with_column(name, expression))

    def drop(self, *columns: str) -> DataFrame:
        """A frame without these columns."""
        return self._transform(lambda frame: frame.drop(*columns))

    def sort(self, *keys: Any) -> DataFrame:
        """A frame in the order of these keys: names or datafusion sort expressions."""
        return self._transform(lambda frame: frame.sort(*keys))

    def limit(self, count: int, offset: int = 0) -> DataFrame:
        """A frame with at most ``count`` rows after the first ``offset``."""
        return self._transform(lambda frame: frame.limit(count, offset))

    def distinct(self) -> DataFrame:
        """A frame in which no row comes twice."""
        return self._transform(lambda frame: frame.distinct())

    def union(self, other: DataFrame) -> DataFrame:
        """A frame with the rows of both, duplicates kept."""
        return self._transform(lambda frame, others: frame.union(others), other)

    # -- lifecycle ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the plan; a no-op on a frame that was executed or closed. Never raises."""
        self._query = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Execute the frame as a stream, for the Arrow PyCapsule interface."""
        return self.execute_stream().__arrow_c_stream__(requested_schema)

    def _run(self, read_ahead: ReadAhead = STREAMED, *, partitioned: bool = False) -> list[ResultStream]:
        with self._lock:
            results = self._runner.run(self._checked(), read_ahead, partitioned=partitioned)
            self._query, self._consumed = None, True
        return results

    def _checked(self) -> Query:
        if self._consumed:
            raise ConsumedError(
                "The frame is already consumed: execute_stream() and collect() hand its plan to their reader.",
                hint="call sql() again for another run.",
            )
        self._runner.require_open()
        if self._query is None:
            raise ClosedError("The frame is closed.", hint="call sql() again.")
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
