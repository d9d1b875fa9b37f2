"""The status page of a run: receives what the display receives, and counts the table's versions and fragments."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.cli.display import Display

if TYPE_CHECKING:
    from headrace.pipeline.config import Pipeline, TableConfig
    from headrace.pipeline.failures import Failure
    from headrace.pipeline.progress import Progress, Totals
    from headrace.ui import RunStatus

_log = logging.getLogger("headrace.ui")

# Count at most once in this many seconds, and spend at most this share of the time on it.
_PAUSE_SECONDS = 1.0
_MAX_SHARE = 0.1


@contextmanager
def with_status_page(shown: Display, pipeline: Pipeline, port: int | None) -> Iterator[Display]:
    """Yield a display that also updates a status page, which is served while the body runs.

    Args:
        shown: The display to pass everything on to.
        pipeline: The pipeline that runs.
        port: The page's port; None for no page.

    Raises:
        ConfigurationError: The port is in use.
        MissingExtraError: The packages of the status page are not installed.
    """
    if port is None:
        yield shown
        return
    from headrace.ui import RunStatus, serve

    status = RunStatus(pipeline.name, pipeline.table.label)
    with serve(status, port) as page:
        shown.page(page.url)
        try:
            yield _WithStatus(shown, status, Counter(pipeline))
        except BaseException as error:
            status.fail(str(error) or type(error).__name__)
            raise


class _WithStatus(Display):
    """A display that also updates a RunStatus."""

    def __init__(self, shown: Display, status: RunStatus, counter: Counter) -> None:
        self._shown = shown
        self._status = status
        self._counter = counter

    def page(self, url: str) -> None:
        self._shown.page(url)

    def begin(self, pipeline: Pipeline) -> None:
        self._status.begin()
        self._shown.begin(pipeline)

    def epoch(self, progress: Progress, totals: Totals) -> None:
        # The display first: counting can be slow.
        self._shown.epoch(progress, totals)
        versions, fragments = self._counter.count()
        self._status.epoch(progress, totals, versions=versions, fragments=fragments)

    def activity(self, activity: str) -> None:
        self._status.activity(activity)
        self._shown.activity(activity)

    def failed(self, failure: Failure, pause: float | None) -> None:
        self._status.down(failure, pause)
        self._shown.failed(failure, pause)

    def restarted(self, failure: Failure) -> None:
        self._status.restarted(failure)
        self._shown.restarted(failure)

    def stopping(self) -> None:
        self._status.stopping()
        self._shown.stopping()

    def end(self, totals: Totals) -> None:
        self._status.end()
        self._shown.end(totals)


def count_table(table: TableConfig) -> tuple[int, int]:
    """Return the number of kept versions and of fragments of a pipeline's table.

    Raises:
        HeadraceError: The table does not exist or cannot be read.
    """
    from headrace.tables.lance_store import LanceStore

    snapshot = LanceStore(table.location).open()
    return len(snapshot.kept_versions(above=0)), len(snapshot.dataset.get_fragments())


class Counter:
    """Counts a table's versions and fragments from time to time. Failures are logged and do not affect the run.

    Args:
        pipeline: The pipeline whose table is counted.
        count: Counts versions and fragments.
        clock: A monotonic clock, in seconds.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        count: Callable[[TableConfig], tuple[int, int]] = count_table,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._table = pipeline.table
        self._count = count
        self._clock = clock
        self._next = float("-inf")
        self._has_warned = False

    def count(self) -> tuple[int | None, int | None]:
        """Return the number of kept versions and of fragments; None for both if it is too early or failed."""
        before = self._clock()
        if before < self._next:
            return None, None
        found: tuple[int | None, int | None] = (None, None)
        try:
            found = self._count(self._table)
        except Exception as error:  # noqa: BLE001 - the run does not depend on these numbers
            log = _log.debug if self._has_warned else _log.warning
            log("The status page cannot show versions and fragments: %s", error)
            self._has_warned = True
        after = self._clock()
        self._next = after + max(_PAUSE_SECONDS, (after - before) / _MAX_SHARE)
        return found
