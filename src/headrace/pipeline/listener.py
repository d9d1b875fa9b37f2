"""The interface through which a job says what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.pipeline.failures import Failure
    from headrace.pipeline.progress import Progress, Totals


# What a running query does.
WORKING = "working"
IDLE = "idle"
STUCK = "stuck"


class Listener:
    """Hears what a job does; this one ignores it. The job calls it on its thread."""

    def epoch(self, progress: Progress, totals: Totals) -> None:
        """An epoch is done."""

    def activity(self, activity: str) -> None:
        """The query does this now: ``working``, ``idle`` or ``stuck``. Called several times a second."""

    def failed(self, failure: Failure, pause: float | None) -> None:
        """The query failed. It starts again after ``pause`` seconds; with None, the run ends."""

    def restarted(self, failure: Failure) -> None:
        """The query was started again after this failure."""

    def stopping(self) -> None:
        """A stop was requested. Called once."""
