"""Epochs made of what Spark and the sink report: events in the shapes that Spark 4.3 and 3.5 have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.pipeline.progress import Progress, Reports, Totals
from headrace.spark.foreach_batch import Landed

RUN = {"addBatch": 2745, "commitOffsets": 128, "getBatch": 15, "latestOffset": 47, "queryPlanning": 25,
       "triggerExecution": 3000, "walCommit": 40}  # fmt: skip
IDLE = {"latestOffset": 18, "triggerExecution": 32}

Event = Callable[..., dict[str, Any]]


def on_4_3(epoch: int, durations: dict[str, int], rows: int = 0) -> dict[str, Any]:
    """As `recentProgress` has it: a mapping in which offsets are text."""
    source = {
        "description": "FileStreamSource[file:/tmp/in]",
        "startOffset": "null" if epoch == 0 else f'{{"logOffset": {epoch - 1}}}',
        "endOffset": f'{{"logOffset": {epoch}}}',
        "latestOffset": "null",
        "numInputRows": rows,
        "inputRowsPerSecond": 0.0,
        "processedRowsPerSecond": 0.0,
        "metrics": {},
    }
    return {
        "id": "4addd65d-0d54-4c71-9039-3b91c461d014",
        "runId": "227be429-d210-436e-803f-f54d0ca367e3",
        "name": "orders",
        "timestamp": "2026-11-18T03:23:01.000Z",
        "batchId": epoch,
        "batchDuration": durations["triggerExecution"],
        "durationMs": durations,
        "eventTime": {},
        "stateOperators": [],
        "sources": [source],
        "sink": {"description": "ForeachBatchSink", "numOutputRows": -1, "metrics": {}},
        "numInputRows": rows,
        "inputRowsPerSecond": 0.0,
        "processedRowsPerSecond": 0.0,
        "observedMetrics": {},
    }


def on_3_5(epoch: int, durations: dict[str, int], rows: int = 0) -> dict[str, Any]:
    """As its JSON has it: offsets are values, and what is empty is left out."""
    source = {
        "description": "FileStreamSource[file:/tmp/in]",
        "startOffset": None if epoch == 0 else {"logOffset": epoch - 1},
        "endOffset": {"logOffset": epoch},
        "latestOffset": None,
        "numInputRows": rows,
        "inputRowsPerSecond": 0.0,
        "processedRowsPerSecond": 0.0,
    }
    return {
        "id": "4addd65d-0d54-4c71-9039-3b91c461d014",
        "runId": "227be429-d210-436e-803f-f54d0ca367e3",
        "name": "orders",
        "timestamp": "2026-11-18T03:26:10.000Z",
        "batchId": epoch,
        "numInputRows": rows,
        "inputRowsPerSecond": 0.0,
        "processedRowsPerSecond": 0.0,
        "durationMs": durations,
        "stateOperators": [],
        "sources": [source],
        "sink": {"description": "ForeachBatchSink", "numOutputRows": -1},
    }


def landed(epoch: int, rows: int = 10) -> Landed:
    return Landed(epoch, epoch + 3, rows=rows, files=1, seconds_writing=2.5, seconds_committing=0.125)


def heard(reports: Reports, events: list[dict[str, Any]]) -> list[Progress]:
    """What becomes of all that Spark remembers, as a job looks at it."""
    found = [reports.progress(event) for event in events]
    return [progress for progress in found if progress is not None]


@pytest.fixture(params=[on_4_3, on_3_5], ids=["Spark 4.3", "Spark 3.5"])
def event(request: pytest.FixtureRequest) -> Event:
    made: Event = request.param
    return made


def test_an_epoch_after_an_idle_period_has_its_own_figures(event: Event) -> None:
    """C15: idle triggers have the number of the next epoch, and none of its time and rows."""
    reports = Reports()
    reports.note(landed(7))
    events = [event(6, RUN, 5), event(7, IDLE), event(7, {"latestOffset": 3, "triggerExecution": 4})]
    assert heard(reports, events) == []
    (progress,) = heard(reports, [*events, event(7, RUN, 10)])
    assert (progress.epoch, progress.rows_in, progress.rows_landed, progress.seconds) == (7, 10, 10, 3.0)
    assert progress.rows_per_second == pytest.approx(10 / 3)
    assert progress.phases == {
        "reading ahead": 0.047,
        "planning": 0.040,
        "noting": 0.168,
        "writing": 2.5,
        "committing": 0.125,
    }
    assert sum(progress.phases.values()) <= progress.seconds
    assert heard(reports, [*events, event(7, RUN, 10), event(8, IDLE)]) == []


def test_the_first_epoch_after_a_restart_has_its_own_figures(event: Event) -> None:
    """C15: Spark's first event of a run that finds nothing to do comes at once, not after an interval."""
    reports = Reports()
    reports.note(landed(2))
    (progress,) = heard(reports, [event(2, IDLE), event(2, RUN, 10), event(3, IDLE)])
    assert (progress.epoch, progress.rows_in, progress.seconds) == (2, 10, 3.0)


def test_an_epoch_that_had_landed_before_has_the_time_and_rows_of_its_second_run(event: Event) -> None:
    """C15, C17: Spark runs it again from its notes, and does not look for the end of the source."""
    reports = Reports()
    reports.note(Landed(4, was_skipped=True, seconds_writing=0.5))
    again = {name: value for name, value in RUN.items() if name not in ("latestOffset", "walCommit")}
    (progress,) = heard(reports, [event(4, again, 10), event(5, IDLE)])
    assert (progress.was_skipped, progress.version) == (True, None)
    assert (progress.rows_in, progress.rows_landed, progress.seconds) == (10, 0, 3.0)
    assert progress.phases["reading ahead"] == 0.0


def test_an_epoch_without_data_is_an_epoch(event: Event) -> None:
    """C15, L37: one that a watermark makes lands rows though the source gave none; another lands nothing."""
    reports = Reports()
    reports.note(landed(3, rows=8))
    reports.note(Landed(4, seconds_writing=0.5))
    events = [event(3, RUN, 0), event(4, IDLE), event(4, RUN, 0)]
    closing, nothing = heard(reports, events)
    assert (closing.rows_in, closing.rows_landed, closing.rows_per_second, closing.version) == (0, 8, 0.0, 6)
    assert (nothing.rows_in, nothing.rows_landed, nothing.rows_per_second, nothing.version) == (0, 0, 0.0, None)
    totals = Totals()
    totals.add(closing)
    totals.add(nothing)
    assert (totals.epochs, totals.empty, totals.rows) == (1, 1, 8)


def test_rows_of_all_sources_are_counted(event: Event) -> None:
    """C15: of a union, for one."""
    reports = Reports()
    reports.note(landed(1))
    told = event(1, RUN, 10)
    told["sources"] = told["sources"] * 2
    (progress,) = heard(reports, [told])
    assert progress.rows_in == 20
