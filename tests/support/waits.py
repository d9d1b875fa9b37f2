"""Which threads wait in a channel. Every wait of a session goes through one, and is noted here.

To look at what another thread runs, by its frames, is not safe in Python 3.11: it may crash the process or hang it.
"""

from __future__ import annotations

import threading

from headrace.channel.channel import Channel

_waiting: set[int] = set()
_wait = Channel._wait


def _noted(channel: Channel, condition: threading.Condition, seconds: float) -> None:
    _waiting.add(threading.get_ident())
    try:
        _wait(channel, condition, seconds)
    finally:
        _waiting.discard(threading.get_ident())


Channel._wait = _noted  # type: ignore[method-assign]


def is_waiting(thread: threading.Thread) -> bool:
    """Whether a thread waits for a batch, for room, or for an end. It has the channel's lock until it really does."""
    return thread.ident in _waiting
