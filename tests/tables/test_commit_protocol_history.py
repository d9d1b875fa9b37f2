"""The commit protocol and the table's history: what is read of it, what is missing, and what replaces it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from drivers import Driver, ids_of, ids_through
from worlds import MODES, World, history, landed, marked, spoil_bookmark

from headrace import (
    CommitConflictError,
    FencedError,
    HistoryGapError,
    LandingError,
    StorageError,
    TableReplacedError,
)
from support.stepping import DiedError, raising

EVERY_MODE = pytest.mark.parametrize("mode", MODES)
ACCEPTS = {"accepts_replaced": True}


@pytest.fixture(autouse=True)
def _warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "headrace.tables")


def others(world: World, times: int) -> None:
    for _ in range(times):
        world.configure()


@EVERY_MODE
def test_one_version_is_read_in_the_steady_state(world: World, mode: str) -> None:
    """L16: however long the history is."""
    driver = Driver(world, mode=mode)
    driver.land(0)
    for epoch in range(1, 6):
        before = driver.state.versions_read
        driver.land(epoch)
        assert driver.state.versions_read - before == 1


def test_the_lookback_caps_what_an_append_reads(world: World) -> None:
    """L16: of all versions of others since, and nothing is missed by it."""
    driver = Driver(world, rules={"lookback": 5})
    driver.land(0)
    for others_since, most in ((3, 4), (5, 6), (6, 6), (30, 6)):
        others(world, others_since)
        before = driver.state.versions_read
        driver.land(landed(world)[-1] + 1)
        assert driver.state.versions_read - before == most
    assert world.rows() == ids_through(4)


@pytest.mark.parametrize("is_cleaned", [False, True])
@EVERY_MODE
def test_a_replay_after_more_foreign_commits_than_the_lookback_is_recognised(
    world: World, mode: str, is_cleaned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """L16, L22, L23, F7: a long stop, any number of versions, all of ours cleaned away: there is no window."""
    driver = Driver(world, mode=mode, rules={"lookback": 2})
    driver.land(0)
    driver.land(1)
    others(world, 12)
    world.compact()
    if is_cleaned:
        world.clean()
        assert landed(world) == []
    rows = world.rows()
    assert driver.land(1).was_skipped
    caplog.clear()
    again = driver.restarted("run-b")
    assert again.land(1).was_skipped
    assert ("were removed" in caplog.text) == is_cleaned
    assert world.rows() == rows
    again.land(2)
    assert world.rows() == (ids_of(2) if mode == "complete" else ids_through(2))


def test_a_lookback_of_one_still_meets_a_rival(world: World) -> None:
    """L16, L26: what was left unread may hold a fence; the commit meets it."""
    driver = Driver(world, rules={"lookback": 1})
    driver.land(0)
    driver.restarted("run-b").land(1)
    others(world, 5)
    with pytest.raises(LandingError, match="run-b has taken over"):
        driver.land(1)
    assert landed(world) == [0, 1]


def test_a_fence_beyond_the_lookback_is_met_without_a_bookmark(world: World) -> None:
    """L16, L26: the rival died between its fence and its bookmark, and others buried the fence."""
    driver = Driver(world, rules={"lookback": 1})
    driver.land(0)
    rival = driver.restarted("run-b")
    rival.steps.named = {"write_note": raising(DiedError())}
    with pytest.raises(DiedError):
        rival.land(1)
    others(world, 5)
    with pytest.raises(FencedError, match="run-b has taken over"):
        driver.land(1)
    assert landed(world) == [0]


@pytest.mark.parametrize("what", ["overwrite", "restore"])
def test_an_overwrite_or_restore_beyond_the_lookback_still_stops_the_run(world: World, what: str) -> None:
    """L16, L25, F6: what was not read is met by the commit."""
    driver = Driver(world, rules={"lookback": 1})
    driver.land(0)
    if what == "overwrite":
        world.overwrite([900])
    else:
        world.restore(1)
    kept = world.rows()
    others(world, 5)
    with pytest.raises((TableReplacedError, CommitConflictError)):
        driver.land(1)
    assert world.rows() == kept


@EVERY_MODE
def test_a_gap_is_a_warning_and_the_query_continues(world: World, mode: str, caplog: pytest.LogCaptureFixture) -> None:
    """L20: a version removed inside the range that matters."""
    driver = Driver(world, mode=mode)
    driver.land(0)
    others(world, 3)
    world.clean()
    driver.restarted("run-b").land(1)
    assert "removed before query" in caplog.text
    assert "the newest epoch known to have landed is 0" in caplog.text
    assert world.rows() == (ids_of(1) if mode == "complete" else ids_through(1))


@EVERY_MODE
def test_a_gap_stops_the_query_if_the_setting_says_fail(world: World, mode: str) -> None:
    """L20, L21: nothing is landed, and the hint says what to do."""
    driver = Driver(world, mode=mode, rules={"on_history_gap": "fail"})
    driver.land(0)
    others(world, 3)
    world.clean()
    version = world.store().open().version
    again = driver.restarted("run-b")
    with pytest.raises(HistoryGapError, match="onHistoryGap=warn"):
        again.land(1)
    assert world.store().open().version == version
    again.rules = {}
    again.land(1)
    assert world.rows() == (ids_of(1) if mode == "complete" else ids_through(1))


def test_a_hole_is_stepped_over_and_an_older_stamp_found(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """L21: not only is the query warned: what is below the hole still counts, without a bookmark even."""
    driver = Driver(world)
    driver.land(0)
    driver.land(1)
    world.tag(world.store().open().version)
    others(world, 4)
    world.clean()
    spoil_bookmark(world, lambda mark: mark | {"at": {"version": 99, "uuid": "of an earlier table"}})
    assert len(history(world)) == 2

    assert driver.restarted("run-b").land(1).was_skipped
    assert "belongs to an earlier table" in caplog.text
    assert "the newest epoch known to have landed is 1" in caplog.text


def test_a_table_that_was_cleaned_before_the_query_ever_wrote_warns_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """L21: nothing missing is read as "not landed" without the warning; the bookmark then ends it."""
    others(world, 3)
    world.clean()
    driver = Driver(world)
    driver.land(0)
    assert caplog.text.count("no stamp of it") == 1
    caplog.clear()
    driver.restarted("run-b").land(1)
    assert caplog.text == ""


@EVERY_MODE
def test_compaction_and_cleanup_after_every_epoch_change_nothing(world: World, mode: str) -> None:
    """L22, L23, F7: nor do restarts and replays between them."""
    driver = Driver(world, mode=mode)
    for epoch in range(5):
        driver.land(epoch)
        world.compact()
        world.clean()
        if epoch % 2:
            driver = driver.restarted(f"run-{epoch}")
            assert driver.land(epoch).was_skipped
    assert world.rows() == (ids_of(4) if mode == "complete" else ids_through(4))


@EVERY_MODE
def test_a_crash_right_after_the_commit_is_recognised_until_cleanup(world: World, mode: str) -> None:
    """L23: the documented condition: the version committed last is still there when the query restarts."""
    driver = Driver(world, mode=mode)
    driver.land(0)
    driver.steps.named = {"write_note": raising(StorageError("gone"))}
    driver.land(1)
    assert driver.steps.calls[-1] == "write_note"
    others(world, 3)
    assert driver.restarted("run-b").land(1).was_skipped
    assert landed(world) == [0, 1]


@EVERY_MODE
def test_a_bookmark_that_is_behind_is_still_true(world: World, mode: str) -> None:
    """L23: it only means reading further."""
    driver = Driver(world, mode=mode)
    driver.land(0)
    (name,) = world.store().list_notes()
    old = world.store().read_note(name)
    assert old is not None
    driver.land(1)
    driver.land(2)
    world.store().write_note(name, old)
    again = driver.restarted("run-b")
    assert again.land(2).was_skipped
    again.land(3)
    assert landed(world) == [0, 1, 2, 3]
    assert marked(world) == world.store().open().version


@pytest.mark.parametrize(
    "spoil",
    [
        "",
        "not json",
        "[]",
        "{}",
        lambda mark: mark | {"bookmark": 2},
        lambda mark: mark | {"at": {"version": 1}},
        lambda mark: mark | {"stamp": 5},
        lambda mark: mark | {"stamp": mark["stamp"] | {"more": 1}},
    ],
    ids=["empty", "text", "list", "object", "version", "no uuid", "number", "unknown"],
)
def test_a_bookmark_that_cannot_be_read_stops_the_query(world: World, spoil: Any) -> None:
    """L21: it is not taken for none: the message names the file and the way out."""
    driver = Driver(world)
    driver.land(0)
    spoil_bookmark(world, spoil)
    with pytest.raises(LandingError, match=r"[0-9a-f]{40}-[0-9a-f]{16}\.json.*_headrace/notes.*remove the file"):
        driver.restarted("run-b").land(0)
    assert landed(world) == [0]


def test_a_missing_bookmark_means_reading_everything(world: World) -> None:
    """L23: and finding what is there."""
    driver = Driver(world)
    driver.land(0)
    others(world, 5)
    spoil_bookmark(world, lambda mark: mark | {"stamp": mark["stamp"] | {"query_id": "another"}})
    again = driver.restarted("run-b")
    assert again.land(0).was_skipped
    again.land(1)
    assert landed(world) == [0, 1]


@EVERY_MODE
@pytest.mark.parametrize("what", ["overwrite", "restore"])
@pytest.mark.parametrize("is_forgetful", [False, True])
def test_a_foreign_overwrite_or_restore_stops_the_run_and_an_accepting_one_continues(
    world: World, mode: str, what: str, is_forgetful: bool
) -> None:
    """F6, L25, L40: it says so; nothing is resurrected, and what had landed does not land again."""
    driver = Driver(world, mode=mode)
    driver.land(0)
    driver.land(1)
    if what == "overwrite":
        world.overwrite([900])
    else:
        world.restore(1)
    kept = world.rows()
    world.configure()
    if is_forgetful:
        driver.forget()
    for _ in range(2):
        with pytest.raises(TableReplacedError, match=f"{what} by another writer.*restart the query"):
            driver.land(2)
    assert world.rows() == kept
    again = driver.restarted("run-b", rules=ACCEPTS)
    assert again.land(1).was_skipped
    again.land(2)
    again.land(3)
    assert world.rows() == sorted(ids_of(3) if mode == "complete" else [*kept, *ids_of(2), *ids_of(3)])


@EVERY_MODE
@pytest.mark.parametrize("versions", [0, 9])
def test_a_recreated_table_stops_the_run_and_an_accepting_one_continues(world: World, mode: str, versions: int) -> None:
    """F6, L40: whether the new table has fewer versions than the old one had, or more."""
    driver = Driver(world, mode=mode)
    driver.land(0)
    driver.land(1)
    world.recreate()
    others(world, versions)
    with pytest.raises(TableReplacedError, match="created again"):
        driver.land(2)
    assert world.rows() == []
    driver.restarted("run-b", rules=ACCEPTS).land(2)
    assert world.rows() == ids_of(2)


def test_a_bookmark_of_an_earlier_table_is_not_used(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """F6: one that was put back, say with a backup of the folder: the versions say another thing."""
    driver = Driver(world)
    driver.land(0)
    driver.land(1)
    (name,) = world.store().list_notes()
    old = world.store().read_note(name)
    assert old is not None
    for versions in (0, 9):
        world.recreate()
        others(world, versions)
        world.store().write_note(name, old)
        caplog.clear()
        again = driver.restarted("run-b")
        again.land(0)
        assert "belongs to an earlier table" in caplog.text
        assert world.rows() == ids_of(0)


def test_a_bookmark_of_an_earlier_table_is_not_used_to_fill_a_gap(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """F6, L21: what was removed from the new table is not looked up in what was said of the old one."""
    driver = Driver(world)
    for epoch in range(4):
        driver.land(epoch)
    (name,) = world.store().list_notes()
    old = world.store().read_note(name)
    assert old is not None
    world.recreate()
    others(world, 3)
    world.clean()
    world.store().write_note(name, old)
    with pytest.raises(TableReplacedError, match="does not have epochs 0-2"):
        driver.restarted("run-b").land(3)
    assert "belongs to an earlier table" in caplog.text
    assert "were removed" in caplog.text
    driver.restarted("run-c", rules=ACCEPTS).land(3)
    assert world.rows() == ids_of(3)


def test_a_bookmark_that_cannot_be_kept_does_not_fail_a_landed_epoch(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """L23, F9: the epoch is in the table; a warning says that its bookmark is not."""
    driver = Driver(world)
    driver.land(0)
    driver.steps.named = {"write_note": raising(StorageError("no space"))}
    assert driver.land(1).version is not None
    assert "could not be written: no space" in caplog.text
    assert driver.restarted("run-b").land(1).was_skipped


def test_no_row_lands_before_the_first_bookmark_is_kept(world: World) -> None:
    """L23: or its absence could not mean that nothing ever landed."""
    driver = Driver(world)
    driver.steps.named = {"write_note": raising(StorageError("no space"))}
    with pytest.raises(StorageError):
        driver.land(0)
    assert landed(world) == []
    assert world.rows() == []
