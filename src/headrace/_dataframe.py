"""A planned query: transformed freely, executed once."""

from __future__ import annotations

import html
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from headrace._channel import Channel
from headrace._drain import Drain
from headrace._errors import ClosedError, ConsumedError, InvalidArgumentError
from headrace._execution import Execution
from headrace._reader import RecordBatchReader
from headrace._runtime import workers
from headrace._stream import BatchReading
from headrace._translate import translate

if TYPE_CHECKING:
    from headrace._engine import Engine
    from headrace._planner import PlannedQuery, Query


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """How much of a result waits for its reader while the engine works on."""

    batches: int
    bytes: int | None


# A few small batches, or one large one; or all of them.
_STREAMED = ReadAhead(batches=4, bytes=1024 * 1024)
_COLLECTED = ReadAhead(batches=2**63, bytes=None)


class Host:
    """What a frame needs of the session it belongs to."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.closed = False
        self._lock = threading.RLock()
        self._running: dict[Execution, list[Drain]] = {}

    def require_open(self) -> None:
        """Refuse to work for a closed session or in a forked child.

        Raises:
            ClosedError: The session is closed.
            ForkedError: This is a fork of the process that made the session.
        """
        workers.require_same_process()
        if self.closed:
            raise ClosedError("The session is closed.", hint="make a new SessionContext.")

    def execution(self, query: PlannedQuery | None) -> Execution:
        """A new run, known to the session until it has ended."""
        execution = self.engine.execution(query, self._forget)
        with self._lock:
            self._running[execution] = []
        return execution

    def run(self, query: Query, read_ahead: ReadAhead = _STREAMED, *, partitioned: bool = False) -> list[BatchReading]:
        """Start a run and give what is read of it: one result, or one per partition."""
        self.require_open()
        planned = self.engine.plan(query)
        schema = planned.schema
        execution = self.execution(planned)
        try:
            streams = self.engine.streams(planned, execution, partitioned=partitioned)
        except BaseException:
            execution.give_back()
            raise
        groups = [[stream] for stream in streams] if partitioned else [streams]
        readers = _Readers(execution, [self._drain(group, schema, execution, read_ahead) for group in groups])
        execution.release()
        if self.closed:
            self.stop_all("the session was closed")
        return readers.open(schema)

    def stop_all(self, reason: str) -> None:
        """End every run of the session; their readers get a ClosedError."""
        with self._lock:
            running = {execution: list(drains) for execution, drains in self._running.items()}
        for execution, drains in running.items():
            for drain in drains:
                drain.channel.cancel(reason, ClosedError(f"The stream was cut off: {reason}."))
            execution.stop(reason)
            for drain in drains:
                drain.stop()

    def _drain(self, streams: list[Any], schema: pa.Schema, execution: Execution, read_ahead: ReadAhead) -> Drain:
        channel = Channel("the result", read_ahead.batches, read_ahead.bytes)
        drain = Drain(
            streams,
            schema,
            channel,
            execution,
            translate,
            self.engine.free_dropped,
        )
        with self._lock:
            self._running[execution].append(drain)
        return drain

    def _forget(self, execution: Execution) -> None:
        with self._lock:
            self._running.pop(execution, None)


class _Readers:
    """The readers of one run; the last one to leave stops it."""

    def __init__(self, execution: Execution, drains: list[Drain]) -> None:
        self._execution = execution
        self._drains = drains
        self._lock = threading.RLock()
        self._open = len(drains)

    def open(self, schema: pa.Schema) -> list[BatchReading]:
        return [
            BatchReading(schema, drain.channel, start=drain.start, stop=self._stopper(drain)) for drain in self._drains
        ]

    def _stopper(self, drain: Drain) -> Callable[[str], None]:
        def stop(reason: str) -> None:
            with self._lock:
                self._open -= 1
                last = self._open == 0
            if last:
                self._execution.stop(reason)
            drain.stop()

        return stop


class DataFrame:
    """A query that is planned and not yet executed; made by ``SessionContext.sql`` or ``table``.

    ``execute_stream`` and ``collect`` hand the plan over to the reader they return, so they can be called
    once, one of them. Everything else leaves the frame usable. A frame holds a plan and no rows; ``close``
    lets go of it early.
    """

    def __init__(self, host: Host, query: Query) -> None:
        self._host = host
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
        return [RecordBatchReader(reading) for reading in self._run(partitioned=True)]

    def collect(self) -> RecordBatchReader:
        """Run the query to its end and keep the whole result in memory, as a reader of the same kind.

        Raises:
            HeadraceError: As ``execute_stream``, and whatever the query fails with.
        """
        reading = self._run(_COLLECTED)[0]
        reading.wait_until_over()
        return RecordBatchReader(reading)

    def count(self) -> int:
        """Run the query and count its rows, keeping none; the frame stays usable.

        Raises:
            HeadraceError: As ``execute_stream``, and whatever the query fails with.
        """
        with RecordBatchReader(self._host.run(self._checked())[0]) as reader:
            return sum(batch.num_rows for batch in reader)

    def show(self, rows: int = 20) -> None:
        """Run the query and print its first rows as a table; the frame stays usable.

        Raises:
            InvalidArgumentError: ``rows`` is not a whole number of at least 1.
            HeadraceError: As ``execute_stream``, and whatever the query fails with.
        """
        from headrace._render import render_table

        print(render_table(*self._head(rows)))

    # -- looking at it ------------------------------------------------------------------------------

    def schema(self) -> pa.Schema:
        """The schema of the result; executes nothing."""
        return self._host.engine.schema(self._checked())

    def explain(self) -> str:
        """The optimised and the physical plan as text; executes nothing.

        For what each operator did in a run, query ``EXPLAIN ANALYZE SELECT ...``, which executes it.
        """
        return self._host.engine.explain(self._checked())

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

    def _run(self, read_ahead: ReadAhead = _STREAMED, *, partitioned: bool = False) -> list[BatchReading]:
        with self._lock:
            readings = self._host.run(self._checked(), read_ahead, partitioned=partitioned)
            self._query, self._consumed = None, True
        return readings

    def _checked(self) -> Query:
        if self._consumed:
            raise ConsumedError(
                "The frame is already consumed: execute_stream() and collect() hand its plan to their reader.",
                hint="call sql() again for another run.",
            )
        self._host.require_open()
        if self._query is None:
            raise ClosedError("The frame is closed.", hint="call sql() again.")
        return self._query

    def _transform(self, change: Callable[..., Any], *others: DataFrame) -> DataFrame:
        from headrace._engine import translating
        from headrace._planner import Query

        queries = [frame._checked() for frame in (self, *others)]
        with translating(planning=True):
            changed = change(*(query.frame for query in queries))
        return DataFrame(self._host, Query(changed, is_flat=any(query.is_flat for query in queries)))

    def _head(self, rows: int) -> tuple[pa.Table, bool]:
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise InvalidArgumentError(f"rows must be a whole number of at least 1, not {rows!r}.")
        with self.limit(rows + 1).execute_stream() as reader:
            table = reader.read_all()
        return table.slice(0, rows), table.num_rows > rows


def _expression(frame: Any, column: Any) -> Any:
    return frame.parse_sql_expr(column) if isinstance(column, str) else column
