"""The outcome of an epoch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Landed:
    """The outcome of an epoch.

    Attributes:
        epoch: The epoch.
        version: The version with its rows; None if the epoch had no rows or was skipped.
        was_skipped: Whether the epoch had landed before and was skipped.
        rows: The number of rows in the epoch.
        files: The number of data files; None for ``upsert``, where Lance writes them.
        seconds_writing: Seconds that the tasks took; 0 if not measured.
        seconds_committing: Seconds that the commit took; 0 if not measured.
        null_rows: The number of rows that were null in every column, as Spark reads malformed lines.

    Example:
        >>> landed = headrace.Landed(epoch=3, version=7, rows=100, files=2)
        >>> f"epoch {landed.epoch} is in version {landed.version}"
        'epoch 3 is in version 7'
    """

    epoch: int
    version: int | None = None
    was_skipped: bool = False
    rows: int = 0
    files: int | None = 0
    seconds_writing: float = 0.0
    seconds_committing: float = 0.0
    null_rows: int = 0
