"""Shared by the channel's tests: batches of known size, calls that block, and the four ways to end a channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pytest

from headrace.channel.channel import Channel, ChannelState
from headrace.errors import CancelledError, ClosedError, ConsumerGoneError, HeadraceError

SCHEMA = pa.schema([("x", pa.int64())])


def batch(*values: int) -> pa.RecordBatch:
    """Return a batch of one row per value, eight bytes each."""
    return pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA)


def values(batches: list[pa.RecordBatch]) -> list[list[int]]:
    return [each["x"].to_pylist() for each in batches]


def take_one(channel: Channel) -> pa.RecordBatch | None:
    """Take one batch, or return None at the end: take returns at least one batch, however small its limits are."""
    return next(iter(channel.take(0, 0)), None)


def full_channel(capacity: int = 1) -> Channel:
    channel = Channel("the channel", capacity)
    for number in range(capacity):
        channel.write(batch(number))
    return channel


FAILURE = ValueError("source went away")
LEFT = CancelledError("the reader left")
TORN_DOWN = ClosedError("the table is gone")


class End(NamedTuple):
    """How a channel ends, and what its writers and its reader must then get."""

    end: Callable[[Channel], bool]
    state: ChannelState
    writer_error: type[HeadraceError]
    writer_message: str
    reader_error: BaseException | None
    keeps_queued: bool = True


ENDS = {
    "close": End(Channel.close, ChannelState.CLOSED, ClosedError, "it was closed", None),
    "fail": End(
        lambda channel: channel.fail(FAILURE),
        ChannelState.FAILED,
        ClosedError,
        "it was failed with ValueError",
        FAILURE,
    ),
    "cancel": End(
        lambda channel: channel.cancel("nobody reads", LEFT),
        ChannelState.CANCELLED,
        ConsumerGoneError,
        "its consumer is gone: nobody reads",
        LEFT,
        keeps_queued=False,
    ),
    "fail from outside": End(
        lambda channel: channel.fail(TORN_DOWN, consumer_gone="torn down"),
        ChannelState.CANCELLED,
        ConsumerGoneError,
        "its consumer is gone: torn down",
        TORN_DOWN,
    ),
}
each_end = pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
