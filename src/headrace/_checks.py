"""Values that callers give, checked."""

from __future__ import annotations

import math
import threading

from headrace.errors import InvalidArgumentError


def require_count(value: object, what: str) -> int:
    """Return ``value`` if it is a whole number of at least 1.

    Raises:
        InvalidArgumentError: It is not (a bool is not a number here).
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidArgumentError(f"{what} must be a whole number of at least 1, not {value!r}.")
    return value


def require_seconds(value: object, what: str) -> float:
    """Return ``value`` as seconds to wait, no longer than a lock can, which is as good as for ever.

    Raises:
        InvalidArgumentError: It is not a number of at least 0.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value) or value < 0:
        raise InvalidArgumentError(f"{what} must be a number of seconds of at least 0, or None, not {value!r}.")
    return min(float(value), threading.TIMEOUT_MAX)


def kind_of(value: object) -> str:
    """What a value is, for a message that refuses it."""
    return "None" if value is None else f"a {type(value).__qualname__}"
