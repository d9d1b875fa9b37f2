"""A listener of a pipeline's job that notes what it hears."""

from __future__ import annotations

from collections.abc import Callable

from headrace.pipeline.failures import Failure
from headrace.pipeline.listener import Listener
from headrace.pipeline.progress import Progress, Totals


class Hearing(Listener):
    """Notes failures, restarts and activities.

    Args:
        on_epoch: Called with each epoch, and the totals so far.
        on_failure: Called with each failure.
    """

    def __init__(
        self,
        on_epoch: Callable[[Progress, Totals], object] = lambda *_: None,
        on_failure: Callable[[Failure], object] = lambda _: None,
    ) -> None:
        self._on_epoch = on_epoch
        self._on_failure = on_failure
        self.failures: list[tuple[str, float | None]] = []
        self.restarts: list[str] = []
        self.activities: set[str] = set()

    def epoch(self, progress: Progress, totals: Totals) -> None:
        self._on_epoch(progress, totals)

    def activity(self, activity: str) -> None:
        self.activities.add(activity)

    def failed(self, failure: Failure, pause: float | None) -> None:
        self.failures.append((failure.kind, pause))
        self._on_failure(failure)

    def restarted(self, failure: Failure) -> None:
        self.restarts.append(failure.kind)
