"""The two kinds of Python table: a pull table reads a provider, a push table reads the channel of a sink."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from headrace._checks import require_count
from headrace.arrow.batches import BatchStream, conform, open_stream, require_no_nulls
from headrace.arrow.schema import require_same_fields, required_columns, same_fields
from headrace.arrow.sizes import BatchSizes
from headrace.channel.channel import Channel, ChannelState
from headrace.engine import read_ahead
from headrace.engine.threads import start_thread
from headrace.errors import CancelledError, ClosedError, ConsumedError, InvalidArgumentError

if TYPE_CHECKING:
    import pyarrow.dataset


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """The columns, rows and partition that one physical scan needs; ``TableProvider.scan_with`` gets it.

    A provider must read the given partition. It may use or ignore the other attributes.

    Attributes:
        columns: The columns that the query reads, never empty. The reader has either exactly these columns in this
            order, or all columns of the table.
        filter: A ``pyarrow.dataset.Expression`` that is true for the rows that the query needs, or None. The engine
            filters again, so the reader may return more rows.
        limit: The number of rows that are enough, or None. The engine drops further rows.
        partition: The partition to read, from 0.
        partitions: The number of partitions: the result of ``TableProvider.partition_count``.

    Example:
        >>> class Numbers(headrace.TableProvider):
        ...     data = pa.table({"x": [1, 2], "y": [3, 4]})
        ...
        ...     def schema(self):
        ...         return self.data.schema
        ...
        ...     def scan(self):
        ...         return self.data
        ...
        ...     def scan_with(self, request):
        ...         print(request.columns, request.partition, "of", request.partitions)
        ...         return self.data.select(request.columns)
        >>> ctx.register_table("numbers", Numbers())
        >>> ctx.sql("SELECT y FROM numbers ORDER BY y").collect().read_all().to_pylist()
        ('y',) 0 of 1
        [{'y': 3}, {'y': 4}]
    """

    columns: tuple[str, ...]
    filter: pyarrow.dataset.Expression | None
    limit: int | None
    partition: int
    partitions: int


class ScanTable(Protocol):
    """The interface of a table that the bridge scans."""

    name: str
    schema: pa.Schema
    partitions: int
    runs_here: bool
    """Whether the query calls the table's code, so that the query raises an interrupt in that code."""

    def claim(self, *, again: bool) -> None:
        """Claim a scan for a query that is about to start."""

    def release(self) -> None:
        """Release a claimed scan: the query was not started."""

    def cancel(self, reason: str) -> None:
        """Cancel a claimed scan: its query has ended."""

    def open(self, request: ScanRequest) -> Channel:
        """Start to read one partition."""


class PullTable:
    """A registered provider.

    A pump thread reads the provider into a small channel, and the engine reads the channel. Provider code never runs
    on a thread of the engine, so it may block or query the same session.
    """

    def __init__(self, name: str, schema: pa.Schema, provider: Any) -> None:
        self.name = name
        self.schema = schema
        self.runs_here = True
        self._provider = provider
        count = getattr(provider, "partition_count", None)
        self.partitions = 1 if count is None else require_count(count(), f"partition_count() of table {name!r}")

    def claim(self, *, again: bool) -> None:
        """Do nothing: a provider can be scanned any number of times."""

    def release(self) -> None:
        """Do nothing: there is no claim."""

    def cancel(self, reason: str) -> None:
        """Do nothing: each scan has its own channel, which the execution cancels."""

    def open(self, request: ScanRequest) -> Channel:
        """Start to read one partition; the batches have the table's columns or the request's."""
        name = f"the scan of table {self.name!r}"
        channel = Channel(name, read_ahead.BATCHES, read_ahead.BYTES, BatchSizes(self.schema))
        pump = ScanPump(self, self._provider, request, channel)
        start_thread(pump.run, f"headrace-scan-{self.name}")
        return channel


class ScanPump:
    """Reads one reader of a provider into a channel, and closes the reader exactly once."""

    def __init__(self, table: PullTable, provider: Any, request: ScanRequest, channel: Channel) -> None:
        self._table = table
        self._provider = provider
        self._request = request
        self._channel = channel

    def run(self) -> None:
        """Read until the end, an error, or the end of the query; then close the reader and end the channel."""
        stream: BatchStream | None = None
        failure: BaseException | None = None
        try:
            stream = self._open()
            self._copy(stream)
        except BaseException as error:  # noqa: BLE001 - the query raises it
            failure = error
        if stream is not None:
            try:
                stream.close()
            except BaseException as error:  # noqa: BLE001 - the query raises it
                failure = failure or error
        if failure is None:
            self._channel.close()
        else:
            # If the query has ended, the channel is cancelled and this does nothing.
            self._channel.fail(failure)

    def _open(self) -> BatchStream:
        scan_with = getattr(self._provider, "scan_with", None)
        source = self._provider.scan() if scan_with is None else scan_with(self._request)
        if source is None:
            raise InvalidArgumentError(
                f"scan() of table {self._table.name!r} returned None.", hint="return a new reader on every call."
            )
        return open_stream(source, f"The return value of scan() of table {self._table.name!r}")

    def _copy(self, stream: BatchStream) -> None:
        reader = f"The reader of table {self._table.name!r}"
        schema = None if stream.schema is None else self._expected(stream.schema, reader)
        required: tuple[int, ...] = ()
        batch_name = f"A batch of table {self._table.name!r}"
        for number, batch in enumerate(read_ahead.paced(stream, self._channel)):
            if self._channel.state is not ChannelState.OPEN:
                return
            if schema is None or number == 0:
                if schema is None:
                    schema = self._expected(getattr(batch, "schema", self._table.schema), batch_name)
                required = required_columns(schema)
            batch = conform(batch, schema, batch_name)
            if required:
                require_no_nulls(batch, required, batch_name)
            self._channel.write(batch)

    def _expected(self, actual: pa.Schema, what: str) -> pa.Schema:
        full = self._table.schema
        if not same_fields(actual, full) and len(self._request.columns) < len(full):
            requested = pa.schema([full.field(name) for name in self._request.columns], full.metadata)
            if same_fields(actual, requested):
                return requested
        require_same_fields(actual, full, what)
        return full


class PushTable:
    """The reading side of a push table: one channel, which one scan claims."""

    partitions = 1
    runs_here = False

    def __init__(self, name: str, schema: pa.Schema, channel: Channel) -> None:
        self.name = name
        self.schema = schema
        self.channel = channel
        self._lock = threading.RLock()
        self._claimed = False

    def claim(self, *, again: bool) -> None:
        """Claim the only scan of the table.

        Args:
            again: Whether the same query has claimed the scan before.

        Raises:
            ConsumedError: The scan is claimed already.
        """
        with self._lock:
            if self._claimed:
                reason = "is scanned twice in this query" if again else "is already consumed"
                raise ConsumedError(
                    f"Streaming table {self.name!r} can be scanned once and {reason}: its batches are streamed to the "
                    "query and not kept.",
                    hint="read it in one place of one query (no self-join, no UNION ALL with itself, no recursion); "
                    "for rows that are read more than once, use register_table or register_arrow.",
                )
            self._claimed = True

    def release(self) -> None:
        """Release the claimed scan: the query was not started."""
        with self._lock:
            self._claimed = False

    def cancel(self, reason: str) -> None:
        """Cancel the channel: the query that claimed the scan has ended. Writes raise ConsumerGoneError."""
        self.channel.cancel(reason, CancelledError(f"The scan of {self.channel.name} was cancelled: {reason}."))

    def fail(self, reason: str) -> None:
        """End an open stream: writes raise ConsumerGoneError, and the query fails after the queued batches."""
        self.channel.fail(
            ClosedError(f"Streaming table {self.name!r} ended before close(): {reason}."), consumer_gone=reason
        )

    def open(self, request: ScanRequest) -> Channel:
        """Return the channel that the producers write to."""
        return self.channel
