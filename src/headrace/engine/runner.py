"""The executions of one session: started for its frames, cancelled when it closes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.arrow.sizes import BatchSizes
from headrace.channel.channel import Channel
from headrace.engine.errors import translate
from headrace.engine.execution import Execution
from headrace.engine.pump import ResultPump
from headrace.engine.result import ResultStream
from headrace.engine.runtime import workers
from headrace.errors import ClosedError

if TYPE_CHECKING:
    from headrace.engine.engine import Engine
    from headrace.engine.planner import PlannedQuery, Query


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """The maximum number of batches and bytes of a result that are buffered for its reader."""

    batches: int
    bytes: int | None


# execute_stream() buffers a few small batches or one large one; collect() buffers the whole result.
STREAMED = ReadAhead(batches=16, bytes=2 * 1024 * 1024)
COLLECTED = ReadAhead(batches=2**63, bytes=None)


@dataclass(frozen=True, slots=True)
class SessionStatistics:
    """What a session's queries hold now; ``SessionContext.statistics`` returns one.

    Attributes:
        running_queries: Queries that were started and have not released everything they hold, also after their end.
        waiting_readers: Readers, threads and coroutines, that now wait for a batch or the end of a result.
        held_workers: Worker threads of the engine that are reserved for the scans of these queries.

    Example:
        >>> with ctx.register_streaming_table("events", pa.schema([("id", pa.int64())])) as sink:
        ...     sink.write(pa.record_batch({"id": [1, 2]}))
        >>> with ctx.sql("SELECT id FROM events").execute_stream() as reader:
        ...     ctx.statistics()
        SessionStatistics(running_queries=1, waiting_readers=0, held_workers=1)
    """

    running_queries: int
    waiting_readers: int
    held_workers: int


class QueryRunner:
    """Starts the executions of one session and tracks them until they end."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.closed = False
        self._lock = threading.RLock()
        self._running: dict[Execution, list[ResultPump]] = {}

    def require_open(self) -> None:
        """Check that the session can be used.

        Raises:
            ClosedError: The session is closed.
            ForkedError: This process was forked after the engine was started.
        """
        workers.require_same_process()
        if self.closed:
            raise ClosedError("The session is closed.", hint="make a new SessionContext.")

    def execution(self, query: PlannedQuery | None, *, partitioned: bool = False) -> Execution:
        """Return a new execution, which the session tracks until it has ended."""
        execution = self.engine.execution(query, self._remove, partitioned=partitioned)
        with self._lock:
            self._running[execution] = []
        return execution

    def run(self, query: Query, read_ahead: ReadAhead = STREAMED, *, partitioned: bool = False) -> list[ResultStream]:
        """Start an execution; return its result stream, or one per partition."""
        self.require_open()
        planned = self.engine.plan(query)
        schema = planned.schema
        execution = self.execution(planned, partitioned=partitioned)
        try:
            streams = self.engine.streams(planned, execution, partitioned=partitioned)
        except BaseException:
            execution.release_claims()
            raise
        groups = [[stream] for stream in streams] if partitioned else [streams]
        readers = _Readers(execution, [self._pump(group, schema, execution, read_ahead) for group in groups])
        execution.release()
        if self.closed:
            self.cancel_all("the session was closed")
        return readers.open(schema)

    def statistics(self) -> SessionStatistics:
        """Count the running executions and what they hold, after freeing what the engine has dropped."""
        self.engine.free_dropped()
        running = self._snapshot()
        return SessionStatistics(
            running_queries=len(running),
            waiting_readers=sum(
                pump.channel.statistics().waiting_readers for pumps in running.values() for pump in pumps
            ),
            held_workers=sum(execution.held_workers for execution in running),
        )

    def cancel_all(self, reason: str) -> None:
        """Cancel every execution of the session; their readers raise ClosedError."""
        for execution, pumps in self._snapshot().items():
            for pump in pumps:
                pump.channel.cancel(reason, ClosedError(f"The stream was closed before its end: {reason}."))
            execution.cancel(reason)
            for pump in pumps:
                pump.cancel()

    def _snapshot(self) -> dict[Execution, list[ResultPump]]:
        # In two steps: garbage collection may end an execution, and remove it, during any Python code.
        with self._lock:
            running = self._running.copy()
        return {execution: list(pumps) for execution, pumps in running.items()}

    def _pump(self, streams: list[Any], schema: pa.Schema, execution: Execution, read_ahead: ReadAhead) -> ResultPump:
        channel = Channel("the result", read_ahead.batches, read_ahead.bytes, BatchSizes(schema))
        pump = ResultPump(
            streams,
            schema,
            channel,
            execution,
            translate,
            self.engine.free_dropped,
        )
        with self._lock:
            self._running[execution].append(pump)
        return pump

    def _remove(self, execution: Execution) -> None:
        with self._lock:
            self._running.pop(execution, None)


class _Readers:
    """The readers of one execution; the last one to end cancels it."""

    def __init__(self, execution: Execution, pumps: list[ResultPump]) -> None:
        self._execution = execution
        self._pumps = pumps
        self._lock = threading.RLock()
        self._open = len(pumps)

    def open(self, schema: pa.Schema) -> list[ResultStream]:
        return [
            ResultStream(schema, pump.channel, start=pump.start, on_end=self._canceller(pump)) for pump in self._pumps
        ]

    def _canceller(self, pump: ResultPump) -> Callable[[str], None]:
        def cancel(reason: str) -> None:
            with self._lock:
                self._open -= 1
                last = self._open == 0
            if last:
                self._execution.cancel(reason)
            pump.cancel()

        return cancel
