"""The audit finds what is doubled and what is missing, and nothing where all is well."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from drivers import Driver
from worlds import LanceWorld

from headrace import LandingError, StorageError
from headrace.tables.commit.epochs import Epochs
from headrace.tables.commit.ledger import QueryRun, Stamp, details
from headrace.tables.manage import checkpoint as checkpoints
from headrace.tables.manage import queries
from headrace.tables.manage.checkpoint import Checkpoint
from headrace.tables.manage.verify import Account, verify
from headrace.tables.store import Append, Replace


@pytest.fixture
def world(tmp_path: Path) -> LanceWorld:
    return LanceWorld(str(tmp_path / "table.lance"))


def only(world: LanceWorld, **asked: object) -> Account:
    (account,) = verify(world.store(), **asked)  # type: ignore[arg-type]
    return account


def checkpoint(done: int, planned: int | None = None, id: str = "checkpoint") -> Checkpoint:
    return Checkpoint(id, Epochs.between(0, done if planned is None else planned), Epochs.between(0, done))


def stamp_by_hand(world: LanceWorld, epoch: int) -> None:
    """What a writer without the protocol does."""
    stamp = Stamp("query", epoch, QueryRun("run-a").id, "checkpoint")
    fragments = tuple(world.write([epoch]).fragments)
    world.store().publish(Append(fragments), read_version=world.dataset.version, properties=stamp.properties())


def test_nothing_is_found_where_all_is_well(world: LanceWorld) -> None:
    """L7, L8, L13: with empty epochs, a replay, a restart, another query, compaction, and an epoch not yet done."""
    driver, other = Driver(world, query_id="query"), Driver(world, run="o", query_id="other", checkpoint="other's")
    driver.land(0, [])
    driver.land(1)
    other.land(0)
    driver.land(2, [])
    world.compact()
    driver.land(3)
    restarted = driver.restarted("run-b")
    restarted.land(3)
    restarted.land(4)
    restarted.land(5, [])
    found = {account.query: account for account in verify(world.store())}
    assert list(found) == ["other", "query"]
    account = found["query"]
    assert (str(account.checked), str(account.landed), str(account.empty)) == ("0-4", "1,3-4", "0,2,5")
    assert account.rows == 6
    assert account.problems == found["other"].problems == ()
    for known in (checkpoint(5), checkpoint(3, planned=4), checkpoint(4, planned=6)):
        assert only(world, checkpoint=known).problems == ()
    assert str(only(world, checkpoint=checkpoint(5)).checked) == "0-5"


def test_an_epoch_that_landed_twice_is_found(world: LanceWorld) -> None:
    """L13: by the versions that hold it."""
    for epoch in (0, 1, 1, 2):
        stamp_by_hand(world, epoch)
    assert only(world).problems == ("Epoch 1 landed 2 times, in versions 3 and 4.",)


def test_an_epoch_that_is_missing_is_found(world: LanceWorld) -> None:
    """L13: in the middle without a checkpoint, at the end with one."""
    for epoch in (0, 2, 5):
        stamp_by_hand(world, epoch)
    (problem,) = only(world).problems
    assert problem.startswith("No version has rows of epochs 1,3-4, and there is no record that there were none, ")
    (problem,) = only(world, checkpoint=checkpoint(6)).problems
    assert problem.startswith("No version has rows of epochs 1,3-4,6, ")
    assert "the checkpoint records" in problem


def test_versions_that_are_gone_are_not_held_against_anybody(world: LanceWorld) -> None:
    """L23: what can be checked begins with the first version that is kept."""
    driver = Driver(world, query_id="query")
    for epoch in range(5):
        driver.land(epoch)
    world.dataset.cleanup_old_versions(retain_versions=2)
    account = only(world, checkpoint=checkpoint(4))
    assert (str(account.checked), account.problems) == ("3-4", ())
    driver.restarted("run-b").land(5)
    world.dataset.cleanup_old_versions(retain_versions=2)
    assert str(only(world).checked) == "5"


def test_a_reset_or_forgotten_query_is_counted_from_scratch(world: LanceWorld) -> None:
    """L26: its epochs begin at 0 again, and that is no doubling."""
    driver = Driver(world, query_id="query")
    driver.land(0)
    driver.land(1)
    queries.forget(world.store(), "query")
    driver.restarted("run-b").land(0)
    assert (str(only(world).landed), only(world).problems) == ("0", ())
    accepted = driver.restarted("run-c", checkpoint="new", rules={"accepts_reset": True})
    accepted.land(0)
    accepted.land(1)
    assert (str(only(world).landed), only(world).problems) == ("0-1", ())


def test_a_forgotten_query_that_continues_from_its_checkpoint_misses_nothing(world: LanceWorld) -> None:
    """C6: what it landed before is not asked for again; what is missing since is."""
    driver = Driver(world, query_id="query")
    driver.land(0)
    driver.land(1)
    queries.forget(world.store(), "query")
    driver.restarted("run-b").land(2)
    assert (str(only(world).checked), only(world, checkpoint=checkpoint(2)).problems) == ("2", ())
    assert "epoch 3," in only(world, checkpoint=checkpoint(3)).problems[0]


def test_a_checkpoint_that_does_not_belong_to_the_table_is_found(world: LanceWorld) -> None:
    """L26: another one's, and one that was put back."""
    Driver(world, query_id="query").land(0)
    with pytest.raises(LandingError, match=r"was written from this checkpoint \(Spark query stranger\)"):
        verify(world.store(), checkpoint=checkpoint(0, id="stranger"))
    (problem,) = only(world, query="query", checkpoint=checkpoint(0, id="stranger")).problems
    assert problem == "The epochs landed from checkpoint checkpoint, but this checkpoint is stranger."
    Driver(world, "run-b", query_id="query").land(4, [4])
    assert only(world, checkpoint=checkpoint(-1, planned=0)).problems[-1].startswith("Epoch 4 has landed, but the")


def test_a_query_that_is_not_there_is_named(world: LanceWorld) -> None:
    """L13: with those that are."""
    assert verify(world.store()) == []
    with pytest.raises(LandingError, match=r"by query 'x'.*no versions of any streaming query"):
        verify(world.store(), query="x")
    Driver(world, query_id="query").land(0)
    with pytest.raises(LandingError, match=r"versions of 'query'"):
        verify(world.store(), query="x")


def test_a_checkpoint_is_read_as_spark_leaves_it(tmp_path: Path) -> None:
    """L13: with checksums and temporary files beside, as a path or a URI; what is none is an error."""
    folder = tmp_path / "checkpoint"
    for name, epochs in (("offsets", (3, 4, 5)), ("commits", (3, 4))):
        (folder / name).mkdir(parents=True)
        for epoch in epochs:
            (folder / name / str(epoch)).write_text("v1")
            (folder / name / f".{epoch}.crc").write_text("")
    (folder / "offsets" / ".6.tmp").write_text("")
    with pytest.raises(StorageError, match=r"no checkpoint of a Spark query at .*metadata"):
        checkpoints.read(str(folder))
    (folder / "metadata").write_text(json.dumps({"id": "some-id"}))
    expected = Checkpoint("some-id", Epochs.of(3, 4, 5), Epochs.of(3, 4))
    for location in (str(folder), f"file://{folder}", f"file:{folder}"):
        assert checkpoints.read(location) == expected
    (folder / "metadata").write_text("{}")
    with pytest.raises(StorageError, match="no checkpoint"):
        checkpoints.read(str(folder))


def test_versions_removed_between_others_are_held_against_nobody(world: LanceWorld) -> None:
    """C6: around a tagged fence, with epochs that landed and one that had no rows in what is gone."""
    driver = Driver(world, query_id="query")
    driver.land(0)
    world.tag(world.dataset.version)
    driver.land(1)
    driver.land(2, [])
    restarted = driver.restarted("run-b")
    restarted.land(3)
    restarted.land(4)
    world.clean(1)
    account = only(world)
    assert (str(account.checked), account.problems) == ("0,4", ())
    restarted.land(5)
    restarted.land(7)
    assert only(world).problems == (
        "No version has rows of epoch 6, and there is no record that there were none, but later epochs landed.",
    )


def test_a_fence_whose_predecessors_are_gone_does_not_speak_for_empty_epochs(world: LanceWorld) -> None:
    """C6: the version that listed the epochs without rows was removed."""
    driver = Driver(world, query_id="query")
    driver.land(0, [])
    driver.land(1)
    restarted = driver.restarted("run-b")
    restarted.land(2)
    world.clean(2)
    assert only(world).problems == ()


def test_a_whole_result_that_landed_again_is_not_doubled(world: LanceWorld) -> None:
    """C6, L9: it is in the place of itself."""
    for _ in range(2):
        result = Replace(world.dataset.schema, tuple(world.write([1], replacing=True).fragments))
        properties = Stamp("query", 0, "run-a", "checkpoint").properties() | details("complete", 1, 1)
        world.store().publish(result, read_version=world.dataset.version, properties=properties)
    assert only(world).problems == ()


def land_by_hand(world: LanceWorld, epoch: int, mode: str, rows: int) -> None:
    """What a release did that took any mode for a query's; its fences did not say theirs."""
    ids, replaces = range(rows), mode == "complete"
    fragments = tuple(world.write(ids, replacing=replaces).fragments)
    change = Replace(world.dataset.schema, fragments) if replaces else Append(fragments)
    properties = Stamp("query", epoch, "run-a", "checkpoint").properties() | details(mode, rows, 1)
    world.store().publish(change, read_version=world.dataset.version, properties=properties)


def test_rows_that_a_whole_result_replaced_are_not_counted(world: LanceWorld) -> None:
    """C6, L41: in histories where the mode was changed, too: the count is what the table got and kept."""
    for epoch in range(2):
        land_by_hand(world, epoch, "append", 5)
    assert only(world).rows == 10
    for epoch in range(2, 4):
        land_by_hand(world, epoch, "complete", 3)
    assert only(world).rows == 3
    land_by_hand(world, 4, "upsert", 2)
    account = only(world)
    assert (str(account.landed), account.rows, account.problems) == ("0-4", 5, ())
    assert world.dataset.count_rows() == 5


def test_rows_of_an_epoch_that_a_whole_result_holds_already_are_doubled(world: LanceWorld) -> None:
    """C6, L41: after a change of mode; the other way round, the result took their place."""
    land_by_hand(world, 0, "append", 1)
    land_by_hand(world, 0, "complete", 1)
    assert only(world).problems == ()
    land_by_hand(world, 0, "append", 1)
    assert only(world).problems == ("Epoch 0 landed 2 times, in versions 3 and 4.",)


def test_a_whole_result_stands_for_the_epochs_before_it(world: LanceWorld) -> None:
    """C6, L9: no epoch before it is missing; one after it is."""
    land_by_hand(world, 3, "complete", 1)
    assert only(world).problems == ()
    (problem,) = only(world, checkpoint=checkpoint(4)).problems
    assert problem.startswith("No version has rows of epoch 4, ")


def test_what_was_not_checked_is_named(world: LanceWorld) -> None:
    """C6: epochs of removed versions, of a query that was forgotten, and of one that has only its bookmark left."""
    driver = Driver(world, query_id="query")
    for epoch in range(5):
        driver.land(epoch)
    assert str(only(world).unchecked) == ""
    world.dataset.cleanup_old_versions(retain_versions=2)
    assert (str(only(world).checked), str(only(world).unchecked)) == ("3-4", "0-2")
    for _ in range(2):
        world.configure()
    world.clean(1)
    for asked in ({}, {"query": "query"}, {"checkpoint": checkpoint(4)}):
        account = only(world, **asked)
        assert (str(account.checked), str(account.unchecked), account.problems) == ("", "0-4", ())
    driver.restarted("run-b").land(5)
    queries.forget(world.store(), "query")
    driver.restarted("run-c").land(6)
    assert (str(only(world).checked), str(only(world).unchecked)) == ("6", "0-5")
