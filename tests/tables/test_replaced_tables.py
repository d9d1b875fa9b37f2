"""Tables that no longer have what a query landed in them: a checkpoint that is not new does not hide it."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest
from drivers import Driver, ids_of, ids_through
from worlds import MODES, LanceWorld, World, history, landed

from headrace import ConfigurationError, StorageError, TableReplacedError
from headrace.tables.commit import ledger
from headrace.tables.commit.ledger import QueryRun
from headrace.tables.location import Location
from headrace.tables.manage import queries
from headrace.tables.manage.verify import verify
from headrace.tables.settings import Rules, SinkSettings
from headrace.tables.sink import EpochSink
from support.stepping import raising

EVERY_MODE = pytest.mark.parametrize("mode", MODES)
# In complete mode every epoch has the whole result.
LOSING_MODES = pytest.mark.parametrize("mode", ["append", "upsert"])
ACCEPTS = {"accepts_replaced": True}


@pytest.fixture(autouse=True)
def _warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "headrace.tables")


@LOSING_MODES
def test_a_table_that_does_not_know_the_query_stops_a_checkpoint_that_is_not_new(world: World, mode: str) -> None:
    """L40, F6: every time, with nothing changed; the ways out are named."""
    driver = Driver(world, mode=mode)
    driver.land(0)
    driver.land(1)
    world.recreate()
    for run in ("run-b", "run-c"):
        again = driver.restarted(run)
        with pytest.raises(TableReplacedError, match=r"epoch 2 of checkpoint .*does not have epochs 0-1") as caught:
            again.land(2)
        for way in ("put the table back", "a new checkpoint and a new streamingQueryId", "onTableReplaced=accept"):
            assert way in str(caught.value)
        with pytest.raises(TableReplacedError):
            again.committer().has_landed(2, mode)
    assert (len(history(world)), world.rows(), world.store().list_notes()) == (1, [], [])
    driver.restarted("run-d", checkpoint="a new one").land(0)
    assert world.rows() == ids_of(0)


@LOSING_MODES
def test_it_is_accepted_once(world: World, mode: str, caplog: pytest.LogCaptureFixture) -> None:
    """L40: a warning says which epochs are left out; from then on the table knows the query."""
    driver = Driver(world, mode=mode)
    driver.land(0)
    driver.land(1)
    world.recreate()
    driver.restarted("run-b", rules=ACCEPTS).land(2)
    assert "continues without its epochs 0-1, which are not in the table" in caplog.text
    caplog.clear()
    again = driver.restarted("run-c")
    assert again.land(2).was_skipped
    again.land(3)
    assert landed(world) == [2, 3]
    assert caplog.text == ""


def test_a_run_that_dies_after_it_accepted_need_not_accept_again(world: World) -> None:
    """L40: its fence says so."""
    driver = Driver(world)
    driver.land(0)
    world.recreate()
    dying = driver.restarted("run-b", rules=ACCEPTS)
    dying.steps.named = {"publish Append": raising(StorageError("gone"))}
    with pytest.raises(StorageError):
        dying.land(1)
    driver.restarted("run-c").land(1)
    assert landed(world) == [1]


def test_a_whole_result_lands_in_any_table(world: World) -> None:
    """L40, L9: it has the rows of all epochs before it."""
    driver = Driver(world, mode="complete")
    driver.land(0)
    world.recreate()
    driver.restarted("run-b").land(1)
    world.overwrite([900])
    driver.restarted("run-c").land(2)
    assert world.rows() == ids_of(2)


@LOSING_MODES
@pytest.mark.parametrize("is_restarted", [False, True])
def test_first_epochs_without_rows_are_no_loss(world: World, mode: str, is_restarted: bool) -> None:
    """L40, L8: they made no version, and it is noted that they had no rows; by one run or by several."""
    driver = Driver(world, mode=mode)
    for epoch in range(3):
        driver.land(epoch, [])
        if is_restarted:
            driver = driver.restarted(f"run {epoch}")
    driver.land(3)
    assert world.rows() == ids_of(3)


@LOSING_MODES
def test_a_first_epoch_without_rows_that_was_not_noted_fails(world: World, mode: str) -> None:
    """L40: otherwise it would look like a lost one. Once the table knows the query, this is a warning."""
    driver = Driver(world, mode=mode)
    driver.steps.named = {"write_note": raising(StorageError("no space"))}
    with pytest.raises(StorageError, match="no space"):
        driver.land(0, [])
    again = driver.restarted("run-b")
    again.land(0, [])
    again.land(1)
    again.steps.named = {"write_note": raising(StorageError("no space"))}
    again.land(2, [])
    assert landed(world) == [1]


def test_only_the_epochs_that_had_rows_are_named(world: World) -> None:
    """L40: a run that continues in the same process knows which had none."""
    driver = Driver(world)
    driver.land(0, [])
    driver.land(1, [])
    world.recreate()
    driver.land(2)
    world.recreate()
    again = driver.restarted("run-b")
    again.land(3, [])
    with pytest.raises(TableReplacedError, match="does not have epochs 0-2"):
        again.land(4)


def test_a_rival_that_takes_over_at_the_same_moment_is_no_loss(world: World) -> None:
    """L40, F4: it has removed the note of the first epochs between the two looks at the table."""
    driver = Driver(world)
    driver.land(0, [])
    slow = driver.restarted("run-b")
    todo = [lambda: driver.land(1)]
    slow.steps.named = {"list_notes": lambda: todo.pop()() if "entry" in slow.steps.calls and todo else None}
    assert slow.land(1).was_skipped
    assert not todo
    assert landed(world) == [1]


def test_a_direct_call_may_begin_anywhere(world: World) -> None:
    """L40: where there is no checkpoint, nothing says that there were epochs before."""
    Driver(world, checkpoint="").land(7)
    Driver(world, run=None, query_id="another").land(7)
    assert landed(world) == [7]


@LOSING_MODES
def test_a_forgotten_query_continues_from_its_checkpoint(world: World, mode: str) -> None:
    """L40, C7: the table knows that it was."""
    driver = Driver(world, mode=mode)
    driver.land(0)
    driver.land(1)
    world.overwrite([900])
    queries.forget(world.store(), driver.query_id)
    driver.restarted("run-b").land(2)
    assert world.rows() == sorted([900, *ids_of(2)])


@LOSING_MODES
@pytest.mark.parametrize("what", ["overwrite", "restore"])
def test_a_table_that_was_replaced_while_the_query_was_stopped_stops_it(world: World, mode: str, what: str) -> None:
    """L40, F6: also one that was restored to before the query's first stamp; accepted once, the query continues."""
    driver = Driver(world, mode=mode)
    driver.land(0)
    driver.land(1)
    if what == "overwrite":
        world.overwrite([900])
    else:
        world.restore(1)
    kept, version = world.rows(), world.store().open().version
    world.configure()
    for epoch in (1, 2):
        with pytest.raises(TableReplacedError, match=rf"Version {version} .*{what} by another.*landed up to epoch 1"):
            driver.restarted("run-b").land(epoch)
    assert world.store().open().version == version + 1
    again = driver.restarted("run-c", rules=ACCEPTS)
    assert again.land(1).was_skipped
    again.land(2)
    driver.restarted("run-d").land(3)
    assert world.rows() == sorted([*kept, *ids_of(2), *ids_of(3)])


@LOSING_MODES
def test_a_table_that_was_put_back_is_as_it_was(world: World, mode: str) -> None:
    """L40: a restore of the last stamped version, or of a later one, undoes what came between."""
    driver = Driver(world, mode=mode)
    driver.land(0)
    driver.land(1)
    last = world.store().open().version
    world.overwrite([900])
    world.restore(1)
    world.restore(last)
    driver.restarted("run-b").land(2)
    world.configure()
    kept = world.store().open().version
    world.overwrite([900])
    world.restore(kept)
    driver.restarted("run-c").land(3)
    assert world.rows() == ids_through(3)
    world.overwrite([900])
    replaced = world.store().open().version
    world.restore(1)
    world.restore(replaced)
    with pytest.raises(TableReplacedError, match=f"Version {replaced} .* overwrite"):
        driver.restarted("run-d").land(4)


@EVERY_MODE
def test_what_cleanup_removed_is_no_loss(world: World, mode: str, caplog: pytest.LogCaptureFixture) -> None:
    """L40, L20, L23: the bookmark knows the query, and the query continues with a warning."""
    driver = Driver(world, mode=mode)
    driver.land(0)
    driver.land(1)
    for _ in range(3):
        world.configure()
    world.clean()
    assert landed(world) == []
    driver.restarted("run-b").land(2)
    assert "were removed before query" in caplog.text
    assert world.rows() == (ids_of(2) if mode == "complete" else ids_through(2))


def test_a_missing_table_is_not_created_for_a_checkpoint_that_is_not_new(tmp_path: Path) -> None:
    """L40, L5: nothing is left behind; a first epoch creates it, and so does one that accepts the loss."""
    schema, location = pa.schema([("id", pa.int64())]), Location(str(tmp_path / "table.lance"))
    run = QueryRun("run-a", "checkpoint")

    def prepare(epoch: int, mode: str = "append", **rules: bool) -> None:
        sink = EpochSink(SinkSettings(location, Rules("query", **rules), creates_table=True))  # type: ignore[arg-type]
        sink.prepare(schema, before_creation=lambda: sink.committer(run).require_new(epoch, mode))

    with pytest.raises(TableReplacedError, match=f"the table {location.uri} does not have epochs 0-4"):
        prepare(5)
    assert list(tmp_path.iterdir()) == []
    for number, (epoch, mode, rules) in enumerate(((0, "append", {}), (5, "complete", {}), (5, "append", ACCEPTS))):
        location = Location(str(tmp_path / f"{number}.lance"))
        prepare(epoch, mode, **rules)
    assert len(list(tmp_path.iterdir())) == 3


def test_the_history_lists_what_was_accepted(tmp_path: Path) -> None:
    """L40, C6: and nothing is found missing."""
    world = LanceWorld(str(tmp_path / "table.lance"))
    driver = Driver(world)
    driver.land(0)
    world.recreate()
    driver.restarted("run-b", rules=ACCEPTS).land(1)
    (account,) = verify(world.store())
    assert (str(account.checked), str(account.without), account.problems) == ("1", "0", ())
    (fence,) = [entry for entry in history(world) if ledger.FENCE in entry.properties]
    assert fence.properties["headrace.fence.withoutEpochs"] == "0"


@pytest.mark.parametrize(("old", "new"), [(a, b) for a in MODES for b in MODES if a != b])
def test_another_mode_under_the_same_id_stops_the_query(world: World, old: str, new: str) -> None:
    """L41: nothing changes; the table can forget the query first."""
    driver = Driver(world, mode=old)
    driver.land(0)
    version = world.store().open().version
    for epoch in (0, 1):
        with pytest.raises(ConfigurationError, match=rf"in mode {new}.*in mode {old}.*new streamingQueryId.*forget"):
            driver.restarted("run-b", mode=new).land(epoch)
        with pytest.raises(ConfigurationError):
            driver.restarted("run-b").committer().has_landed(epoch, new)
    assert world.store().open().version == version
    Driver(world, mode=new, query_id="another").land(0, [700])
    queries.forget(world.store(), driver.query_id)
    driver.restarted("run-c", mode=new).land(1)
    assert set(ids_of(1)) <= set(world.rows())


def test_a_mode_is_known_from_a_fence_and_from_the_bookmark(world: World) -> None:
    """L41: though nothing landed, or what landed was cleaned up."""
    driver = Driver(world)
    driver.steps.named = {"publish Append": raising(StorageError("gone"))}
    with pytest.raises(StorageError):
        driver.land(0)
    with pytest.raises(ConfigurationError, match="in mode upsert"):
        driver.restarted("run-b", mode="upsert").land(0)
    for _ in range(3):
        world.configure()
    world.clean()
    with pytest.raises(ConfigurationError, match="in mode upsert"):
        driver.restarted("run-b", mode="upsert").land(0)
