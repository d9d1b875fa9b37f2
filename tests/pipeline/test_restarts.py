"""When a failed query starts again, and with which pauses."""

from __future__ import annotations

import pytest

from headrace import AccessDeniedError, FencedError, StorageError
from headrace.pipeline.config import Run
from headrace.pipeline.failures import Failure, explain
from headrace.pipeline.restarts import RestartPolicy

OUTAGE = explain(StorageError("503"))
DENIED = explain(AccessDeniedError("403"))
FENCED = explain(FencedError("a newer run"))


def policy(*, follow: bool = True, chance: float = 0.0, **settings: object) -> RestartPolicy:
    return RestartPolicy(Run(**settings), follow=follow, chance=lambda: chance)  # type: ignore[arg-type]


def pauses(of: RestartPolicy, count: int, failure: Failure = OUTAGE) -> list[float | None]:
    return [of.pause_after(failure) for _ in range(count)]


def test_pauses_double_up_to_the_longest() -> None:
    """C29"""
    assert pauses(policy(max_pause="10 seconds"), 6) == [1, 2, 4, 8, 10, 10]


def test_pauses_differ_so_that_pipelines_do_not_come_back_together() -> None:
    """C29"""
    assert pauses(policy(chance=1.0), 3) == [0.75, 1.5, 3]


def test_a_success_starts_the_count_again() -> None:
    """C29"""
    found = policy(max_restarts=2)
    assert pauses(found, 3) == [1, 2, None]
    found.succeeded()
    assert pauses(found, 3) == [1, 2, None]


def test_a_failure_that_cannot_pass_ends_the_run() -> None:
    """C29"""
    assert policy().pause_after(FENCED) is None


@pytest.mark.parametrize(
    ("restart", "follow", "restarts"),
    [(None, True, True), (None, False, False), ("on-failure", False, True), ("never", True, False)],
)
def test_a_query_that_follows_restarts_unless_the_file_says_otherwise(
    restart: str | None, follow: bool, restarts: bool
) -> None:
    """C29"""
    assert (policy(follow=follow, restart=restart).pause_after(OUTAGE) is not None) == restarts


def test_credentials_that_never_worked_end_the_run_and_those_that_did_may_be_renewed() -> None:
    """C29"""
    found = policy()
    assert found.pause_after(DENIED) is None
    found.succeeded()
    assert found.pause_after(DENIED) == 1


def test_an_outage_of_days_is_not_too_long_for_the_arithmetic() -> None:
    """C29"""
    assert pauses(policy(), 5000)[-1] == 60
