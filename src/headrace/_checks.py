"""Checks of argument values: each returns the value or raises InvalidArgumentError."""

from __future__ import annotations

import math
import threading

from headrace.errors import InvalidArgumentError


def require_count(value: object, what: str) -> int:
    """Return ``value`` if it is a whole number of at least 1.

    Raises:
        InvalidArgumentError: ``value`` is not an ``int``, is a ``bool``, or is less than 1.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidArgumentError(f"{what} must be a whole number of at least 1, not {value!r}.")
    return value


def require_seconds(value: object, what: str) -> float:
    """Return ``value`` as seconds to wait, capped at ``threading.TIMEOUT_MAX``.

    Raises:
        InvalidArgumentError: ``value`` is not a number, is NaN, or is less than 0.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value) or value < 0:
        raise InvalidArgumentError(f"{what} must be a number of seconds of at least 0, or None, not {value!r}.")
    return min(float(value), threading.TIMEOUT_MAX)


def kind_of(value: object) -> str:
    """Return the type of ``value`` as words for an error message: ``None`` or ``a list``."""
    return "None" if value is None else f"a {type(value).__qualname__}"
