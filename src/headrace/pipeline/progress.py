"""How a pipeline is getting on, epoch by epoch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.tables.commit.landed import Landed

# Spark's names of what it does in an epoch, by ours.
_PHASES = {
    "reading ahead": ("latestOffset", "getOffset", "setOffsetRange", "getEndOffset"),
    "planning": ("getBatch", "queryPlanning"),
    "noting": ("walCommit", "commitOffsets", "commitBatch"),
}
# Only a trigger that runs an epoch has this one.
_RUNS = "addBatch"
# Kafka's.
_BEHIND = "avgOffsetsBehindLatest"


@dataclass(frozen=True, slots=True)
class Progress:
    """One epoch.

    Attributes:
        epoch: Its number.
        rows_in: Rows that the source gave.
        rows_landed: Rows that came into the table.
        rows_per_second: Rows that the source gave, per second of the epoch.
        seconds: How long it took.
        phases: That, in parts.
        version: The table's version that holds its rows, if it has one.
        was_skipped: Whether it had landed before.
        lag: How far behind its source the pipeline is, and in what; None if the source does not tell, as files do not.
    """

    epoch: int
    rows_in: int
    rows_landed: int
    rows_per_second: float
    seconds: float
    phases: Mapping[str, float]
    version: int | None = None
    was_skipped: bool = False
    lag: tuple[int, str] | None = None


@dataclass(slots=True)
class Totals:
    """All epochs of a run so far.

    Attributes:
        epochs: Epochs that landed.
        skipped: Epochs that had landed before.
        empty: Epochs without rows.
        rows: Rows that landed.
        version: The newest version of the table that is known.
    """

    epochs: int = 0
    skipped: int = 0
    empty: int = 0
    rows: int = 0
    version: int | None = None

    def add(self, progress: Progress) -> None:
        """One epoch more."""
        self.version = progress.version if progress.version is not None else self.version
        if progress.was_skipped:
            self.skipped += 1
        elif progress.version is None:
            self.empty += 1
        else:
            self.epochs += 1
            self.rows += progress.rows_landed


@dataclass
class Reports:
    """What the sink has told of epochs of which Spark has yet to tell."""

    landed: dict[int, Landed] = field(default_factory=dict)

    def note(self, landed: Landed) -> None:
        """The sink is done with an epoch."""
        self.landed[landed.epoch] = landed

    def progress(self, rowless_before: Mapping[str, Any]) -> Progress | None:
        """What Spark and the sink say of an epoch together; None if Spark's event is about no epoch, or an older one.

        While a query is idle, Spark reports triggers that found nothing, under the number that the next epoch gets.
        """
        durations: Mapping[str, int] = rowless_before.get("durationMs") or {}
        if _RUNS not in durations:
            return None
        landed = self.landed.pop(int(rowless_before["batchId"]), None)
        if landed is None:
            return None
        seconds = durations.get("triggerExecution", 0) / 1000
        phases = {name: sum(durations.get(each, 0) for each in parts) / 1000 for name, parts in _PHASES.items()}
        phases |= {"writing": landed.seconds_writing, "committing": landed.seconds_committing}
        rows = sum(int(source.get("numInputRows", 0)) for source in rowless_before.get("sources", []))
        return Progress(
            landed.epoch,
            rows,
            landed.rows,
            rows / seconds if seconds else 0.0,
            seconds,
            phases,
            landed.version,
            landed.was_skipped,
            _lag(rowless_before.get("sources", [])),
        )


def _lag(sources: list[Mapping[str, Any]]) -> tuple[int, str] | None:
    for source in sources:
        metrics = source.get("metrics") or {}
        if _BEHIND in metrics:
            return round(float(metrics[_BEHIND])), "offsets"
        end, latest = _offset(source.get("endOffset")), _offset(source.get("latestOffset"))
        if isinstance(end, Mapping) and isinstance(latest, Mapping) and "version" in end and "version" in latest:
            return max(0, int(latest["version"]) - int(end["version"])), "versions"
    return None


def _offset(rowless_before: Any) -> Any:
    """An offset, which comes as JSON or as what that means, by the version of Spark."""
    if not isinstance(rowless_before, str):
        return rowless_before
    try:
        return json.loads(rowless_before)
    except ValueError:
        return None
