"""What the tests of the channel share: batches of known size, calls that block, and the four ways a channel ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from waits import is_waiting

from headrace._channel import Channel, ChannelState
from headrace._errors import CancelledError, ClosedError, ConsumerGoneError, HeadraceError

SCHEMA = pa.schema([("x", pa.int64())])
SECONDS = 5.0


def batch(*values: int) -> pa.RecordBatch:
    """Eight bytes a row."""
    return pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA)


def values(batches: list[pa.RecordBatch]) -> list[list[int]]:
    return [each["x"].to_pylist() for each in batches]


def take_one(channel: Channel) -> pa.RecordBatch | None:
    """One batch, or None at the end: no limit is so small that nothing is taken."""
    return next(iter(channel.drain(0, 0)), None)


def full_channel(capacity: int = 1) -> Channel:
    channel = Channel("the channel", capacity)
    for number in range(capacity):
        channel.write(batch(number))
    return channel


class Background:
    """A call on a thread of its own, which can be waited for until it is blocked."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._future: Future[Any] = Future()
        self._thread = threading.Thread(target=self._run, args=(function, arguments), daemon=True)
        self._thread.start()

    def _run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        try:
            self._future.set_result(function(*arguments))
        except BaseException as error:  # noqa: BLE001 - raised again by result()
            self._future.set_exception(error)

    @property
    def ident(self) -> int:
        assert self._thread.ident is not None
        return self._thread.ident

    def until_blocked(self) -> Background:
        """Wait until the thread is inside a Condition's wait: its lock is then free, or about to be."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            assert not self._future.done(), f"not blocked: {self._future}"
            if is_waiting(self._thread):
                return self
            time.sleep(0.0005)
        raise AssertionError("the thread did not block")

    def is_done_after(self, seconds: float) -> bool:
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def result(self) -> Any:
        return self._future.result(SECONDS)


FAILURE = ValueError("source went away")
LEFT = CancelledError("the reader left")
TORN_DOWN = ClosedError("the table is gone")


class End(NamedTuple):
    """How a channel ends and what both sides must then see."""

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
    "abandon": End(
        lambda channel: channel.abandon(TORN_DOWN, "torn down"),
        ChannelState.CANCELLED,
        ConsumerGoneError,
        "its consumer is gone: torn down",
        TORN_DOWN,
    ),
}
each_end = pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
