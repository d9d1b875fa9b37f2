"""Coroutines that wait for a wake-up from another thread.

asyncio is imported with the first of them: a process that uses none, such as a task of Spark, starts faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


class AsyncWaiter:
    """One waiting coroutine in a list of waiters; any thread may wake it."""

    def __init__(self, waiters: list[AsyncWaiter]) -> None:
        import asyncio

        self._loop = asyncio.get_running_loop()
        self._waiters = waiters
        self.future: asyncio.Future[None] = self._loop.create_future()
        waiters.append(self)

    def remove(self) -> None:
        """Remove this waiter from the list."""
        if self in self._waiters:
            self._waiters.remove(self)

    def wake(self) -> None:
        """Resolve the future on its event loop."""
        try:
            self._loop.call_soon_threadsafe(_resolve, self.future)
        except RuntimeError:
            # The loop was closed while the coroutine waited: there is nothing to wake.
            return


def wake_all(waiters: list[AsyncWaiter]) -> None:
    """Wake every waiter and empty the list."""
    while waiters:
        waiters.pop().wake()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
