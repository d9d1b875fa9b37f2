"""The pump that merges the streams of a result: the order in which streams end loses no error."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator

import pyarrow as pa
import pytest

from headrace import HeadraceError
from headrace.channel.channel import Channel
from headrace.engine.execution import Execution, ScanRules
from headrace.engine.pump import ResultPump
from support.background import SECONDS

SCHEMA = pa.schema([("x", pa.int64())])


class Stream:
    """A stream of the engine without rows, which ends or fails when it may."""

    def __init__(self, may_end: threading.Event, error: Exception | None = None) -> None:
        self._may_end = may_end
        self._error = error

    def __iter__(self) -> Iterator[None]:
        return self

    def __next__(self) -> None:
        assert self._may_end.wait(SECONDS)
        if self._error is not None:
            raise self._error
        raise StopIteration


def test_a_stream_that_ends_while_another_fails_does_not_make_the_result_look_complete() -> None:
    """S9, P4: the failing stream is still translating its error when the last of the others ends."""
    at_once, is_translating, other_is_released = threading.Event(), threading.Event(), threading.Event()
    at_once.set()
    other = Stream(is_translating)
    weakref.finalize(other, other_is_released.set)

    def translate(error: BaseException, execution: Execution) -> BaseException:
        is_translating.set()
        assert other_is_released.wait(SECONDS)
        return HeadraceError(str(error))

    execution = Execution({}, ScanRules(max_rows=1, exact_sizes=False, shares=1, is_live=True), lambda ended: None)
    channel = Channel("the result", 4)
    streams = [Stream(at_once, ValueError("source went away")), other]
    del other
    pump = ResultPump(streams, SCHEMA, channel, execution, translate, lambda: None)
    del streams
    pump.start()
    with pytest.raises(HeadraceError, match="source went away"):
        channel.take(1, 1)
