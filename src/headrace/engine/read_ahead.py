"""How far a provider is read ahead: by a few batches, or by many small ones if it returns them in no time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from headrace.channel.channel import Channel

# Enough for provider and engine to overlap, and little memory.
BATCHES = 4
BYTES = 16 * 1024 * 1024
# With so few small batches, pump and engine would wait for each other most of the time. A provider that returns them
# this fast has them at hand, so reading up to a MiB of them ahead costs it nothing.
AT_HAND_BATCHES = 256
_AT_HAND_BYTES = 1024 * 1024
_AT_HAND_SECONDS = 0.0001
_AT_HAND_AFTER = 64
_END = object()


def paced(batches: Iterable[Any], channel: Channel) -> Iterator[Any]:
    """Yield the batches, and set the capacity of the channel that they are written to."""
    source = iter(batches)
    at_hand = 0
    while True:
        started = time.perf_counter()
        batch = next(source, _END)
        seconds = time.perf_counter() - started
        if batch is _END:
            return
        if seconds < _AT_HAND_SECONDS:
            at_hand += 1
            if at_hand == _AT_HAND_AFTER:
                channel.set_capacity(_capacity(channel))
        elif at_hand:
            # Other threads may have delayed this batch, so one slow batch does not end the pace.
            before, at_hand = at_hand, min(at_hand, 4 * _AT_HAND_AFTER) // 2
            if before >= _AT_HAND_AFTER > at_hand:
                channel.set_capacity(BATCHES)
        yield batch


def _capacity(channel: Channel) -> int:
    """Return how many batches of the average size so far fit into a MiB."""
    now = channel.statistics()
    return max(BATCHES, min(AT_HAND_BATCHES, _AT_HAND_BYTES * now.batches // max(1, now.bytes)))
