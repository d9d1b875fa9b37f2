"""A disagreement in plain words."""

from __future__ import annotations

from support.differential.seeds import Failure


def described(seed: int, failure: Failure) -> str:
    """The query, the tables, the way and the settings, and what each side said."""
    case = failure.case
    settings = ", ".join(
        f"{name}={getattr(case.settings, name)!r}" for name in case.settings.__slots__ if getattr(case.settings, name)
    )
    lines = [
        f"seed {seed}: {failure.disagreement.kind}, tables registered by {case.way!r}, settings {settings}",
        f"  {case.query.whole}",
        *(f"  {line}" for table in case.tables for line in str(table).splitlines()),
        f"  {failure.disagreement.words}",
    ]
    return "\n".join(lines)
