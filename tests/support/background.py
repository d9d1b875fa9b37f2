"""A call on a separate thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from support.waits import waiting_readers

if TYPE_CHECKING:
    from headrace import TableSink
    from headrace.channel.channel import Channel

SECONDS = 5.0


class Background(threading.Thread):
    """A thread that keeps what its function returned or raised, and can be waited for until it is blocked."""

    def __init__(self, function: Callable[..., Any], *arguments: Any, daemon: bool = True) -> None:
        super().__init__(daemon=daemon)
        self._function = function
        self._arguments = arguments
        self._returned: Any = None
        self._raised: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._returned = self._function(*self._arguments)
        except BaseException as error:  # noqa: BLE001 - raised again in result()
            self._raised = error
        # A producer that is done holds its sink no longer.
        del self._function, self._arguments

    def until_write_blocks(self, where: Channel | TableSink, writers: int = 1) -> Background:
        """Wait until this number of writers wait for room, this thread last among them."""
        return self._until(lambda: where.statistics().waiting_writers >= writers)

    def until_read_blocks(self, where: Channel | None = None) -> Background:
        """Wait until a reader waits for a batch or for the end: of a channel, or of a query's result."""
        return self._until(waiting_readers if where is None else lambda: where.statistics().waiting_readers)

    def _until(self, is_blocked: Callable[[], object]) -> Background:
        deadline = time.monotonic() + SECONDS
        while not is_blocked():
            assert self.is_alive(), f"not blocked: {self._returned!r}, {self._raised!r}"
            assert time.monotonic() < deadline, "the thread did not block"
            time.sleep(0.0005)
        return self

    def is_done_after(self, seconds: float) -> bool:
        self.join(seconds)
        return not self.is_alive()

    def outcome(self, seconds: float = SECONDS) -> tuple[Any, BaseException | None]:
        assert self.is_done_after(seconds), f"still running after {seconds} s"
        return self._returned, self._raised

    def result(self, seconds: float = SECONDS) -> Any:
        returned, raised = self.outcome(seconds)
        if raised is not None:
            raise raised
        return returned

    def error(self, seconds: float = SECONDS) -> BaseException | None:
        return self.outcome(seconds)[1]
