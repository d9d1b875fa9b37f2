"""Amounts in people's units: how far a pipeline is behind its source."""

from __future__ import annotations

from collections.abc import Mapping

_STEP = 1000
_SIZES = ("kB", "MB", "GB", "TB", "PB")


def lag_text(lag: Mapping[str, int]) -> str:
    """Return a lag such as ``3 files, 1.2 MB``; empty if it is not known."""
    return ", ".join(amount(value, unit) for unit, value in lag.items())


def amount(value: int, unit: str) -> str:
    """Return a number with its unit, bytes in a larger one."""
    if unit == "bytes" and value >= _STEP:
        size, steps = value / _STEP, 0
        while round(size, 1) >= _STEP and steps < len(_SIZES) - 1:
            size, steps = size / _STEP, steps + 1
        return f"{size:.1f} {_SIZES[steps]}"
    return f"{value:,} {unit.removesuffix('s') if value == 1 else unit}"
