"""Durations in a pipeline file: a number and a unit, such as ``90 seconds``."""

from __future__ import annotations

import re

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+?)s?")


def seconds_of(text: str) -> float | None:
    """Return the seconds in a duration; None if it is not a number and a unit, or is 0."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or found[2] not in _SECONDS:
        return None
    return float(found[1]) * _SECONDS[found[2]] or None
