"""The two kinds of table: a provider pumped into a channel, and a channel with a sink."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from headrace._checks import require_count
from headrace.arrow.batches import BatchStream, conform, open_stream, require_no_nulls
from headrace.arrow.schema import require_same_fields, required_columns, same_fields
from headrace.channel.channel import Channel, ChannelState
from headrace.engine.threads import start_thread
from headrace.errors import (
    CancelledError,
    ClosedError,
    ConsumedError,
    InvalidArgumentError,
)


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """What one physical scan of a table needs; a provider may use it or ignore it.

    Attributes:
        columns: The columns the query reads, never empty. The reader may have exactly these, in this
            order, or all of the table's.
        filter: A condition, as a ``pyarrow.dataset.Expression``, that leaves out rows the query does not
            want; or None. The engine filters again, so leaving rows in is always right.
        limit: How many rows are enough, or None. Rows past it are dropped.
        partition: Which part of the table to read, from 0.
        partitions: How many parts there are, as ``TableProvider.partition_count`` said.
    """

    columns: tuple[str, ...]
    filter: Any | None
    limit: int | None
    partition: int
    partitions: int


class ScanTable(Protocol):
    """What the bridge needs of a table, pulled or pushed."""

    name: str
    schema: pa.Schema
    partitions: int
    runs_here: bool
    """Whether the table's code is called by the query, so that an interrupt in it is the query's own."""

    def claim(self, *, again: bool) -> None:
        """Take a scan for a query that is about to start."""

    def release(self) -> None:
        """Give a scan back: the query was not started."""

    def cancel(self, reason: str) -> None:
        """The query that took the scan has ended."""

    def open(self, request: ScanRequest) -> Channel:
        """Start to read one partition."""


# What a provider is read ahead of the engine: enough to overlap the two, little enough not to matter.
READ_AHEAD_BATCHES = 4
READ_AHEAD_BYTES = 16 * 1024 * 1024


class PullTable:
    """A registered provider.

    A pump thread reads the provider into a small channel, and the engine only ever drains that. So
    provider code runs on no thread of the engine: it may block, or query the same session.
    """

    def __init__(self, name: str, schema: pa.Schema, provider: Any) -> None:
        self.name = name
        self.schema = schema
        self.runs_here = True
        self._provider = provider
        count = getattr(provider, "partition_count", None)
        self.partitions = 1 if count is None else require_count(count(), f"partition_count() of table {name!r}")

    def claim(self, *, again: bool) -> None:
        """Nothing: a provider is scanned any number of times."""

    def release(self) -> None:
        """Nothing to give back."""

    def cancel(self, reason: str) -> None:
        """Nothing to tell: each scan has a channel of its own."""

    def open(self, request: ScanRequest) -> Channel:
        """Start reading one partition; the channel's batches have the table's columns or the request's."""
        channel = Channel(f"the scan of table {self.name!r}", READ_AHEAD_BATCHES, READ_AHEAD_BYTES)
        pump = ScanPump(self, self._provider, request, channel)
        start_thread(pump.run, f"headrace-scan-{self.name}")
        return channel


class ScanPump:
    """One provider reader, read into one channel and closed exactly once."""

    def __init__(self, table: PullTable, provider: Any, request: ScanRequest, channel: Channel) -> None:
        self._table = table
        self._provider = provider
        self._request = request
        self._channel = channel

    def run(self) -> None:
        """Read to the end, to an error, or until the query leaves; then close."""
        stream: BatchStream | None = None
        failure: BaseException | None = None
        try:
            stream = self._open()
            self._copy(stream)
        except BaseException as error:  # noqa: BLE001 - handed to the query
            failure = error
        if stream is not None:
            try:
                stream.close()
            except BaseException as error:  # noqa: BLE001 - handed to the query
                failure = failure or error
        if failure is None:
            self._channel.close()
        else:
            # Where the query has left already, this changes nothing: the first end stands.
            self._channel.fail(failure)

    def _open(self) -> BatchStream:
        scan_with = getattr(self._provider, "scan_with", None)
        source = self._provider.scan() if scan_with is None else scan_with(self._request)
        if source is None:
            raise InvalidArgumentError(
                f"scan() of table {self._table.name!r} returned None.", hint="return a fresh reader on every call."
            )
        return open_stream(source, f"What scan() of table {self._table.name!r} returns")

    def _copy(self, stream: BatchStream) -> None:
        reader = f"The reader of table {self._table.name!r}"
        schema = None if stream.schema is None else self._expected(stream.schema, reader)
        required: tuple[int, ...] = ()
        batch_name = f"A batch of table {self._table.name!r}"
        for number, batch in enumerate(stream):
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
            asked = pa.schema([full.field(name) for name in self._request.columns], full.metadata)
            if same_fields(actual, asked):
                return asked
        require_same_fields(actual, full, what)
        return full


class PushTable:
    """The reading side of a push table: one channel, claimed by one scan."""

    partitions = 1
    runs_here = False

    def __init__(self, name: str, schema: pa.Schema, channel: Channel) -> None:
        self.name = name
        self.schema = schema
        self.channel = channel
        self._lock = threading.RLock()
        self._claimed = False

    def claim(self, *, again: bool) -> None:
        """Take the one scan there is.

        Args:
            again: Whether the query that asks is the one that took it.

        Raises:
            ConsumedError: It was taken.
        """
        with self._lock:
            if self._claimed:
                reason = "is scanned twice in this query" if again else "is already consumed"
                raise ConsumedError(
                    f"Streaming table {self.name!r} can be scanned once and {reason}: its batches are handed on as "
                    "they come and kept nowhere.",
                    hint="read it in one place of one query (no self-join, no UNION ALL with itself, no recursion); "
                    "for rows that are read again, use register_table or register_arrow.",
                )
            self._claimed = True

    def release(self) -> None:
        """Give the scan back: the query was not started after all."""
        with self._lock:
            self._claimed = False

    def cancel(self, reason: str) -> None:
        """The query that claimed the scan has ended; tell the writers."""
        self.channel.cancel(reason, CancelledError(f"The scan of {self.channel.name} was cancelled: {reason}."))

    def fail(self, reason: str) -> None:
        """End the stream from outside, unless it has ended: writers are told, a reader gets an error."""
        self.channel.fail(ClosedError(f"Streaming table {self.name!r} was cut off: {reason}."), consumer_gone=reason)

    def open(self, request: ScanRequest) -> Channel:
        """The channel the producers write to."""
        return self.channel
