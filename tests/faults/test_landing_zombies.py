"""A Spark driver that is frozen in the middle, replaced by another on a copy of its checkpoint, and thawed."""

from __future__ import annotations

import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from landing_plan import Stream
from landing_rig import (
    Driver,
    Watcher,
    add_epochs,
    becomes_true,
    is_stopped,
    make_table,
    members_of,
    require_exact,
    rows_of,
)

from support.deadlines import allow_long_test

pytestmark = pytest.mark.slow

EPOCHS = 20


def take_over_while_frozen(stream: Stream, old: Driver, watcher: Watcher) -> None:
    """Another driver, with the same query and the same checkpoint, does what is left; then the old one thaws."""
    old.signal(signal.SIGSTOP)
    assert becomes_true(lambda: all(is_stopped(pid) for pid in members_of(old.session)), 10)
    assert watcher.reached < EPOCHS, "the old driver was done before it could be frozen"
    copy = f"{stream.checkpoint}-copy"
    shutil.copytree(stream.checkpoint, copy)
    with Driver(replace(stream, checkpoint=copy, hold_at="")) as new:
        new.hear("started")
        new.require_done()
    watcher.wait_for(EPOCHS)
    rows = rows_of(stream.uri)
    old.go()  # in case it waits at a point: it does not hear of it before it thaws
    old.signal(signal.SIGCONT)
    old.require_failed("FencedError")
    assert rows_of(stream.uri) == rows


@pytest.mark.parametrize("mode", ["append", "complete", "upsert"])
def test_a_driver_frozen_past_the_check_cannot_land_its_epoch_any_more(tmp_path: Path, mode: str) -> None:
    """F4, L26, L27: it is on its way to commit epoch 2 when it stops; it cannot put an older result over a newer."""
    allow_long_test()
    add_epochs(tmp_path / "in", range(EPOCHS))
    uri = make_table(str(tmp_path / "t.lance"))
    stream = Stream(uri, str(tmp_path / "in"), str(tmp_path / "checkpoint"), "sink", mode, hold_at="before-commit:2")
    with Watcher(uri, mode, EPOCHS) as watcher, Driver(stream) as old:
        old.hear("started")
        old.hear("held")
        take_over_while_frozen(stream, old, watcher)
    require_exact(uri, mode, EPOCHS, by=stream.way)


@pytest.mark.parametrize("mode", ["append", "complete"])
def test_a_driver_frozen_at_any_moment_is_fenced_when_it_thaws(tmp_path: Path, mode: str) -> None:
    """F4, L26, L27: through ``format("lance")``, wherever it is after its third epoch."""
    allow_long_test()
    add_epochs(tmp_path / "in", range(EPOCHS))
    uri = make_table(str(tmp_path / "t.lance"))
    stream = Stream(uri, str(tmp_path / "in"), str(tmp_path / "checkpoint"), mode=mode)
    with Watcher(uri, mode, EPOCHS) as watcher, Driver(stream) as old:
        old.hear("started")
        watcher.wait_for(3)
        take_over_while_frozen(stream, old, watcher)
    require_exact(uri, mode, EPOCHS, by=stream.way, may_join=True)
