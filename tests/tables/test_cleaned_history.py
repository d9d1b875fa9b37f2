"""What cleanup around a tagged version makes possible: results that fall into holes, merges whose rows have moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from drivers import Driver, ids_of, ids_through
from worlds import QUERY, World, landed

from headrace import HistoryGapError, LandingError, TableReplacedError
from headrace.tables.commit.ledger import Stamp
from headrace.tables.store import Fence, Replace
from support.stepping import Steps


def leave_hole(world: World, *, of: int = 1) -> None:
    """Tag the newest version, and make a gap of ``of`` versions above it, with two more versions after the gap."""
    world.tag(world.store().open().version)
    for _ in range(of):
        world.configure()
    world.configure()
    world.clean()
    world.configure()


def before(name: str, act: Callable[[], object]) -> Steps:
    """Something that happens before the first call of a name."""
    todo = [act]
    return Steps(named={name: lambda: todo.pop()() if todo else None})


@pytest.mark.parametrize("missing", [1, 2])
def test_a_result_that_fell_into_a_hole_is_landed_again(world: World, missing: int) -> None:
    """L9, L27: also where it fills the hole, and nothing is missing any more."""
    driver = Driver(world, mode="complete")
    driver.land(0)
    driver.steps = before("publish Replace", lambda: leave_hole(world, of=missing))
    outcome = driver.land(1)
    assert driver.steps.calls.count("publish Replace") == 2
    assert outcome.version == world.store().open().version
    assert world.rows() == ids_of(1)


def fill_hole(world: World, run: str = "run-a") -> None:
    """A driver lands epoch 1 in a hole and is killed before it could find out."""
    driver = Driver(world, run, mode="complete")
    driver.land(0)

    def interfere() -> None:
        leave_hole(world)
        driver.steps.named = {"open": lambda: (_ for _ in ()).throw(KeyboardInterrupt)}

    driver.steps = before("publish Replace", interfere)
    with pytest.raises(KeyboardInterrupt):
        driver.land(1)
    assert world.rows() == ids_of(0)


@pytest.mark.parametrize("run", ["run-a", "run-b"])
def test_a_result_that_fills_a_hole_does_not_count_as_landed(world: World, run: str) -> None:
    """L9, L13, L17: its stamp is there, and its rows are not; the same run and the next one land it."""
    fill_hole(world)
    again = Driver(world, run, mode="complete")
    assert not again.land(1).was_skipped
    assert world.rows() == ids_of(1)
    assert Driver(world, "run-c", mode="complete").land(1).was_skipped


def test_a_result_that_fills_a_hole_keeps_older_ones_out(world: World) -> None:
    """L17, L27: it may be in the table, so nothing that is older comes after it."""
    fill_hole(world)
    assert Driver(world, "run-b", mode="complete").land(0).was_skipped
    assert world.rows() == ids_of(0)


def test_a_hole_that_is_filled_under_a_look_is_noticed(world: World) -> None:
    """L17: the driver opened a version that was removed since, and where another one is now."""
    Driver(world, "run-a", mode="complete").land(0)
    seen = world.store().open().version
    world.tag(seen)
    world.configure()

    def fill() -> None:
        world.configure()
        world.clean()
        result = Replace(world.store().open().schema, world.write(ids_of(1), replacing=True).fragments)
        stamp = Stamp(QUERY, 1, "run-a", "checkpoint")
        published = world.store().publish(result, read_version=seen, properties=stamp.properties())
        assert published.version == seen + 1

    driver = Driver(world, "run-b", mode="complete", steps=before("entry", fill))
    assert not driver.land(1).was_skipped
    assert world.rows() == ids_of(1)


def test_an_ordinary_result_below_other_versions_counts_though_its_version_before_is_tagged(world: World) -> None:
    """L9, L12: the version after it has its files, so nothing is landed twice."""
    driver = Driver(world, mode="complete")
    driver.land(0)
    world.tag(world.store().open().version)
    driver.land(1)
    world.store().delete_note(world.store().list_notes()[0])
    world.append([900])
    assert Driver(world, "run-b", mode="complete").land(1).was_skipped
    assert world.rows() == [*ids_of(1), 900]


def move_rows(world: World) -> None:
    """Rows are written elsewhere, and the version that did it is removed."""
    world.tag(world.store().open().version)
    world.append([800])
    world.compact()
    world.configure()
    world.clean()


def test_a_merge_is_worked_out_again_if_the_history_since_is_gone(world: World) -> None:
    """L11, F7: while it was worked out, rows moved; what it knows of them would be wrong."""
    driver = Driver(world, mode="upsert")
    driver.land(0)
    todo = [lambda: move_rows(world)]
    payload = world.upserts(ids_of(0))

    def merge(snapshot: object) -> object:
        change = payload.merge(snapshot)  # type: ignore[arg-type]
        if todo:
            todo.pop()()
        return change

    driver.committer().commit(1, type(payload)(payload.rows, merge))  # type: ignore[arg-type]
    assert world.rows() == [*ids_of(0), 800]


def test_a_merge_that_lands_on_rows_that_moved_says_so(world: World) -> None:
    """L11, F7: in the instant between the check and the commit; keys are there twice, and it is not kept quiet."""
    driver = Driver(world, mode="upsert")
    driver.land(0)
    driver.steps = before("publish Merge", lambda: move_rows(world))
    with pytest.raises(LandingError, match="keys may exist twice"):
        driver.land(1, ids_of(0))
    assert landed(world)[-1] == 1


def land_unmarked(world: World, epoch: int) -> None:
    """A run takes over, lands an epoch, and leaves no bookmark of either."""
    driver = Driver(world, "run-a")
    driver.land(epoch)
    store = world.store()
    for name in store.list_notes():
        if '"run-a"' in (store.read_note(name) or ""):
            store.delete_note(name)


def forget_newest(world: World) -> None:
    world.configure()
    world.clean()


@pytest.mark.parametrize("rule", ["warn", "fail"])
def test_a_fence_does_not_hide_what_was_removed_before_it(
    world: World, rule: str, caplog: pytest.LogCaptureFixture
) -> None:
    """L20, L21: a run looks, an epoch lands unmarked and is removed, and only then the run takes over."""
    Driver(world, "run-0").land(0)
    world.tag(world.store().open().version)

    def interfere() -> None:
        land_unmarked(world, 1)
        forget_newest(world)

    driver = Driver(world, "run-b", rules={"on_history_gap": rule}, steps=before("publish Fence", interfere))
    if rule == "fail":
        with pytest.raises(HistoryGapError):
            driver.land(1)
        with pytest.raises(HistoryGapError):
            Driver(world, "run-c", rules={"on_history_gap": rule}).land(1)
        return
    driver.land(1)
    assert "were removed before query" in caplog.text


def test_a_fence_that_did_not_see_an_epoch_gives_way_to_its_bookmark(world: World) -> None:
    """L17, L23: the epoch's version is gone, the fence says nothing of it, and the bookmark still does."""
    Driver(world, "run-0").land(0)
    seen = world.store().open().version
    world.tag(seen)

    def interfere() -> None:
        Driver(world, "run-a").land(1)
        forget_newest(world)
        blind = Stamp(QUERY, 0, "run-b", "checkpoint", is_fence=True, read_version=seen)
        store = world.store()
        store.publish(Fence(), read_version=store.open().version, properties=blind.properties())

    assert Driver(world, "run-c", steps=before("publish Fence", interfere)).land(1).was_skipped
    assert Counter(world.rows()) == Counter(ids_through(1))


def test_files_of_a_result_that_may_have_landed_are_not_removed(world: World) -> None:
    """L30: it landed, and another writer overwrote it before it was checked; a restore makes it current again."""
    driver = Driver(world, mode="complete")
    driver.land(0)
    forget_newest(world)
    todo = [lambda: world.overwrite([900])]
    driver.steps = Steps()
    committer = driver.committer()
    calls = driver.steps.calls

    def after_publish() -> None:
        if "publish Replace" in calls and todo:
            todo.pop()()

    driver.steps.named = {"open": after_publish}
    with pytest.raises(TableReplacedError):
        committer.commit(1, driver.payload(ids_of(1)))
    assert committer.may_have_landed
