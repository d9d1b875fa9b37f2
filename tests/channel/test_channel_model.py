"""The channel compared with a model: any sequence of non-blocking calls, one at a time.

The model does with plain lists what the channel does with conditions and counters. For every call that
Hypothesis makes, both must return the same value or raise the same error, and agree on every count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headrace.channel.channel import Channel
from headrace.errors import CancelledError, ClosedError, ConsumerGoneError, WriteTimeoutError

SCHEMA = pa.schema([("x", pa.int64())])
BYTES_PER_ROW = 8
END = "end of stream"


@dataclass
class Model:
    """A channel without threads: a list, two bounds, and its first end."""

    capacity: int
    max_bytes: int | None
    queue: list[pa.RecordBatch] = field(default_factory=list)
    accepted: list[pa.RecordBatch] = field(default_factory=list)
    state: str = "open"
    reader_sees: object = END
    writer_sees: type[Exception] | None = None
    reader_left: bool = False

    @property
    def queued_rows(self) -> int:
        return sum(batch.num_rows for batch in self.queue)

    def write(self, batch: pa.RecordBatch) -> object:
        """Return True if the batch is queued, False if there is no room, or the class of the error."""
        if self.writer_sees is not None:
            return self.writer_sees
        size = (self.queued_rows + batch.num_rows) * BYTES_PER_ROW
        fits = len(self.queue) < self.capacity and (self.max_bytes is None or size <= self.max_bytes)
        if self.queue and not fits:
            return False
        self.queue.append(batch)
        self.accepted.append(batch)
        return True

    def take(self, max_rows: int, max_bytes: int) -> object:
        """Return a list of batches, END, or the error itself."""
        if self.reader_left or not self.queue:
            return self.reader_sees
        taken = [self.queue.pop(0)]
        while self.queue:
            rows = sum(batch.num_rows for batch in taken) + self.queue[0].num_rows
            if rows > max_rows or rows * BYTES_PER_ROW > max_bytes:
                break
            taken.append(self.queue.pop(0))
        return taken

    def end(self, state: str, reader_sees: object, writer_sees: type[Exception]) -> bool:
        if self.state != "open":
            return False
        self.state, self.reader_sees, self.writer_sees = state, reader_sees, writer_sees
        return True

    def leave(self, error: Exception) -> bool:
        if self.reader_left:
            return False
        self.end("cancelled", error, ConsumerGoneError)
        self.reader_left, self.reader_sees, self.queue = True, error, []
        return True


class ChannelMachine(RuleBasedStateMachine):
    """Makes each call on the channel and on its model, and compares."""

    @initialize(capacity=st.integers(1, 4), max_bytes=st.none() | st.integers(1, 80))
    def make(self, capacity: int, max_bytes: int | None) -> None:
        self.channel = Channel("the channel", capacity, max_bytes)
        self.model = Model(capacity, max_bytes)

    @rule(rows=st.integers(0, 12))
    def try_write(self, rows: int) -> None:
        batch = batch_of(rows)
        assert outcome(lambda: self.channel.try_write(batch)) == self.model.write(batch)

    @rule(rows=st.integers(0, 12))
    def write_if_there_is_room_now(self, rows: int) -> None:
        batch = batch_of(rows)
        expected = self.model.write(batch)
        seen = outcome(lambda: self.channel.write(batch, timeout=0))
        assert seen == {True: None, False: WriteTimeoutError}.get(expected, expected)

    @precondition(lambda self: self.model.queue or self.model.state != "open")
    @rule(max_rows=st.integers(0, 30), max_bytes=st.integers(0, 240))
    def take(self, max_rows: int, max_bytes: int) -> None:
        expected = self.model.take(max_rows, max_bytes)
        seen = outcome(lambda: self.channel.take(max_rows, max_bytes) or END, itself=True)
        assert_same(seen, expected)

    @precondition(lambda self: self.model.queue or self.model.state != "open")
    @rule(max_rows=st.integers(0, 30), max_bytes=st.integers(0, 240))
    def take_async(self, max_rows: int, max_bytes: int) -> None:
        """A coroutine that need not wait ends in its first step."""
        expected = self.model.take(max_rows, max_bytes)
        coroutine = self.channel.take_async(max_rows, max_bytes)
        try:
            coroutine.send(None)
        except StopIteration as done:
            assert_same(done.value or END, expected)
        except Exception as error:  # noqa: BLE001 - compared with the model's
            assert_same(error, expected)

    @rule(how=st.sampled_from(["close", "fail", "cancel", "fail from outside"]))
    def end(self, how: str) -> None:
        """One rule makes all four ends; with four rules, most runs would end early."""
        channel, model = self.channel, self.model
        if how == "close":
            assert channel.close() is model.end("closed", END, ClosedError)
        elif how == "fail":
            failure = ValueError("source went away")
            assert channel.fail(failure) is model.end("failed", failure, ClosedError)
        elif how == "cancel":
            error = CancelledError("the reader left")
            assert channel.cancel("nobody reads", error) is model.leave(error)
        else:
            torn_down = ClosedError("the table is gone")
            torn = channel.fail(torn_down, consumer_gone="torn down")
            assert torn is model.end("cancelled", torn_down, ConsumerGoneError)

    @invariant()
    def counts_agree_and_bounds_hold(self) -> None:
        if not hasattr(self, "channel"):
            return
        now, model = self.channel.statistics(), self.model
        assert now.state == self.channel.state.value == model.state
        assert (now.queued, now.queued_rows) == (len(model.queue), model.queued_rows)
        assert now.queued_bytes == model.queued_rows * BYTES_PER_ROW
        assert now.batches == len(model.accepted)
        assert now.rows == sum(batch.num_rows for batch in model.accepted)
        assert now.bytes == now.rows * BYTES_PER_ROW
        assert now.queued <= now.capacity == model.capacity
        assert now.max_bytes == model.max_bytes
        assert now.max_bytes is None or now.queued_bytes <= now.max_bytes or now.queued_rows == model.queue[0].num_rows


def batch_of(rows: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(rows), pa.int64())], schema=SCHEMA)


def outcome(call: Callable[[], object], *, itself: bool = False) -> object:
    """Return what a call returns, or the error that it raises: its class, or the error itself."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - compared with the model's
        return error if itself else type(error)


def assert_same(seen: object, expected: object) -> None:
    """Assert that both are the same batch objects, or the same error object."""
    if isinstance(expected, list):
        assert isinstance(seen, list)
        assert [id(batch) for batch in seen] == [id(batch) for batch in expected]
    else:
        assert seen is expected


def test_the_channel_does_what_its_model_does() -> None:
    """P2, P3, P4, P7, P14, P15, F21: order, bounds and counts are equal, and only the first end takes effect."""
    run_state_machine_as_test(
        ChannelMachine, settings=settings(max_examples=100, stateful_step_count=40, deadline=None)
    )
