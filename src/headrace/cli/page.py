"""The status page beside a run: told all that the display is told, and what the table is like."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.cli.tables import open_store

if TYPE_CHECKING:
    from headrace.cli.display import Display
    from headrace.pipeline.config import Pipeline
    from headrace.pipeline.progress import Progress, Totals
    from headrace.ui import RunStatus

_log = logging.getLogger("headrace.ui")

# The table is counted at most this often, and for no more than this part of the time.
_PAUSE_SECONDS = 1.0
_MOST_OF_THE_TIME = 0.1


@contextmanager
def with_page(shown: Display, pipeline: Pipeline, port: int | None) -> Iterator[Display]:
    """A display that also feeds a status page, while the body runs.

    Args:
        shown: The display there is.
        pipeline: What is run.
        port: The page's port; None for no page.

    Raises:
        ConfigurationError: The port is taken.
        MissingExtraError: The packages for it are not installed.
    """
    if port is None:
        yield shown
        return
    from headrace.ui import RunStatus, serve

    board = RunStatus(pipeline.name, pipeline.table.uri)
    with serve(board, port) as page:
        shown.page(page.url)
        try:
            yield _Told(shown, board, Counter(pipeline))
        except BaseException as error:
            board.fail(str(error) or type(error).__name__)
            raise


class _Told:
    """Tells the display and a board."""

    def __init__(self, shown: Display, board: RunStatus, counter: Counter) -> None:
        self._shown = shown
        self._board = board
        self._counter = counter

    def page(self, url: str) -> None:
        self._shown.page(url)

    def begin(self, pipeline: Pipeline) -> None:
        self._board.begin()
        self._shown.begin(pipeline)

    def epoch(self, progress: Progress, totals: Totals) -> None:
        # The display first: counting may take a moment.
        self._shown.epoch(progress, totals)
        versions, fragments = self._counter.count()
        self._board.epoch(progress, totals, versions=versions, fragments=fragments)

    def stopping(self) -> None:
        self._board.stopping()
        self._shown.stopping()

    def end(self, totals: Totals) -> None:
        self._board.end()
        self._shown.end(totals)


class Counter:
    """Counts a table's versions and fragments, now and then; what goes wrong with that is no business of the run.

    Args:
        pipeline: Whose table.
        clock: Seconds, from any start.
    """

    def __init__(self, pipeline: Pipeline, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._table = pipeline.table
        self._clock = clock
        self._next = float("-inf")
        self._has_complained = False

    def count(self) -> tuple[int | None, int | None]:
        """How many versions the table keeps and how many fragments it has; None for both if it is too early."""
        before = self._clock()
        if before < self._next:
            return None, None
        found: tuple[int | None, int | None] = (None, None)
        try:
            storage = {name: str(value) for name, value in self._table.storage.items()}
            snapshot = open_store(self._table.uri, storage).open()
            found = len(snapshot.kept_versions(above=0)), len(snapshot.dataset.get_fragments())
        except Exception as error:  # noqa: BLE001 - whatever it is, rows land all the same
            log = _log.debug if self._has_complained else _log.warning
            log("The status page goes without versions and fragments: %s", error)
            self._has_complained = True
        after = self._clock()
        self._next = after + max(_PAUSE_SECONDS, (after - before) / _MOST_OF_THE_TIME)
        return found
