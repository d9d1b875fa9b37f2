"""Kills and errors inside single system calls of a commit, and disks that are full. Without Spark."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from landing_plan import QUERY, Epochs, state_after
from landing_rig import Driver, Watcher, make_table, require_exact, rows_of

from headrace.tables.commit import bookmark
from headrace.tables.commit.ledger import Stamp
from support.kernel import fill, require_tracer, small_disk, with_fault

slow = pytest.mark.slow


def new_run() -> str:
    return uuid.uuid4().hex


def manifest_of(uri: str, version: int) -> str:
    """Lance counts the names of manifests down from the largest 64-bit number."""
    return f"{uri}/_versions/{2**64 - 1 - version}.manifest"


def version_of(mode: str, epoch: int) -> int:
    """The version an epoch becomes: after the one that made the table, and the fence if there is one."""
    return epoch + (3 if mode == "append" else 2)


@pytest.fixture(scope="module")
def tracer() -> None:
    require_tracer()


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return make_table(str(tmp_path / "t.lance"))


@pytest.mark.usefixtures("tracer")
@pytest.mark.parametrize(
    ("mode", "epoch", "is_linked"),
    [
        ("append", 1, False),
        ("append", 1, True),
        *(
            pytest.param(mode, epoch, is_linked, marks=slow)
            for mode, epoch in [("append", 0), ("append", 2), ("complete", 0), ("complete", 1), ("complete", 2)]
            for is_linked in (False, True)
        ),
    ],
)
def test_a_kill_inside_the_commit_leaves_the_old_version_or_the_new_one(
    uri: str, mode: str, epoch: int, is_linked: bool
) -> None:
    """F2, L13, L14: the hard link of the manifest is the commit; the kill comes right before it, or right after."""
    manifest = manifest_of(uri, version_of(mode, epoch))
    under = (
        with_fault("unlink", f"{manifest}#1", "signal=SIGKILL")
        if is_linked
        else with_fault("linkat", manifest, "signal=SIGKILL")
    )
    with Watcher(uri, mode, 4) as watcher:
        with Driver(Epochs(uri, new_run(), end=4, mode=mode), under=under) as driver:
            driver.require_killed()
        assert rows_of(uri) == state_after(mode, epoch + is_linked)
        with Driver(Epochs(uri, new_run(), first=epoch, end=4, mode=mode)) as driver:
            assert driver.require_done()["landed"] == 4 - epoch - is_linked
        watcher.wait_for(4)
    require_exact(uri, mode, 4)


@slow
@pytest.mark.usefixtures("tracer")
@pytest.mark.parametrize(
    ("call", "file"),
    [
        ("linkat", "_versions/18446744073709551613.manifest"),
        ("unlink", "_versions/18446744073709551613.manifest#1"),
        ("renameat", "_versions/latest_version_hint.json"),
        ("renameat", "_headrace/notes/{bookmark}"),
    ],
)
def test_a_kill_during_the_take_over_is_made_up_for_by_the_next_run(uri: str, call: str, file: str) -> None:
    """F2, L14: before and after the fence's link, at Lance's hint of it, and at the bookmark after it."""
    run = new_run()
    path = f"{uri}/{file.format(bookmark=bookmark.name_of(Stamp(QUERY, 0, run)))}"
    with Driver(Epochs(uri, run, end=3), under=with_fault(call, path, "signal=SIGKILL")) as driver:
        driver.require_killed()
    assert rows_of(uri) == ()
    with Driver(Epochs(uri, new_run(), end=3)) as driver:
        assert driver.require_done()["landed"] == 3
    require_exact(uri, "append", 3)


@pytest.mark.usefixtures("tracer")
@pytest.mark.parametrize("error", ["ENOSPC", pytest.param("EIO", marks=slow)])
@pytest.mark.parametrize("mode", ["append", pytest.param("complete", marks=slow)])
def test_a_manifest_that_cannot_be_written_fails_its_epoch_and_nothing_else(uri: str, mode: str, error: str) -> None:
    """F9: the disk refuses the commit of epoch 1 itself; the table stays as it was, and the next run lands it."""
    under = with_fault("linkat", manifest_of(uri, version_of(mode, 1)), f"error={error}")
    with Driver(Epochs(uri, new_run(), end=3, mode=mode), under=under) as driver:
        driver.require_failed("StorageFullError" if error == "ENOSPC" else "StorageError")
    assert rows_of(uri) == state_after(mode, 1)
    with Driver(Epochs(uri, new_run(), first=1, end=3, mode=mode)) as driver:
        driver.require_done()
    require_exact(uri, mode, 3)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "512k") as folder:
        yield folder


@slow
@pytest.mark.parametrize("mode", ["append", "complete"])
def test_a_full_disk_fails_an_epoch_and_the_stream_continues_when_there_is_room(disk: Path, mode: str) -> None:
    """F9: whatever the room that is left is enough for, data, transaction, manifest or bookmark."""
    uri = make_table(str(disk / "t.lance"))
    landed = 0
    with Watcher(uri, mode, 100) as watcher:
        for pages in [0, 1, 2, 3, 4, 5, 6, 8]:
            filler = fill(disk, spare_pages=pages)
            with Driver(Epochs(uri, new_run(), first=landed, end=100, mode=mode)) as driver:
                said = driver.require_failed("StorageFullError")
            assert "No space left" in said or "os error 28" in said, said
            # What landed before the disk was full has landed, all of it and nothing more.
            states = [state_after(mode, count) for count in range(100)]
            assert rows_of(uri) in states
            landed = states.index(rows_of(uri))
            filler.unlink()
        last = landed + 3
        with Driver(Epochs(uri, new_run(), first=landed, end=last, mode=mode)) as driver:
            driver.require_done()
        watcher.wait_for(last)
    require_exact(uri, mode, last)
    assert landed, "the disk was full before anything landed"
