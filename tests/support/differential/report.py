"""A disagreement in plain words."""

from __future__ import annotations

from support.differential.seeds import Failure
from support.differential.ways import Settings


def described(seed: int, failure: Failure) -> str:
    """The query, the tables, the way and the settings, and what each side said."""
    case = failure.case
    values = {name: getattr(case.settings, name) for name in case.settings.__slots__}
    settings = ", ".join(
        f"{name}={value!r}"
        for name, value in values.items()
        if name == "target_partitions" or value != getattr(Settings(), name)
    )
    lines = [
        f"seed {seed}: {failure.disagreement.kind}, tables registered by {case.way!r}, settings {settings}",
        f"  {case.query.whole}",
        *(f"  {line}" for table in case.tables for line in str(table).splitlines()),
        f"  {failure.disagreement.words}",
    ]
    return "\n".join(lines)
