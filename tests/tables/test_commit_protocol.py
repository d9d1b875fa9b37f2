"""The commit protocol, step by step, on a table in memory and on Lance: what is landed, skipped and refused."""

from __future__ import annotations

import pyarrow as pa
import pytest
from drivers import Driver, ids_of, ids_through
from worlds import MODES, QUERY, World, fences, history, landed, marked

from headrace import (
    CheckpointResetError,
    CommitConflictError,
    FencedError,
    LandingError,
    SchemaMismatchError,
)
from headrace.tables.commit import ledger
from headrace.tables.commit.landed import Landed
from headrace.tables.commit.message import TaskMessage
from headrace.tables.commit.payload import AppendPayload, OverwritePayload
from headrace.tables.commit.protocol import commit_batch
from headrace.tables.store import Kind
from support.stepping import SteppedStore, Steps

EVERY_MODE = pytest.mark.parametrize("mode", MODES)


@EVERY_MODE
def test_an_epoch_lands_as_one_stamped_version(world: World, mode: str) -> None:
    """L7, L9: one version per epoch, both keys as strings; a take-over is no epoch, and complete mode has none."""
    driver = Driver(world, mode=mode)
    outcomes = [driver.land(epoch) for epoch in range(3)]

    stamped = [entry for entry in history(world) if ledger.QUERY_ID in entry.properties]
    assert [outcome.version for outcome in outcomes] == [entry.version for entry in stamped]
    assert [(e.properties["lance.streaming.queryId"], e.properties["lance.streaming.epochId"]) for e in stamped] == [
        (QUERY, "0"),
        (QUERY, "1"),
        (QUERY, "2"),
    ]
    kind = {"append": Kind.APPEND, "complete": Kind.REPLACE, "upsert": Kind.OTHER}[mode]
    assert {entry.kind for entry in stamped} == {kind}
    assert {entry.properties[ledger.MODE] for entry in stamped} == {mode}
    assert fences(world) == (0 if mode == "complete" else 1)
    assert world.store().open().version == 1 + 3 + fences(world)
    assert world.rows() == (ids_of(2) if mode == "complete" else ids_through(2))


@EVERY_MODE
def test_the_same_epoch_twice_lands_once(world: World, mode: str) -> None:
    """L12, L9, L11: from the same run, from a process that remembers nothing, and from the next run."""
    driver = Driver(world, mode=mode)
    for epoch in range(2):
        driver.land(epoch)
    version, rows = world.store().open().version, world.rows()

    assert driver.land(1).was_skipped
    driver.forget()
    assert driver.land(1).was_skipped
    again = driver.restarted("run-b")
    assert again.land(1).was_skipped
    assert world.store().open().version == version
    assert world.rows() == rows
    again.land(2)
    assert landed(world) == [0, 1, 2]


def test_a_replay_whose_rows_differ_changes_nothing(world: World) -> None:
    """L19: the first commit wins."""
    driver = Driver(world)
    driver.land(0, [1, 2])
    assert driver.restarted("run-b").land(0, [3, 4, 5]).was_skipped
    assert world.rows() == [1, 2]


@EVERY_MODE
def test_an_older_epoch_than_the_newest_landed_is_never_committed(world: World, mode: str) -> None:
    """L17: no matter which run sends it."""
    driver = Driver(world, mode=mode)
    for epoch in range(8):
        driver.land(epoch)
    version = world.store().open().version
    for other in (driver, driver.restarted("run-b"), driver.restarted("run-c", checkpoint="")):
        for epoch in (6, 0):
            assert other.land(epoch).was_skipped
    assert world.store().open().version == version
    assert landed(world) == list(range(8))


def test_the_same_epoch_of_another_query_lands_too(world: World) -> None:
    """L15: queries do not see each other's stamps or fences, whichever run they are."""
    one, two = Driver(world, query_id="one"), Driver(world, query_id="two")
    for epoch in range(3):
        assert not one.land(epoch, [epoch]).was_skipped
        assert not two.land(epoch, [100 + epoch]).was_skipped
    assert landed(world, "one") == landed(world, "two") == [0, 1, 2]
    assert world.rows() == [0, 1, 2, 100, 101, 102]


@EVERY_MODE
def test_a_reset_checkpoint_stops_the_query_and_names_the_ways_out(world: World, mode: str) -> None:
    """L18: nothing is changed, at whatever epoch the new checkpoint begins."""
    driver = Driver(world, mode=mode)
    driver.land(0)
    driver.land(1)
    version = world.store().open().version
    for epoch in (0, 1, 2, 9):
        with pytest.raises(CheckpointResetError, match=r"new streamingQueryId.*onCheckpointReset=accept"):
            driver.restarted("run-b", checkpoint="another").land(epoch)
    assert world.store().open().version == version
    driver.land(2)
    assert landed(world) == [0, 1, 2]


@EVERY_MODE
def test_an_accepted_reset_lands_every_epoch_of_the_new_checkpoint(world: World, mode: str) -> None:
    """L18: with accept, the new checkpoint's epochs are new rows; its replays are recognised all the same."""
    old = Driver(world, mode=mode)
    old.land(0)
    old.land(5)
    accepting = {"accepts_reset": True}
    new = old.restarted("run-b", checkpoint="another", rules=accepting)
    new.land(0, [700])
    assert new.restarted("run-c").land(0, [700]).was_skipped
    third = new.restarted("run-d")
    third.land(1, [701])
    assert landed(world) == [0, 5, 0, 1]
    assert world.rows() == ([701] if mode == "complete" else [*ids_of(0), *ids_of(5), 700, 701])
    with pytest.raises(FencedError):
        old.land(6)
    with pytest.raises(FencedError):
        new.land(2)


@EVERY_MODE
@pytest.mark.parametrize("is_history_kept", [True, False])
def test_a_checkpoint_that_another_has_replaced_does_not_come_back(
    world: World, mode: str, is_history_kept: bool
) -> None:
    """L18: though both accept; it may have landed what it would send again."""
    accepting = {"accepts_reset": True}
    old = Driver(world, mode=mode, rules=accepting)
    old.land(0)
    old.land(1)
    new = old.restarted("run-b", checkpoint="another")
    new.land(0, [700])
    new.restarted("run-c").land(1, [701])
    if not is_history_kept:
        world.append([900])
        world.clean(1)
    version, rows = world.store().open().version, world.rows()
    for epoch in (0, 1, 2):
        with pytest.raises(CheckpointResetError, match="replaced by checkpoint another"):
            old.restarted("run-d").land(epoch)
    assert world.store().open().version == version
    assert world.rows() == rows
    assert new.restarted("run-e").land(1, [701]).was_skipped


@EVERY_MODE
def test_a_superseded_driver_is_fenced_permanently(world: World, mode: str) -> None:
    """F4, L26, L27: with its memory and without; what it would have replayed is not taken for landed either."""
    old = Driver(world, mode=mode)
    old.land(0)
    new = old.restarted("run-b")
    new.land(1)
    version = world.store().open().version
    for epoch in (0, 1, 2):
        with pytest.raises(FencedError, match="run-b has taken over"):
            old.land(epoch)
    old.forget()
    with pytest.raises(FencedError):
        old.land(2)
    assert world.store().open().version == version
    new.land(2)
    assert landed(world) == [0, 1, 2]


@EVERY_MODE
def test_without_a_run_an_epoch_still_lands_once(world: World, mode: str) -> None:
    """L12: where there was no task to say which run it is, the epoch is taken for the newest run's."""
    nobody = Driver(world, run=None, mode=mode)
    nobody.land(0)
    assert nobody.land(0).was_skipped
    driver = Driver(world, mode=mode)
    driver.land(1)
    nobody.forget()
    nobody.land(2)
    assert driver.land(2).was_skipped
    driver.land(3)
    assert landed(world) == [0, 1, 2, 3]


def test_an_epoch_stamped_by_another_tool_is_landed(world: World) -> None:
    """L12: the two keys alone decide."""
    store = world.store()
    theirs = {ledger.QUERY_ID: QUERY, ledger.EPOCH_ID: "4"}
    change = AppendPayload([world.write([1])]).operation(store.open(), store)
    store.publish(change, read_version=store.open().version, properties=theirs)
    driver = Driver(world)
    assert driver.land(4).was_skipped
    driver.land(5)
    assert landed(world) == [4, 5]


def test_a_stamp_that_is_not_a_number_stops_the_query(world: World) -> None:
    """L21: what cannot be read is not read as "not landed"."""
    store = world.store()
    change = AppendPayload([world.write([1])]).operation(store.open(), store)
    properties = {ledger.QUERY_ID: QUERY, ledger.EPOCH_ID: "five"}
    store.publish(change, read_version=store.open().version, properties=properties)
    with pytest.raises(LandingError, match="'five'"):
        Driver(world).land(5)


@EVERY_MODE
def test_an_empty_epoch_makes_a_version_only_in_complete_mode(world: World, mode: str) -> None:
    """L8, L9"""
    driver = Driver(world, mode=mode)
    driver.land(0)
    version = world.store().open().version
    outcome = driver.land(1, [])
    if mode == "complete":
        assert outcome.version == version + 1
        assert world.rows() == []
        assert world.store().open().schema.names == ["id", "note"]
    else:
        assert outcome == Landed(1)
        assert world.store().open().version == version


def test_some_empty_tasks_still_make_one_version(world: World) -> None:
    """L8"""
    driver = Driver(world)
    messages = [world.write([1]), TaskMessage(1), world.write([2, 3], partition=2), TaskMessage(3)]
    driver.committer().commit(0, AppendPayload(messages))
    assert landed(world) == [0]
    assert world.rows() == [1, 2, 3]


def test_foreign_appends_updates_and_deletes_all_along_are_kept(world: World) -> None:
    """F5, L24"""
    driver = Driver(world)
    world.append([1001, 1002, 1003])
    for epoch in range(4):
        driver.land(epoch)
        world.append([2000 + epoch])
        world.update(1001)
        if epoch == 2:
            world.delete(1002)
        world.compact()
    assert world.rows() == sorted([1001, 1003, *range(2000, 2004), *ids_through(3)])
    assert landed(world) == [0, 1, 2, 3]


@pytest.mark.parametrize("mode", ["append", "complete"])
def test_a_message_of_one_partition_twice_is_refused(world: World, mode: str) -> None:
    """L29: only one attempt of a task may land."""
    first, second = (world.write([1], replacing=mode == "complete") for _ in range(2))
    payload = AppendPayload([first, second]) if mode == "append" else OverwritePayload([first, second])
    version = world.store().open().version
    with pytest.raises(LandingError, match="partition 0 2 times"):
        Driver(world, mode=mode).committer().commit(0, payload)
    assert landed(world) == []
    assert world.store().open().version - version == fences(world)


def test_files_that_are_gone_fail_the_epoch_before_the_commit(world: World) -> None:
    """F8: the table stays readable, and a restart lands the epoch."""
    driver = Driver(world)
    driver.land(0)
    payload = driver.payload(ids_of(1))
    world.clean(unverified=True)
    if not world.store().missing_files(payload.files):
        # Lance leaves what is only minutes old, even so.
        world.lose_file(payload.files[0])
    version = world.store().open().version
    with pytest.raises(LandingError, match=r"1 of 1 data files of the epoch are gone.*delete_unverified"):
        driver.committer().commit(1, payload)
    assert world.store().open().version == version
    assert world.rows() == ids_of(0)
    driver.restarted("run-b").land(1)
    assert world.rows() == ids_through(1)


@pytest.mark.parametrize("change", ["drop", "retype"])
def test_a_schema_changed_between_write_and_commit_fails_the_epoch(world: World, change: str) -> None:
    """F11: before the commit, naming the column; rows written to the new schema land."""
    driver = Driver(world)
    driver.land(0)
    payload = driver.payload(ids_of(1))
    if change == "drop":
        world.drop_column("note")
    else:
        world.retype_column("note", pa.large_string())
    with pytest.raises(SchemaMismatchError, match="'note'"):
        driver.committer().commit(1, payload)
    assert landed(world) == [0]
    driver.land(1)
    assert world.rows() == ids_through(1)


def test_a_column_added_or_renamed_between_write_and_commit_does_not_matter(world: World) -> None:
    """F11, L32: the rows still fit: a column is known by its id, and a new one is null."""
    driver = Driver(world)
    payload = driver.payload(ids_of(0))
    world.rename_column("note", "remark")
    world.add_column("more")
    driver.committer().commit(0, payload)
    assert world.rows() == ids_of(0)


def test_a_result_written_before_the_schema_changed_fails_the_epoch(world: World) -> None:
    """F11: in complete mode too."""
    driver = Driver(world, mode="complete")
    payload = driver.payload([1])
    world.drop_column("note")
    with pytest.raises(SchemaMismatchError, match="'note'"):
        driver.committer().commit(0, payload)


def test_a_batch_write_has_no_key_and_lands_beside_anything(world: World) -> None:
    """L15: it is no epoch, and nobody's replay."""
    driver = Driver(world)
    driver.land(0)
    store = world.store()
    for _ in range(2):
        assert commit_batch(store, AppendPayload([world.write([500])])) is not None
    assert commit_batch(store, AppendPayload([])) is None
    driver.land(1)
    assert world.rows() == [*ids_through(1), 500, 500]
    assert landed(world) == [0, 1]
    commit_batch(store, OverwritePayload([world.write([9], replacing=True)]))
    assert world.rows() == [9]


def test_a_batch_overwrite_that_fell_into_a_hole_is_written_again(world: World) -> None:
    """L25: Lance acknowledges one as the version after the one it read, though that lies below the newest."""
    steps = Steps()

    def clean_around_a_tag() -> None:
        world.tag(world.store().open().version)
        for _ in range(3):
            world.append([900])
        world.clean()

    payload = OverwritePayload([world.write([9], replacing=True)])
    store = SteppedStore(world.store(), steps)
    steps.before = {2: clean_around_a_tag}
    version = commit_batch(store, payload)
    assert steps.calls[2] == "publish Replace"
    assert (world.rows(), version) == ([9], world.store().open().version)


def test_a_table_that_keeps_changing_is_given_up_in_the_end(world: World) -> None:
    """L25: a clear conflict after a bounded number of tries, and nothing landed."""
    driver = Driver(world, mode="complete")
    driver.land(0)

    driver.steps.named = {"publish Replace": lambda: world.append([1])}
    with pytest.raises(CommitConflictError, match="concurrent changes in a row"):
        driver.land(1)
    assert landed(world) == [0]


def test_the_bookmark_follows_every_commit(world: World) -> None:
    """L23: it is there before the first epoch is, and points at the newest stamp after each."""
    driver = Driver(world)
    before_rows: list[int] = []

    driver.steps.named = {"publish Append": lambda: before_rows.append(marked(world))}
    outcomes = []
    for epoch in range(2):
        outcomes.append(driver.land(epoch).version)
        assert marked(world) == outcomes[-1]
    assert before_rows == [2, outcomes[0]]
    assert len(world.store().list_notes()) == 1
