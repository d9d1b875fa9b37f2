"""One partition of a table that several scans read together, so that several cores process its batches."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable

from headrace.channel.channel import Channel


class SharedScan:
    """The channel of one partition, opened by the first of its scans and cancelled after the last has left.

    Args:
        scans: The number of scans that share the channel.
    """

    def __init__(self, scans: int) -> None:
        self.scans = scans
        self._left = scans
        self._channel: Channel | None = None
        # Reentrant: a finalizer leaves.
        self._lock = threading.RLock()

    def open(self, start: Callable[[], Channel]) -> Channel:
        """Return the channel; the first call starts to fill it."""
        with self._lock:
            if self._channel is None:
                self._channel = start()
            return self._channel

    def leave(self, reason: str) -> None:
        """Leave the channel; called once by each scan."""
        with self._lock:
            self._left -= 1
            channel = None if self._left else self._channel
        if channel is not None:
            channel.cancel(reason)


class SharedPartition:
    """One partition of one physical scan of a table.

    Args:
        number: The partition's number.
        shares: The number of scans that share it.
    """

    def __init__(self, number: int, shares: int) -> None:
        self.number = number
        self._scans: defaultdict[int, SharedScan] = defaultdict(lambda: SharedScan(shares))
        self._lock = threading.Lock()

    def scan(self, time: int) -> SharedScan:
        """Return what the scans share when the plan is executed for the n-th time, from 0."""
        with self._lock:
            return self._scans[time]
