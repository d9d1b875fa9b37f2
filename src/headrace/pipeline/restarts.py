"""Whether and when a failed query is started again."""

from __future__ import annotations

import random
from collections.abc import Callable

from headrace.pipeline.config import Run
from headrace.pipeline.durations import seconds_of
from headrace.pipeline.failures import Failure

_FIRST_PAUSE = 1.0
# A pause is shortened by up to this share, at random: pipelines that failed together do not come back together.
_SPREAD = 0.25


class RestartPolicy:
    """Decides after each failure of a query; `succeeded` starts its count again.

    Args:
        run: The section [run] of the pipeline file.
        follow: Whether the query keeps running when all rows have landed.
        chance: Returns a random number from 0 to 1.
    """

    def __init__(self, run: Run, *, follow: bool, chance: Callable[[], float] = random.random) -> None:
        self._restarts = (run.restart or ("on-failure" if follow else "never")) == "on-failure"
        self._most = run.max_restarts
        self._longest = seconds_of(run.max_pause) or _FIRST_PAUSE
        self._chance = chance
        self._in_a_row = 0
        self._has_succeeded = False

    def succeeded(self) -> None:
        """Record that an epoch has ended, or that the query waits for rows."""
        self._in_a_row = 0
        self._has_succeeded = True

    def pause_after(self, failure: Failure) -> float | None:
        """Return the seconds to wait before the query is started again; None if it is not."""
        if not self._restarts or not failure.may_pass:
            return None
        if failure.kind == "access" and not self._has_succeeded:
            # Credentials that have never worked are wrong; those that have worked may be renewed.
            return None
        if self._most is not None and self._in_a_row >= self._most:
            return None
        pause = min(_FIRST_PAUSE * 2.0 ** min(self._in_a_row, 32), self._longest)
        self._in_a_row += 1
        return pause * (1 - _SPREAD * self._chance())
