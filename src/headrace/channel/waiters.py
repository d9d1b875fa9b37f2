"""Coroutines that wait for something other threads do."""

from __future__ import annotations

import asyncio


class AsyncWaiter:
    """One coroutine's place in a list of waiters; woken from any thread."""

    def __init__(self, waiters: list[AsyncWaiter]) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiters = waiters
        self.future: asyncio.Future[None] = self._loop.create_future()
        waiters.append(self)

    def remove(self) -> None:
        """Leave the list."""
        if self in self._waiters:
            self._waiters.remove(self)

    def wake(self) -> None:
        """Resolve the future, on its own loop."""
        try:
            self._loop.call_soon_threadsafe(_resolve, self.future)
        except RuntimeError:
            # The loop was closed with the coroutine still waiting: nobody is left to tell.
            return


def wake_all(waiters: list[AsyncWaiter]) -> None:
    """Wake every waiter of a list, and empty it."""
    while waiters:
        waiters.pop().wake()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
