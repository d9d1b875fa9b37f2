"""A driver that dies by SIGKILL, JVM and all, at the points that matter, and its next run."""

from __future__ import annotations

from pathlib import Path

import pytest
from landing_plan import Stream, state_after
from landing_rig import Driver, Watcher, add_epochs, make_table, members_of, orphans_of, require_exact, rows_of

from support.deadlines import allow_long_test

EPOCHS = 4
WAYS = [("format", "append"), ("format", "complete"), ("sink", "append"), ("sink", "complete"), ("sink", "upsert")]


def stream_in(folder: Path, *, epochs: int = EPOCHS, way: str = "format", mode: str = "append") -> Stream:
    add_epochs(folder / "in", range(epochs))
    return Stream(make_table(str(folder / "t.lance")), str(folder / "in"), str(folder / "checkpoint"), way, mode)


def noted(stream: Stream) -> list[int]:
    """The epochs that Spark knows to be done."""
    folder = Path(stream.checkpoint, "commits")
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit()) if folder.exists() else []


def crash(stream: Stream, point: str) -> None:
    with Driver(stream, crash_at=point) as driver:
        driver.hear("started")
        assert any("java" in command for command in members_of(driver.session).values())
        driver.require_killed()


def finish(stream: Stream) -> None:
    with Driver(stream) as driver:
        driver.hear("started")
        driver.require_done()


def crash_twice_and_finish(stream: Stream) -> None:
    """Before the commit of epoch 1, after that of epoch 2, and then to the end."""
    uri, mode = stream.uri, stream.mode
    with Watcher(uri, mode, EPOCHS) as watcher:
        crash(stream, "before-commit:1")
        assert rows_of(uri) == state_after(mode, 1)
        assert noted(stream) == [0]
        orphans = orphans_of(uri)
        assert orphans, "nothing had been written when the driver died"

        crash(stream, "after-commit:2")
        assert rows_of(uri) == state_after(mode, 3)
        assert noted(stream) == [0, 1], "Spark had noted the epoch: nothing is replayed"

        finish(stream)
        watcher.wait_for(EPOCHS)
    require_exact(uri, mode, EPOCHS, by=stream.way, times=2)
    if mode != "complete":  # there each epoch's own files become orphans with the next
        assert orphans <= orphans_of(uri)


@pytest.mark.slow
@pytest.mark.parametrize(("way", "mode"), WAYS)
def test_every_mode_survives_a_kill_before_a_commit_and_after_one(tmp_path: Path, way: str, mode: str) -> None:
    """F1, L13, L14: files without a commit stay invisible; an epoch whose commit Spark did not hear of is skipped."""
    allow_long_test()
    crash_twice_and_finish(stream_in(tmp_path, way=way, mode=mode))


@pytest.mark.slow
@pytest.mark.parametrize("epoch", [0, EPOCHS - 1])
def test_the_first_and_the_last_epoch_survive_a_kill_after_their_commit(tmp_path: Path, epoch: int) -> None:
    """F1, L13: the epochs at both ends have no neighbour to lean on."""
    allow_long_test()
    stream = stream_in(tmp_path)
    with Watcher(stream.uri, "append", EPOCHS) as watcher:
        crash(stream, f"after-commit:{epoch}")
        assert rows_of(stream.uri) == state_after("append", epoch + 1)
        finish(stream)
        watcher.wait_for(EPOCHS)
    require_exact(stream.uri, "append", EPOCHS, by=stream.way)
