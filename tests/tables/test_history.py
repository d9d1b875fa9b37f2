"""The history in words: every kind of version, by whom and for which query."""

from __future__ import annotations

from pathlib import Path

import pytest
from drivers import Driver
from worlds import LanceWorld

from headrace.tables.manage.history import Event, events


@pytest.fixture
def world(tmp_path: Path) -> LanceWorld:
    return LanceWorld(str(tmp_path / "table.lance"))


def history(world: LanceWorld, last: int | None = None) -> list[Event]:
    return list(events(world.store(), last=last))


def test_a_stream_shows_its_fences_and_epochs(world: LanceWorld) -> None:
    """L7, L15: with rows, files and the run; newest first."""
    driver = Driver(world)
    driver.land(0)
    driver.land(1, [7])
    landed, before, fence, created = history(world)
    assert (landed.version, landed.what, landed.query, landed.epoch, landed.rows, landed.files) == (
        4, "landed", driver.query_id, 1, 1, 1,
    )  # fmt: skip
    assert (landed.run, landed.checkpoint) == ("run-a", "checkpoint")
    assert (before.epoch, before.rows) == (0, 2)
    assert (fence.what, fence.query, fence.epoch, fence.run) == ("fenced", driver.query_id, None, "run-a")
    assert (created.version, created.what, created.query) == (1, "created", None)
    assert landed.made >= before.made >= fence.made
    assert [event.version for event in history(world, last=2)] == [4, 3]


def test_epochs_without_a_version_are_listed_by_the_next(world: LanceWorld) -> None:
    """L8, L13: those that had no rows, and those that had landed before a restart."""
    driver = Driver(world)
    driver.land(0, [])
    driver.land(1, [])
    driver.land(2)
    driver.land(3, [])
    driver.land(4)
    restarted = driver.restarted("run-b")
    assert restarted.land(4).was_skipped
    restarted.land(5)
    fifth, second_fence, fourth, second, first_fence, _ = history(world)
    assert str(first_fence.empty) == "0-1"
    assert (str(second.empty), str(fourth.empty)) == ("", "3")
    assert (second_fence.epoch, str(second_fence.skipped), second_fence.run) == (4, "4", "run-b")
    assert (str(fifth.skipped), str(fifth.empty)) == ("", "")
    assert not [name for name in world.store().list_notes() if name.startswith("empty-")]


def test_what_others_do_has_a_word(world: LanceWorld) -> None:
    """L22, R2, R3: rows and files where a version adds some. A compaction makes two: it reserves numbers first."""
    world.append([1, 2])
    world.append([3])
    world.compact()
    world.delete(1)
    world.update(2)
    world.configure()
    world.dataset.create_scalar_index("id", "BTREE")
    world.dataset.merge_insert("id").when_not_matched_insert_all().execute(world.batch([9]))
    world.dataset.merge_insert("id").when_matched_update_all().execute(world.batch([9]))
    world.add_column("more")
    world.drop_column("more")
    world.overwrite([5])
    world.restore(2)
    found = history(world)[::-1]
    assert [event.what for event in found] == [
        "created", "appended", "appended", "other", "compacted", "deleted", "updated", "configured", "indexed",
        "merged", "updated", "columns added", "columns dropped", "overwritten", "restored",
    ]  # fmt: skip
    assert [(event.rows, event.files) for event in found[:3]] == [(None, None), (2, 1), (1, 1)]
    assert {event.query for event in found} == {None}
