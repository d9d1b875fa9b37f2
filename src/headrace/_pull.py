"""A provider's rows on their way to the engine: read ahead by a thread of their own, checked, bounded."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headrace import _runtime
from headrace._arrow import BatchStream, conform, open_stream, require_no_nulls
from headrace._arrow_schema import require_same_fields, required_columns, same_fields
from headrace._channel import Channel, ChannelState
from headrace._errors import InvalidArgumentError
from headrace._numbers import require_count
from headrace._provider import ScanRequest

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

    def unclaim(self) -> None:
        """Nothing to give back."""

    def leave(self, reason: str) -> None:
        """Nothing to tell: each scan has a channel of its own."""

    def open(self, request: ScanRequest) -> Channel:
        """Start reading one partition; the channel's batches have the table's columns or the request's."""
        channel = Channel(f"the scan of table {self.name!r}", READ_AHEAD_BATCHES, READ_AHEAD_BYTES)
        pump = _Pump(self, self._provider, request, channel)
        _runtime.start_thread(pump.run, f"headrace-scan-{self.name}")
        return channel


class _Pump:
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
