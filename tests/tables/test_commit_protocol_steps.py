"""The commit protocol with everything happening at every moment: before each single call that it makes of the table.

A driver is stopped before its k-th call, for every k; what happens then is a rival that takes over and lands, a
cleanup, another writer, or its own death. Whatever it is, each epoch is in the table once.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest
from drivers import Driver, ids_of, ids_through
from worlds import MODES, LanceWorld, World, history, landed

from headrace import (
    CommitConflictError,
    CommitUnknownError,
    FencedError,
    HeadraceError,
    LandingError,
    StorageError,
    TableReplacedError,
)
from headrace.tables.commit import ledger
from headrace.tables.store import Kind
from support.memory_world import MemoryWorld
from support.stepping import DiedError, Steps, raising

Make = Callable[[], World]

# The driver's state when it begins the tested epoch.
STATES = ("first", "established", "forgetful", "behind others")
EVERY_MODE = pytest.mark.parametrize("mode", MODES)


def shown_in(states: Sequence[str] = STATES, *, quick: bool = False) -> pytest.MarkDecorator:
    """In memory from every state; in Lance from the usual one, since the fake has Lance's rules."""
    in_lance = pytest.param("lance", "established", marks=() if quick else pytest.mark.slow)
    in_memory = [("memory", state) for state in states]
    return pytest.mark.parametrize(("make", "state"), [*in_memory, in_lance], indirect=["make"])


@pytest.fixture
def make(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Makes a new world each time."""
    if request.param == "memory":
        return MemoryWorld
    folder, numbers = tmp_path_factory.mktemp("tables"), itertools.count()
    return lambda: LanceWorld(f"{folder}/{next(numbers)}.lance")


def prepared(world: World, state: str, mode: str, **rules: object) -> tuple[Driver, int]:
    """A driver about to land an epoch, and that epoch."""
    if state == "first":
        Driver(world, "run-0", mode).land(0)
        return Driver(world, "run-a", mode, rules=rules), 1
    driver = Driver(world, "run-a", mode, rules=rules)
    driver.land(0)
    if state == "forgetful":
        driver.forget()
    if state == "behind others":
        driver.rules = {"lookback": 2} | rules
        for _ in range(4):
            world.configure()
    driver.steps = Steps()
    return driver, 1


def moments(make: Make, state: str, mode: str) -> Iterator[int]:
    """The numbers of all calls that landing the epoch takes when nothing happens."""
    driver, epoch = prepared(make(), state, mode)
    driver.land(epoch)
    assert "write_note" in driver.steps.calls
    return iter(range(len(driver.steps.calls)))


def require_each_epoch_once(world: World, mode: str, epochs: int, foreign: tuple[int, ...] = ()) -> None:
    """The oracle: exactly the rows that were sent, and a stamp for each epoch that was not doubled."""
    rows = world.rows()
    expected = ids_of(epochs) if mode == "complete" else ids_through(epochs)
    assert Counter(rows) == Counter([*expected, *foreign])
    assert all(times == 1 for times in Counter(landed(world)).values()), landed(world)


@EVERY_MODE
@shown_in(quick=True)
def test_a_rival_takes_over_between_any_two_calls(make: Make, state: str, mode: str) -> None:
    """F4, L26, L27: one of the two lands the epoch; the superseded one raises, and never lands again."""
    for moment in moments(make, state, mode):
        world = make()
        driver, epoch = prepared(world, state, mode)
        rival = driver.restarted("run-b")
        driver.steps.before = {moment: lambda rival=rival, epoch=epoch: rival.land(epoch)}  # type: ignore[misc]
        with contextlib.suppress(FencedError):
            driver.land(epoch)
        assert landed(world)[-1] == epoch, moment
        require_each_epoch_once(world, mode, epoch)
        _require_one_goes_on(world, driver, rival, epoch + 1, mode)


def _require_one_goes_on(world: World, driver: Driver, rival: Driver, epoch: int, mode: str) -> None:
    """Both send the next epoch: the newest run lands it, and the other never does."""
    driver.steps = Steps()
    for each in (driver, rival, driver, rival):
        try:
            each.land(epoch)
        except FencedError:
            continue
    require_each_epoch_once(world, mode, epoch)


@EVERY_MODE
@shown_in()
def test_a_rival_that_goes_further_fences_the_driver(make: Make, state: str, mode: str) -> None:
    """F4, L17, L26, L27: a driver that was paused for two epochs lands nothing more if its rival has stamped."""
    for moment in moments(make, state, mode):
        world = make()
        driver, epoch = prepared(world, state, mode)
        rival = driver.restarted("run-b")

        def overtake(rival: Driver = rival, epoch: int = epoch) -> None:
            rival.land(epoch)
            rival.land(epoch + 1)

        driver.steps.before = {moment: overtake}
        with contextlib.suppress(FencedError):
            driver.land(epoch)
        require_each_epoch_once(world, mode, epoch + 1)
        rival.land(epoch + 2)
        require_each_epoch_once(world, mode, epoch + 2)


@EVERY_MODE
@pytest.mark.parametrize("state", ["first", "established", "forgetful"])
def test_three_drivers_pause_each_other_anywhere(state: str, mode: str) -> None:
    """F4, L26: the second is paused in the first's pause, at every pair of moments, while a third lands."""
    make = MemoryWorld
    for first, second in itertools.product(range(12), range(12)):
        world = make()
        driver, epoch = prepared(world, state, mode)
        middle, last = driver.restarted("run-b"), driver.restarted("run-c")

        def ignore_fence(lander: Driver, epoch: int = epoch) -> None:
            with contextlib.suppress(FencedError):
                lander.land(epoch)

        middle.steps.before = {second: lambda last=last: ignore_fence(last)}  # type: ignore[misc]
        driver.steps.before = {first: lambda middle=middle: ignore_fence(middle)}  # type: ignore[misc]
        ignore_fence(driver)
        require_each_epoch_once(world, mode, epoch)


@EVERY_MODE
@shown_in()
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_driver_dies_at_any_moment_and_the_query_is_restarted(make: Make, state: str, mode: str, when: str) -> None:
    """L12, L14, L23: the next run sends the epoch again, and it is there once; so does the same run, forgetful."""
    for moment in moments(make, state, mode):
        for run in ("run-b", "run-a"):
            world = make()
            driver, epoch = prepared(world, state, mode)
            setattr(driver.steps, when, {moment: raising(DiedError())})
            with pytest.raises(DiedError):
                driver.land(epoch)
            again = driver.restarted(run)
            again.land(epoch)
            again.land(epoch + 1)
            require_each_epoch_once(world, mode, epoch + 1)


@EVERY_MODE
@shown_in()
def test_a_lost_answer_never_doubles_an_epoch(make: Make, state: str, mode: str) -> None:
    """L28: the commit landed or did not, and nobody knows; a restart finds out."""
    for moment in moments(make, state, mode):
        for when in ("before", "after"):
            world = make()
            driver, epoch = prepared(world, state, mode)
            setattr(driver.steps, when, {moment: raising(CommitUnknownError("nobody knows"))})
            with pytest.raises(CommitUnknownError):
                driver.land(epoch)
            driver.restarted("run-b").land(epoch)
            require_each_epoch_once(world, mode, epoch)


@EVERY_MODE
@shown_in()
def test_any_one_call_may_fail_and_a_restart_continues(make: Make, state: str, mode: str) -> None:
    """F9, L28, L30: storage fails once, anywhere: the epoch fails or lands, and lands once when it is sent again."""
    for moment in moments(make, state, mode):
        for again in (lambda driver: driver, lambda driver: driver.restarted("run-b")):
            world = make()
            driver, epoch = prepared(world, state, mode)
            driver.steps.before = {moment: raising(StorageError("the disk is full"))}
            try:
                driver.land(epoch)
            except StorageError:
                assert (
                    driver.steps.calls[moment] != "write_note"
                    or moment < len(driver.steps.calls) - 1
                    or ("publish Fence" in driver.steps.calls)
                )
            again(driver).land(epoch)
            require_each_epoch_once(world, mode, epoch)


def _clean(world: World) -> None:
    world.configure()
    world.clean()


def _clean_around_a_tag(world: World) -> None:
    world.tag(world.store().open().version)
    for _ in range(3):
        world.append([900])
    world.clean()


HARMLESS: dict[str, Callable[[World], object]] = {
    "append": lambda world: world.append([900]),
    "update": lambda world: world.update(0),
    "compaction": lambda world: world.compact(),
    "setting": lambda world: world.configure(),
    "new column": lambda world: world.add_column("more"),
    "cleanup": _clean,
}


@EVERY_MODE
@shown_in()
@pytest.mark.parametrize("what", HARMLESS)
def test_other_writers_and_upkeep_come_between_any_two_calls(make: Make, state: str, mode: str, what: str) -> None:
    """F5, F7, L22, L24: the epoch lands once, the other writer's rows stay unless a result replaces them."""
    for moment in moments(make, state, mode):
        world = make()
        driver, epoch = prepared(world, state, mode)
        driver.steps.before = {moment: lambda world=world: HARMLESS[what](world)}  # type: ignore[misc]
        outcome = driver.land(epoch)
        again = driver.restarted("run-b")
        assert again.land(epoch).was_skipped
        foreign = (900,) if what == "append" and (mode != "complete" or 900 in world.rows()) else ()
        require_each_epoch_once(world, mode, epoch, foreign)
        assert outcome.version is not None
        driver.restarted("run-c").land(epoch + 1)


@EVERY_MODE
@shown_in(["first", "established", "behind others"])
def test_what_is_acknowledged_is_in_the_table_though_cleanup_left_a_hole(make: Make, state: str, mode: str) -> None:
    """L23, L27: versions removed around a tagged one take a rival's fence with them; nothing is lost unsaid."""
    for moment in moments(make, state, mode):
        world = make()
        driver, epoch = prepared(world, state, mode)
        driver.steps.before = {moment: lambda world=world: _clean_around_a_tag(world)}  # type: ignore[misc]
        try:
            driver.land(epoch)
        except LandingError:
            continue
        rows = set(world.rows())
        assert rows >= set(ids_of(epoch)), (moment, driver.steps.calls)


@pytest.mark.parametrize("is_tagged", [False, True])
@pytest.mark.parametrize("mode", ["append", "upsert"])
@shown_in()
def test_a_rival_whose_versions_were_removed_is_still_noticed(
    make: Make, state: str, mode: str, is_tagged: bool
) -> None:
    """F4, F7, L26: a cleanup takes the rival's fence and stamp away. The epoch is doubled only if that is said."""
    for moment in moments(make, state, mode):
        world = make()
        driver, epoch = prepared(world, state, mode)
        rival = driver.restarted("run-b")

        def overtake(world: World = world, rival: Driver = rival, epoch: int = epoch) -> None:
            if is_tagged:
                world.tag(world.store().open().version)
            rival.land(epoch)
            for _ in range(3):
                world.configure()
            world.clean()

        driver.steps.before = {moment: overtake}
        try:
            driver.land(epoch)
        except FencedError:
            continue
        assert Counter(world.rows()) == Counter(ids_through(epoch)), (moment, driver.steps.calls)


REPLACING: dict[str, Callable[[World], object]] = {
    "overwrite": lambda world: world.overwrite([900]),
    "restore": lambda world: world.restore(1),
}


@EVERY_MODE
@shown_in()
@pytest.mark.parametrize("what", REPLACING)
def test_an_overwrite_or_restore_between_any_two_calls_stops_the_run(
    make: Make, state: str, mode: str, what: str
) -> None:
    """F6, L25, L40: clearly, with nothing resurrected; an accepting restart continues after what was landed."""
    for moment in moments(make, state, mode):
        world = make()
        driver, epoch = prepared(world, state, mode)
        driver.steps.before = {moment: lambda world=world: REPLACING[what](world)}  # type: ignore[misc]
        try:
            driver.land(epoch)
        except (TableReplacedError, CommitConflictError):
            assert epoch not in landed(world)
        kept = [] if what == "restore" else [900]
        version = _replaced_at(world)
        assert world.rows(version) == kept, "nothing is resurrected"
        again = driver.restarted("run-b", rules={"accepts_replaced": True})
        again.land(epoch)
        assert landed(world).count(epoch) == 1
        stamped_after = [e for e in history(world) if ledger.EPOCH_ID in e.properties and e.version > version]
        if mode != "complete" and stamped_after:
            assert world.rows() == sorted([*kept, *ids_of(epoch)])


def _replaced_at(world: World) -> int:
    kinds = (Kind.REPLACE, Kind.RESTORE)
    return next(e.version for e in history(world) if e.kind in kinds and not e.properties and e.version > 1)


@EVERY_MODE
@shown_in()
def test_a_table_dropped_and_recreated_between_any_two_calls(make: Make, state: str, mode: str) -> None:
    """F6, L40: the run stops or lands in the new table; an accepting restart lands there; it is always readable."""
    for moment in moments(make, state, mode):
        world = make()
        driver, epoch = prepared(world, state, mode)
        driver.steps.before = {moment: world.recreate}
        try:
            driver.land(epoch)
        except HeadraceError:
            assert world.rows() == []
        driver.restarted("run-b", rules={"accepts_replaced": True}).land(epoch + 1)
        assert set(world.rows()) <= {*ids_of(epoch), *ids_of(epoch + 1)}
        assert set(world.rows()) >= set(ids_of(epoch + 1))


@shown_in(["established"], quick=True)
def test_the_calls_of_an_epoch_are_few(make: Make, state: str) -> None:
    """L16: in the steady state: open, read one version, look for files, publish, verify, keep the bookmark."""
    driver, epoch = prepared(make(), state, "append")
    driver.land(epoch)
    assert driver.steps.calls == [
        "open",
        "entry",
        "missing_files",
        "publish Append",
        "open",
        "entry",
        "write_note",
    ]
