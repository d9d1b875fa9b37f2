"""The queries a table knows; one that is forgotten counts as new; cleanup spares what the others need."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from drivers import Driver, ids_of
from worlds import LanceWorld

from headrace import CheckpointResetError, CommitConflictError, ConfigurationError, FencedError, LandingError
from headrace.tables.commit.retry import ATTEMPTS
from headrace.tables.manage import cleanup, history, queries
from support.stepping import SteppedStore, Steps


@pytest.fixture
def world(tmp_path: Path) -> LanceWorld:
    return LanceWorld(str(tmp_path / "table.lance"))


def test_a_table_knows_the_queries_that_landed_in_it(world: LanceWorld) -> None:
    """L23: with the version by which each knows how far it is, though its bookmark be behind."""
    assert queries.known(world.store()) == []
    one, two = Driver(world, query_id="one"), Driver(world, query_id="two")
    one.land(0)
    two.land(0)
    notes = {name: world.store().read_note(name) for name in world.store().list_notes()}
    one.land(1)
    for name, text in notes.items():
        assert text is not None
        world.store().write_note(name, text)
    found = {query.id: (query.stamp.epoch, query.version, query.is_forgotten) for query in queries.known(world.store())}
    assert found == {"one": (1, 6, False), "two": (0, 5, False)}


def test_a_forgotten_query_starts_from_scratch(world: LanceWorld) -> None:
    """L23, L26: its epochs land again, from whatever checkpoint, and what others do does not matter."""
    driver = Driver(world)
    driver.land(0)
    driver.land(1, [])
    other = Driver(world, run="other", query_id="other")
    other.land(0, [77])
    queries.forget(world.store(), driver.query_id)
    with pytest.raises(FencedError):
        driver.land(2)
    again = driver.restarted("run-b", checkpoint="another")
    assert not again.land(0).was_skipped
    assert world.rows() == sorted([*ids_of(0), *ids_of(0), 77])
    assert other.restarted("other-b").land(0).was_skipped
    assert [event.what for event in history.events(world.store(), last=3)] == ["landed", "fenced", "forgotten"]
    assert all(not query.is_forgotten for query in queries.known(world.store()))


def test_a_query_that_is_forgotten_may_go_on_from_any_checkpoint(world: LanceWorld) -> None:
    """L18: also from one that another had taken the place of."""
    old = Driver(world, rules={"accepts_reset": True})
    old.land(0)
    old.restarted("run-b", checkpoint="another").land(0, [700])
    queries.forget(world.store(), old.query_id)
    old.restarted("run-c").land(1)
    assert world.rows() == sorted([*ids_of(0), *ids_of(1), 700])
    with pytest.raises(CheckpointResetError):
        old.restarted("run-d", checkpoint="a third", rules={}).land(0)


def test_forgetting_an_unknown_query_names_the_known_ones(world: LanceWorld) -> None:
    """L23: and changes nothing."""
    with pytest.raises(LandingError, match=r"No query 'nobody'.*it knows no query"):
        queries.forget(world.store(), "nobody")
    Driver(world, query_id="known").land(0)
    version = world.dataset.version
    with pytest.raises(LandingError, match=r"it knows 'known'"):
        queries.forget(world.store(), "nobody")
    assert world.dataset.version == version


def test_forgetting_pauses_between_attempts_and_gives_up_on_a_table_that_keeps_changing(world: LanceWorld) -> None:
    """L25: as an epoch does; nothing is forgotten."""
    driver, pauses = Driver(world), []
    driver.land(0)
    busy = SteppedStore(world.store(), Steps(named={"publish Fence": lambda: world.append([1])}))
    with pytest.raises(CommitConflictError, match=r"Forgetting query .* met 100 concurrent changes in a row"):
        queries.forget(busy, driver.query_id, pause=pauses.append)
    assert len(pauses) == ATTEMPTS - 1
    assert len(set(pauses)) > 1
    assert driver.restarted("run-b").land(0).was_skipped


def test_cleanup_refuses_what_a_query_needs(world: LanceWorld) -> None:
    """L23, F8: until the query has gone on, or is forgotten."""
    driver = Driver(world)
    driver.land(0)
    for number in range(3):
        world.append([100 + number])
    with pytest.raises(ConfigurationError, match=r"Version 3 of .* epoch 0 of query .*forget it"):
        cleanup.plan(world.store(), keep=2)
    assert len(world.store().open().kept_versions(0)) == 6
    driver.land(1)
    plan = cleanup.plan(world.store(), keep=2)
    assert plan.versions == (1, 2, 3, 4, 5)
    done = cleanup.carry_out(world.store(), plan)
    assert done.bytes is not None
    assert world.store().open().kept_versions(0) == [7, 6]
    assert driver.restarted("run-b").land(1).was_skipped
    world.append([200])
    queries.forget(world.store(), driver.query_id)
    world.append([201])
    assert cleanup.plan(world.store(), keep=1).versions == (6, 7, 8, 9)


def test_cleanup_spares_what_is_tagged_or_young(world: LanceWorld) -> None:
    """F8: and the newest version in any case."""
    for number in range(3):
        world.append([number])
    world.tag(2)
    assert cleanup.plan(world.store(), older_than=timedelta(days=1)).versions == ()
    assert cleanup.carry_out(world.store(), cleanup.plan(world.store(), older_than=timedelta(days=1))).bytes == 0
    assert cleanup.plan(world.store(), older_than=timedelta()).versions == (1, 3)
    assert cleanup.plan(world.store(), keep=2, older_than=timedelta()).versions == (1,)
    cleanup.carry_out(world.store(), cleanup.plan(world.store(), keep=1))
    assert world.store().open().kept_versions(0) == [4, 2]
    assert world.rows(2) == [0]
