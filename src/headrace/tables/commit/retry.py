"""The one retry loop: after a conflict with another writer, wait a little and start over."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from headrace.errors import CommitConflictError

Result = TypeVar("Result")
Pause = Callable[[float], object]

# A fence conflicts with every concurrent append: on a busy table it takes several attempts.
ATTEMPTS = 100
_LONGEST_PAUSE_SECONDS = 0.02


def until_committed(
    attempt: Callable[[bool], Result | None], what: str, *, hint: str, pause: Pause = time.sleep
) -> Result:
    """Call ``attempt`` until it returns a result.

    Args:
        attempt: Called with whether an earlier attempt met a conflict. It returns None to be called again, and may
            raise a retryable CommitConflictError; what else it raises ends the loop.
        what: What is attempted, as the subject of the error's sentence.
        hint: What to do when every attempt has failed.
        pause: Called with seconds before each attempt that follows a conflict.

    Raises:
        CommitConflictError: No attempt returned a result, or one met a conflict that permits no other.
    """
    conflict: CommitConflictError | None = None
    for _ in range(ATTEMPTS):
        if conflict is not None:
            pause(random.uniform(0, _LONGEST_PAUSE_SECONDS))
        try:
            result = attempt(conflict is not None)
        except CommitConflictError as error:
            if not error.retryable:
                raise
            conflict = error
            continue
        if result is not None:
            return result
    raise CommitConflictError(f"{what} met {ATTEMPTS} concurrent changes in a row: {conflict}", hint=hint)
