"""Upkeep compacts small files and removes old versions while a stream runs, and the ledger stays correct."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from drivers import ids_of, ids_through
from worlds import LanceWorld, landed

from headrace import StorageError
from headrace.tables import sink as sinks
from headrace.tables.commit.ledger import QueryRun
from headrace.tables.commit.payload import AppendPayload
from headrace.tables.lance_store import LanceSnapshot, LanceStore
from headrace.tables.location import Location
from headrace.tables.manage.compact import Compactor, clean, compact, small_fragments, target_rows
from headrace.tables.settings import CompactionRules, Rules, SinkSettings
from headrace.tables.sink import EpochSink

PATIENCE = 30.0


@pytest.fixture
def world(tmp_path: Path) -> LanceWorld:
    return LanceWorld(str(tmp_path / "table.lance"))


def test_compaction_and_cleanup_after_every_epoch_never_break_the_ledger(world: LanceWorld) -> None:
    """L22, L23, F7: with replays and restarts between; files and versions stay few."""
    rules = CompactionRules(every_epochs=1, retain_versions=1)
    sink = EpochSink(SinkSettings(world.location, Rules("query"), compaction=rules))
    for epoch in range(8):
        run = QueryRun(f"run-{epoch // 3}", "checkpoint")
        sink.land(epoch, run, AppendPayload([world.write(ids_of(epoch))]))
        sinks.compactor.wait(PATIENCE)
        assert sink.land(epoch, run, AppendPayload([world.write(ids_of(epoch))])).was_skipped
        restarted = QueryRun(f"restart-{epoch}", "checkpoint")
        assert sink.land(epoch, restarted, AppendPayload([world.write(ids_of(epoch))])).was_skipped
    assert world.rows() == ids_through(7)
    assert small_fragments(world.location) <= 2
    assert len(world.store().open().kept_versions(0)) <= 2


def test_compaction_of_an_indexed_table_is_stepped_over(world: LanceWorld) -> None:
    """L22: pylance cannot show the transaction of such a version."""
    sink = EpochSink(SinkSettings(world.location, Rules("query")))
    for epoch in range(3):
        sink.land(epoch, QueryRun("run"), AppendPayload([world.write(ids_of(epoch))]))
    world.store().open().dataset.create_scalar_index("id", "BTREE")
    compact(world.location)
    with pytest.raises(TypeError, match="RewrittenIndex"):
        world.store().open().dataset.read_transaction(world.store().open().version)
    assert sink.land(2, QueryRun("restart"), AppendPayload([world.write(ids_of(2))])).was_skipped
    sink.land(3, QueryRun("run after that"), AppendPayload([world.write(ids_of(3))]))
    assert world.rows() == ids_through(3)


def test_upkeep_runs_beside_the_stream(world: LanceWorld) -> None:
    """L22, F7: a round that still runs when the next epochs land neither fails nor makes them fail."""
    rules = CompactionRules(every_epochs=1, retain_versions=2)
    sink = EpochSink(SinkSettings(world.location, Rules("query"), compaction=rules))
    for epoch in range(15):
        sink.land(epoch, QueryRun("run"), AppendPayload([world.write(ids_of(epoch))]))
    sinks.compactor.wait(PATIENCE)
    assert world.rows() == ids_through(14)
    assert sink.land(14, QueryRun("again"), AppendPayload([world.write([1])])).was_skipped


def test_upkeep_is_off_unless_asked_for(world: LanceWorld) -> None:
    """L7: one version per epoch and no other."""
    sink = EpochSink(SinkSettings(world.location, Rules("query")))
    for epoch in range(3):
        sink.land(epoch, QueryRun("run"), AppendPayload([world.write(ids_of(epoch))]))
    sinks.compactor.wait(PATIENCE)
    assert world.store().open().version == 1 + 1 + 3
    assert landed(world, "query") == [0, 1, 2]


class Rounds:
    """Stands in for what a round does, and counts."""

    def __init__(self, fragments: int = 0) -> None:
        self.done: list[str] = []
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        self.error: Exception | None = None
        self._fragments = fragments

    def small_fragments(self, location: Location) -> int:
        return self._fragments

    def clean(self, location: Location, retain_versions: int) -> int:
        self.done.append(f"clean {retain_versions}")
        return 0

    def compact(self, location: Location) -> int:
        self.begun.set()
        assert self.go_on.wait(PATIENCE)
        self.done.append(str(location))
        if self.error:
            raise self.error
        return 0


@pytest.mark.parametrize(
    ("rules", "fragments", "due"),
    [
        (CompactionRules(), 10**6, []),
        (CompactionRules(every_epochs=3), 0, [2, 5]),
        (CompactionRules(every_epochs=1), 0, [0, 1, 2, 3, 4, 5]),
        (CompactionRules(above_fragments=10), 10, []),
        (CompactionRules(above_fragments=10), 11, [0, 1, 2, 3, 4, 5]),
        (CompactionRules(every_epochs=4, above_fragments=10), 3, [3]),
        (CompactionRules(retain_versions=1), 10**6, []),
    ],
)
def test_a_round_is_due_by_epochs_or_by_fragments(rules: CompactionRules, fragments: int, due: list[int]) -> None:
    """L22"""
    rounds, seen = Rounds(fragments), list[int]()
    compactor = Compactor(upkeep=rounds)
    for epoch in range(6):
        before = len(rounds.done)
        compactor.after_commit(Location("table"), rules, epoch)
        compactor.wait(PATIENCE)
        seen += [epoch] * (len(rounds.done) - before)
    assert seen == due


def test_fragments_of_a_real_table_are_counted(world: LanceWorld) -> None:
    """L22: the round is due with one more than the rules allow."""
    for number in range(4):
        world.append([number])
    compactor = Compactor()
    for allowed, left in ((4, 4), (3, 1)):
        compactor.after_commit(world.location, CompactionRules(above_fragments=allowed, retain_versions=1), 0)
        compactor.wait(PATIENCE)
        assert small_fragments(world.location) == left
    assert len(world.store().open().kept_versions(0)) == 1


def test_one_round_at_a_time_for_a_table() -> None:
    """L22: a round that is due meanwhile is left out; another table has its own; the stream never waits."""
    rounds = Rounds()
    compactor = Compactor(upkeep=rounds)
    rounds.go_on.clear()
    rules = CompactionRules(every_epochs=1, retain_versions=5)
    compactor.after_commit(Location("one"), rules, 0)
    assert rounds.begun.wait(PATIENCE)
    for epoch in range(1, 4):
        compactor.after_commit(Location("one"), rules, epoch)
    compactor.after_commit(Location("two"), rules, 0)
    assert rounds.done == []
    rounds.go_on.set()
    compactor.wait(PATIENCE)
    assert sorted(rounds.done) == ["clean 5", "clean 5", "one", "two"]
    compactor.after_commit(Location("one"), rules, 5)
    compactor.wait(PATIENCE)
    assert rounds.done.count("one") == 2


def test_a_round_that_fails_is_logged_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """L22: the stream does not notice."""
    rounds = Rounds()
    compactor = Compactor(upkeep=rounds)
    rounds.error = StorageError("no space")
    for epoch in range(2):
        compactor.after_commit(Location("one"), CompactionRules(every_epochs=1, retain_versions=1), epoch)
        compactor.wait(PATIENCE)
    assert rounds.done == ["one", "one"]
    assert caplog.text.count("retried later: no space") == 2


def test_waiting_ends_after_the_time_it_was_given() -> None:
    """L22: an exit is not held up for ever."""
    rounds = Rounds()
    compactor = Compactor(upkeep=rounds)
    rounds.go_on.clear()
    compactor.after_commit(Location("one"), CompactionRules(every_epochs=1), 0)
    assert rounds.begun.wait(PATIENCE)
    compactor.wait(0.01)
    assert rounds.done == []
    rounds.go_on.set()
    compactor.wait(PATIENCE)
    assert rounds.done == ["one"]


def test_cleanup_leaves_tagged_versions_and_files_no_version_knows(world: LanceWorld) -> None:
    """F8, L22: what a task has written and not yet landed is not taken away."""
    for number in range(4):
        world.append([number])
    world.tag(2)
    message = world.write([9])
    assert compact(world.location) >= 1
    assert clean(world.location, 1) >= 1
    assert set(world.store().open().kept_versions(0)) > {2}
    assert world.store().missing_files(message.files) == []
    assert world.rows() == [0, 1, 2, 3]
    assert world.rows(2) == [0]


@pytest.mark.parametrize(
    ("sizes", "target"),
    [
        ([], 16_384),
        ([1] * 5_000, 16_384),
        ([16_384] * 7 + [100] * 50, 16_384),
        ([16_384] * 8, 131_072),
        ([131_071] * 8, 131_072),
        ([131_072] * 7 + [16_384] * 7, 16_384),
        ([131_072] * 8 + [16_384] * 8, 1_048_576),
        ([1_048_576] * 1_000, 16_384),
    ],
)
def test_a_round_takes_up_what_has_grown_only_when_enough_of_it_has_come_together(
    sizes: list[int], target: int
) -> None:
    """L22: the work of a round does not grow with the table."""
    assert target_rows(sizes) == target


def test_a_round_leaves_grown_fragments_alone(world: LanceWorld) -> None:
    """L22: they are neither rewritten nor counted as small."""
    for start in range(0, 40_000, 20_000):
        world.append(range(start, start + 20_000))
    grown = [fragment.fragment_id for fragment in world.store().open().dataset.get_fragments()]
    for number in range(40_000, 40_005):
        world.append([number])
    assert small_fragments(world.location) == 5
    assert compact(world.location) == 4
    left = [fragment.fragment_id for fragment in world.store().open().dataset.get_fragments()]
    assert left[:2] == grown
    assert len(left) == 3
    assert world.rows() == list(range(40_005))


class OvertakenStore(LanceStore):
    """A store that another writer overtakes: what it opens is no longer the newest version."""

    def open(self, *, version: int | str | None = None) -> LanceSnapshot:
        snapshot = super().open(version=version)
        compact(self.location)
        return snapshot


def test_compaction_that_meets_another_writer_is_a_storage_error(world: LanceWorld) -> None:
    """L22: one of ours, so that a round only logs it."""
    for number in range(3):
        world.append([number])
    with pytest.raises(StorageError, match=r"Compacting of .*conflict"):
        compact(world.location, store=OvertakenStore(world.location))
    assert world.rows() == [0, 1, 2]
