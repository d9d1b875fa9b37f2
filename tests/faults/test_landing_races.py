"""Two drivers of one query: each epoch lands once, and the superseded driver raises."""

from __future__ import annotations

import signal
import uuid
from contextlib import ExitStack
from pathlib import Path

import pytest
from landing_plan import Epochs, state_after
from landing_rig import Driver, Watcher, becomes_true, is_stopped, make_table, require_exact, rows_of, stamped_epochs


def new_run() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return make_table(str(tmp_path / "t.lance"))


def race(uri: str, drivers: int, epochs: int, **more: bool) -> tuple[int, int]:
    """Lets drivers land the same epochs at once; how many landed, and how often one was fenced."""
    with ExitStack() as stack:
        racing = [
            stack.enter_context(Driver(Epochs(uri, new_run(), end=epochs, waits=True, **more))) for _ in range(drivers)
        ]
        for driver in racing:
            driver.hear("ready")
        for driver in racing:
            driver.go()
        ends = [driver.require_done() for driver in racing]
    return sum(end["landed"] for end in ends), sum(end["fenced"] for end in ends)


@pytest.mark.parametrize("drivers", [2, 3])
def test_drivers_racing_a_hundred_epochs_land_each_once(uri: str, drivers: int) -> None:
    """F4, L26: a fenced driver starts again as a new run, until all epochs have landed."""
    with Watcher(uri, "append", 100) as watcher:
        landed, fenced = race(uri, drivers, 100, rejoins=True)
        watcher.wait_for(100)
    require_exact(uri, "append", 100, times=fenced + drivers)
    assert landed == 100
    assert fenced, "one driver was done before the other began: there was no race"


def test_a_superseded_driver_stops_permanently(uri: str) -> None:
    """F4, L26: it raises FencedError, however often it tries again, and nothing of it lands."""
    old, new = new_run(), new_run()
    with Driver(Epochs(uri, old, end=100, hold_at="after-commit:1")) as paused:
        paused.hear("held")
        with Driver(Epochs(uri, new, first=2, end=4)) as driver:
            driver.require_done()
        paused.go()
        said = paused.require_failed("FencedError")
    assert new in said
    with Driver(Epochs(uri, old, first=4, end=5)) as again:
        again.require_failed("FencedError")
    require_exact(uri, "append", 4)


@pytest.mark.parametrize("mode", ["append", "complete"])
def test_of_two_drivers_past_the_check_with_the_same_epoch_one_lands_it(uri: str, mode: str) -> None:
    """F4, L26: both have looked and decided to commit epoch 2 when they are let go."""
    with Watcher(uri, mode, 3) as watcher, ExitStack() as stack:
        old = stack.enter_context(Driver(Epochs(uri, new_run(), end=3, mode=mode, hold_at="before-commit:2")))
        old.hear("held")
        new = stack.enter_context(Driver(Epochs(uri, new_run(), first=2, end=3, mode=mode, hold_at="before-commit:2")))
        new.hear("held")
        if mode == "append":  # the new one has set its fence: the old one fails in any order
            old.go()
            old.require_failed("FencedError")
            new.go()
            assert new.require_done()["landed"] == 1
        else:  # the first to commit has it
            new.go()
            assert new.require_done()["landed"] == 1
            old.go()
            old.require_failed("FencedError")
        watcher.wait_for(3)
    require_exact(uri, mode, 3)


def test_without_the_fence_the_epoch_would_land_twice(uri: str) -> None:
    """L26: the same duel with the fence taken out doubles the epoch, so the duel can tell."""
    with ExitStack() as stack:
        told = {"first": 2, "end": 3, "hold_at": "before-commit:2", "has_fence": False}
        with Driver(Epochs(uri, new_run(), end=2)) as before:
            before.require_done()
        old = stack.enter_context(Driver(Epochs(uri, new_run(), **told)))
        new = stack.enter_context(Driver(Epochs(uri, new_run(), **told)))
        for driver in (old, new):
            driver.hear("held")
        for driver in (old, new):
            driver.go()
            driver.wait()
    assert stamped_epochs(uri)[2] == 2
    assert rows_of(uri) == tuple(sorted(state_after("append", 3) + state_after("append", 3)[-4:]))


@pytest.mark.parametrize("mode", ["append", "complete"])
def test_a_driver_that_was_frozen_past_the_check_changes_nothing_when_it_thaws(uri: str, mode: str) -> None:
    """F4, L26, L27: it is stopped with SIGSTOP on its way to commit epoch 1, and another lands that and more."""
    with Watcher(uri, mode, 4) as watcher:
        with Driver(Epochs(uri, new_run(), end=4, mode=mode, hold_at="before-commit:1")) as old:
            old.hear("held")
            old.signal(signal.SIGSTOP)
            assert becomes_true(lambda: is_stopped(old.session), 10)
            old.go()
            with Driver(Epochs(uri, new_run(), first=1, end=4, mode=mode)) as new:
                assert new.require_done()["landed"] == 3
            watcher.wait_for(4)
            before = rows_of(uri)
            old.signal(signal.SIGCONT)
            old.require_failed("FencedError")
        assert rows_of(uri) == before
    require_exact(uri, mode, 4)
