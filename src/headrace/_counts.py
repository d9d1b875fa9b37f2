"""Numbers with their nouns, for messages."""

from __future__ import annotations

_ES = ("s", "x", "tch", "sh")


def counted(number: int, noun: str) -> str:
    """Return a number and its noun: ``1 row``, ``1,000 rows``, ``2 batches``.

    Args:
        number: How many there are.
        noun: The noun in the singular, with a regular plural.
    """
    plural = noun + ("es" if noun.endswith(_ES) else "s")
    return f"{number:,} {noun if number == 1 else plural}"
