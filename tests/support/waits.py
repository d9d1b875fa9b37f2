"""Who waits in the channels of this process, by their statistics.

A sink has its own statistics. The channels of results and scans have no handle that a test could ask, and are
found by their names.
"""

from __future__ import annotations

import contextlib
import gc

from headrace.channel.channel import Channel

RESULT = "the result"


def waiting_readers(name: str = RESULT) -> int:
    """How many wait for a batch, or for the end, of the channels with this name."""
    found = 0
    for channel in channels(name):
        with contextlib.suppress(AttributeError):  # another thread is just making it
            found += channel.statistics().waiting_readers
    return found


def channels(name: str) -> list[Channel]:
    """The channels of this process with a name. It takes a while to find them: they are looked for everywhere."""
    return [each for each in gc.get_objects() if type(each) is Channel and getattr(each, "name", None) == name]
