"""The counters of a channel, as its writers see them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SinkStatistics:
    """A snapshot of a sink's counters; ``TableSink.statistics`` returns one.

    Attributes:
        batches: Batches accepted since the start.
        rows: Rows in the accepted batches.
        bytes: Bytes in the accepted batches; in columns of fixed width, those of their values.
        queued: Batches accepted and not yet taken by the reader.
        queued_rows: Rows in the queued batches.
        queued_bytes: Bytes in the queued batches.
        capacity: The maximum number of queued batches.
        max_bytes: The maximum number of queued bytes, or None for no limit.
        seconds_blocked: Seconds that writers have waited for room, summed over all writers.
        waiting_readers: Readers, threads and coroutines, that now wait for a batch or the end.
        waiting_writers: Writers, threads and coroutines, that now wait for room.
        state: ``open``, ``closed``, ``failed`` or ``cancelled``.

    Example:
        >>> with ctx.register_streaming_table("events", pa.schema([("id", pa.int64())])) as sink:
        ...     sink.write(pa.record_batch({"id": [1, 2]}))
        >>> statistics = sink.statistics()
        >>> statistics.rows, statistics.queued, statistics.state
        (2, 1, 'closed')
    """

    batches: int
    rows: int
    bytes: int
    queued: int
    queued_rows: int
    queued_bytes: int
    capacity: int
    max_bytes: int | None
    seconds_blocked: float
    waiting_readers: int
    waiting_writers: int
    state: str
