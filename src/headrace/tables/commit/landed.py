"""What became of an epoch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Landed:
    """What became of an epoch.

    Attributes:
        epoch: The epoch.
        version: The version that holds its rows; None if it had none, or had landed before.
        was_skipped: Whether it had landed before.
        rows: How many rows it brought.
        files: How many data files; None for ``upsert``, where Lance writes them.
        seconds_writing: How long the tasks took; 0 where that was not measured.
        seconds_committing: How long the commit took; 0 where that was not measured.
    """

    epoch: int
    version: int | None = None
    was_skipped: bool = False
    rows: int = 0
    files: int | None = 0
    seconds_writing: float = 0.0
    seconds_committing: float = 0.0
