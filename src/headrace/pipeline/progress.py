"""The progress of a pipeline, per epoch and in total."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.pipeline.file_lag import FileLag
    from headrace.tables.commit.landed import Landed

# Our phases of an epoch, each with Spark's names in durationMs.
_PHASES = {
    "reading ahead": ("latestOffset", "getOffset", "setOffsetRange", "getEndOffset"),
    "planning": ("getBatch", "queryPlanning"),
    "noting": ("walCommit", "commitOffsets", "commitBatch"),
}
# Present only in the progress of a trigger that ran an epoch.
_RUNS = "addBatch"
# A metric of the Kafka source.
_BEHIND = "avgOffsetsBehindLatest"
# In an offset of the file source.
_FILE_BATCH = "logOffset"


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of one epoch.

    Attributes:
        epoch: The epoch's number.
        rows_in: Rows read from the source.
        rows_landed: Rows that landed in the table.
        rows_per_second: Rows read from the source, per second of the epoch.
        seconds: The epoch's duration.
        phases: The seconds of each phase.
        version: The version that landed its rows; None if it had none.
        was_skipped: Whether it was skipped because it had landed before.
        lag: How far the pipeline is behind its source, by unit; empty if it is not known.
        null_rows: Rows that landed and are null in every column.
    """

    epoch: int
    rows_in: int
    rows_landed: int
    rows_per_second: float
    seconds: float
    phases: Mapping[str, float]
    version: int | None = None
    was_skipped: bool = False
    lag: Mapping[str, int] = field(default_factory=dict)
    null_rows: int = 0


@dataclass(slots=True)
class Totals:
    """The totals of a run so far.

    Attributes:
        epochs: Epochs that landed.
        skipped: Epochs that were skipped because they had landed before.
        empty: Epochs without rows.
        rows: Rows that landed.
        version: The newest known version of the table.
        null_rows: Rows that landed and are null in every column.
    """

    epochs: int = 0
    skipped: int = 0
    empty: int = 0
    rows: int = 0
    version: int | None = None
    null_rows: int = 0

    @property
    def ended(self) -> int:
        """All epochs that have ended."""
        return self.epochs + self.skipped + self.empty

    def add(self, progress: Progress) -> None:
        """Add one epoch."""
        self.version = progress.version if progress.version is not None else self.version
        if progress.was_skipped:
            self.skipped += 1
        elif progress.version is None:
            self.empty += 1
        else:
            self.epochs += 1
            self.rows += progress.rows_landed
            self.null_rows += progress.null_rows


@dataclass
class Reports:
    """The epochs that the sink has landed, and for which Spark has not reported progress yet.

    Attributes:
        landed: These epochs.
        file_lag: Counts the unread files, if the source is of files.
    """

    landed: dict[int, Landed] = field(default_factory=dict)
    file_lag: FileLag | None = None

    def note(self, landed: Landed) -> None:
        """Record an epoch that the sink has landed or skipped."""
        self.landed[landed.epoch] = landed

    def progress(self, event: Mapping[str, Any]) -> Progress | None:
        """Return an epoch's progress from Spark's event and the sink's record of it.

        Return None if the event is not of an epoch, or of one that was returned already. While a query is idle, Spark
        reports triggers without rows under the next epoch's number.
        """
        durations: Mapping[str, int] = event.get("durationMs") or {}
        if _RUNS not in durations:
            return None
        landed = self.landed.pop(int(event["batchId"]), None)
        if landed is None:
            return None
        seconds = durations.get("triggerExecution", 0) / 1000
        phases = {name: sum(durations.get(each, 0) for each in parts) / 1000 for name, parts in _PHASES.items()}
        phases |= {"writing": landed.seconds_writing, "committing": landed.seconds_committing}
        rows = sum(int(source.get("numInputRows", 0)) for source in event.get("sources", []))
        return Progress(
            landed.epoch,
            rows,
            landed.rows,
            rows / seconds if seconds else 0.0,
            seconds,
            phases,
            landed.version,
            landed.was_skipped,
            self._lag(event.get("sources", [])),
            landed.null_rows,
        )

    def _lag(self, sources: list[Mapping[str, Any]]) -> Mapping[str, int]:
        for source in sources:
            metrics = source.get("metrics") or {}
            if _BEHIND in metrics:
                return {"offsets": round(float(metrics[_BEHIND]))}
            end, latest = _offset(source.get("endOffset")), _offset(source.get("latestOffset"))
            if not isinstance(end, Mapping):
                continue
            if self.file_lag is not None and _FILE_BATCH in end:
                return self.file_lag.newest(int(end[_FILE_BATCH]))
            if isinstance(latest, Mapping) and "version" in end and "version" in latest:
                return {"versions": max(0, int(latest["version"]) - int(end["version"]))}
        return {}


def _offset(value: Any) -> Any:
    """Return an offset as a mapping; some versions of Spark report it as JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return None
