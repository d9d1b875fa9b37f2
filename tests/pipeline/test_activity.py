"""Whether a query works, is idle, or is stuck, from what Spark says of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.pipeline.activity import ActivityMonitor
from support.statuses import Clock

WAITING = {"isTriggerActive": False, "message": "Waiting for data to arrive"}
PROCESSING = {"isTriggerActive": True, "message": "Processing new data"}
STARTING = {"isTriggerActive": False, "message": "Initializing sources"}


@dataclass
class Stage:
    """A stage as Spark's tracker shows it."""

    numCompletedTasks: int  # noqa: N815 - Spark's name
    stageId: int = 1  # noqa: N815
    numFailedTasks: int = 0  # noqa: N815


@dataclass
class Query:
    """A query, its session, its context and its tracker: what the monitor looks at."""

    status: dict[str, Any] = field(default_factory=lambda: dict(PROCESSING))
    tasks: int = 0

    @property
    def sparkContext(self) -> Query:  # noqa: N802
        return self

    def statusTracker(self) -> Query:  # noqa: N802
        return self

    def getActiveStageIds(self) -> list[int]:  # noqa: N802
        return [1]

    def getStageInfo(self, _: int) -> Stage:  # noqa: N802
        return Stage(self.tasks)


def watch(query: Query, clock: Clock) -> ActivityMonitor:
    return ActivityMonitor(query, query, 60.0, clock=clock)  # type: ignore[arg-type]


def test_a_query_between_two_triggers_is_idle_however_long() -> None:
    """C30"""
    query, clock = Query(dict(WAITING)), Clock(0.0)
    monitor = watch(query, clock)
    for clock.now in (0, 100, 10_000):
        assert monitor.look(0) == "idle"


def test_a_trigger_without_any_change_is_stuck_after_a_while() -> None:
    """C30: and no more once something changes."""
    query, clock = Query(), Clock(0.0)
    monitor = watch(query, clock)
    assert monitor.look(3) == "working"
    clock.now = 60
    assert monitor.look(3) == "working"
    clock.now = 61
    assert monitor.look(3) == "stuck"
    assert monitor.look(4) == "working"


def test_a_long_epoch_whose_tasks_complete_is_not_stuck() -> None:
    """C30"""
    query, clock = Query(), Clock(0.0)
    monitor = watch(query, clock)
    for query.tasks in range(10):
        clock.now += 50
        assert monitor.look(0) == "working"


def test_a_query_that_never_gets_to_its_first_trigger_is_stuck_too() -> None:
    """C30: its source may not answer."""
    query, clock = Query(dict(STARTING)), Clock(0.0)
    monitor = watch(query, clock)
    assert monitor.look(0) == "working"
    clock.now = 100
    assert monitor.look(0) == "stuck"
