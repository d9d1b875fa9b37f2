"""The health check: down, stuck and failed are not well; idle is."""

from __future__ import annotations

import pytest

from headrace import StorageError
from headrace.pipeline.failures import explain
from headrace.pipeline.progress import Totals
from headrace.ui import RunStatus
from headrace.ui.health import health
from support.statuses import Clock, progress, tell

OUTAGE = explain(StorageError("the store answered 503."))


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


@pytest.fixture
def run(clock: Clock) -> RunStatus:
    run = RunStatus("orders", "orders.lance", clock=clock)
    run.begin()
    return run


def test_a_query_that_waits_for_rows_is_well(run: RunStatus, clock: Clock) -> None:
    """C9, C30: and it says how long it has had none."""
    tell(run, Totals(), progress(0), versions=None, fragments=None)
    clock.now += 50
    run.activity("idle")
    assert health(run.snapshot()) == (True, "ok: idle, no rows for 50 s")


def test_a_query_that_is_stuck_is_not_well(run: RunStatus, clock: Clock) -> None:
    """C9, C30"""
    run.activity("stuck")
    clock.now += 7
    run.activity("stuck")
    assert health(run.snapshot()) == (False, "stuck for 7 s: a trigger runs, and nothing changes")
    run.activity("working")
    assert health(run.snapshot()) == (True, "ok: running")


def test_a_query_is_down_from_its_failure_until_it_has_done_something_again(run: RunStatus, clock: Clock) -> None:
    """C9, C29: a restart alone is no success."""
    run.down(OUTAGE, 8.0)
    clock.now += 3
    assert health(run.snapshot()) == (False, "down, next try in 5 s: the store answered 503.")
    run.restarted(OUTAGE)
    run.activity("working")
    assert health(run.snapshot()) == (False, "down, started again: the store answered 503.")
    run.activity("idle")
    assert health(run.snapshot()) == (True, "ok: idle, no rows for 3 s")
    snapshot = run.snapshot()
    assert (snapshot["failures"], snapshot["restarts"]) == ({"storage": 1}, {"storage": 1})
    assert snapshot["last_success"] == 103.0


def test_an_epoch_that_lands_ends_the_outage_too(run: RunStatus) -> None:
    """C9, C29"""
    run.down(OUTAGE, 8.0)
    run.restarted(OUTAGE)
    tell(run, Totals(), progress(0), versions=None, fragments=None)
    assert health(run.snapshot())[0]


def test_a_failure_that_ends_the_run_is_counted_and_shown(run: RunStatus) -> None:
    """C9"""
    run.down(OUTAGE, None)
    run.fail("the store answered 503.")
    assert health(run.snapshot()) == (False, "failed: the store answered 503.")
    assert run.snapshot()["failures"] == {"storage": 1}
