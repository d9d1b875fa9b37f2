"""The commit protocol in seeded simulations: several drivers, everything happening, until a seed shows a fault.

Each driver is a restart of the same query. Calls of one are interrupted by whole actions of the others, nested a few
levels deep, so that a driver may be paused in any call for as long as others do anything. A seed that fails is the
report: run it alone with ``-k``.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
from drivers import Driver, ids_of
from stepping import DiedError, Steps
from worlds import QUERY, MemoryWorld, history, landed, marked

from headrace import CommitUnknownError, FencedError, HeadraceError, StorageError
from headrace.tables import ledger
from headrace.tables.history import Memory

EPOCHS = 6
DEEPEST = 3


@dataclass
class Simulation:
    """Drivers, other writers and faults, in an order a seed decides."""

    seed: int
    mode: str
    world: MemoryWorld = field(default_factory=MemoryWorld)
    drivers: list[Driver] = field(default_factory=list)
    depth: int = 0
    log: list[str] = field(default_factory=list)
    checkpoint: int = -1
    sent: dict[str | None, int] = field(default_factory=dict)
    busy: set[str | None] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.foreign: Counter[int] = Counter()
        self.runs = 0

    def act(self) -> None:
        """Something happens."""
        kinds = {
            self.land: 12,
            self.restart: 3,
            self.forget: 1,
            self.append: 2,
            self.configure: 2,
            self.compact: 2,
            self.clean: 1,
        }
        self.random.choices(list(kinds), list(kinds.values()))[0]()

    def restart(self) -> None:
        self.runs += 1
        lookback = self.random.choice([1, 2, 100])
        driver = Driver(self.world, f"run-{self.runs}", self.mode, rules={"lookback": lookback})
        driver.steps = Interrupted(self)
        self.drivers.append(driver)

    def forget(self) -> None:
        if self.drivers:
            self.random.choice(self.drivers).memory = Memory()

    def land(self) -> None:
        """A driver sends the epoch after the newest it knows of, or one that it may have sent before."""
        idle = [driver for driver in self.drivers[-3:] if driver.run not in self.busy]
        if not idle:
            self.restart()
            idle = self.drivers[-1:]
        driver = self.random.choice(idle)
        epoch = self.next_epoch(driver)
        if epoch >= EPOCHS:
            return
        self.busy.add(driver.run)
        self.log.append(f"{'  ' * self.depth}{driver.run} sends {epoch}")
        try:
            outcome = driver.land(epoch)
        except (FencedError, DiedError):
            self.drivers = [other for other in self.drivers if other is not driver]
            self.log.append(f"{'  ' * self.depth}{driver.run} is out")
        except HeadraceError as error:
            self.drivers = [other for other in self.drivers if other is not driver]
            self.log.append(f"{'  ' * self.depth}{driver.run} stops: {error}")
        else:
            self.log.append(f"{'  ' * self.depth}{driver.run} did {epoch}: {outcome}")
            self.checkpoint = max(self.checkpoint, epoch)
            self.sent[driver.run] = epoch
        finally:
            self.busy.discard(driver.run)

    def next_epoch(self, driver: Driver) -> int:
        """A run goes on from where it is; a new one from what Spark noted as done, or what it did not come to note."""
        if driver.run in self.sent:
            return self.sent[driver.run] + 1
        return max(0, self.checkpoint + self.random.choice([0, 1, 1]))

    def append(self) -> None:
        self.foreign[9000 + self.seed] += 1
        self.world.append([9000 + self.seed])
        self.log.append(f"{'  ' * self.depth}append")

    def configure(self) -> None:
        self.world.configure()

    def compact(self) -> None:
        self.world.compact()

    def clean(self) -> None:
        """Cleanup, under the condition the guarantee has: not of a version committed last and not yet marked."""
        stamps = [entry.version for entry in history(self.world) if ledger.stamp_of(entry.properties, QUERY)]
        if stamps and (not self.world.store().list_notes() or marked(self.world) < stamps[-1]):
            return
        retain = self.random.choice([1, 2, 4])
        self.log.append(f"{'  ' * self.depth}cleanup, {retain} stay")
        self.world.clean(retain)


class Interrupted(Steps):
    """Steps between which anything may happen."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__()
        self.simulation = simulation

    def step(self, name: str, call):  # type: ignore[no-untyped-def]
        simulation, chance = self.simulation, self.simulation.random
        if simulation.depth < DEEPEST and chance.random() < 0.12:
            simulation.depth += 1
            try:
                for _ in range(chance.randrange(1, 5)):
                    simulation.act()
            finally:
                simulation.depth -= 1
        fate = chance.random()
        if fate < 0.01:
            raise DiedError
        if fate < 0.02:
            raise StorageError("the network is down")
        if fate < 0.03 and name.startswith("publish"):
            raise CommitUnknownError("no answer")
        answer = call()
        if fate > 0.98 and name.startswith("publish"):
            raise CommitUnknownError("no answer, though it landed") if fate > 0.99 else DiedError
        return answer


def run(seed: int, mode: str) -> Simulation:
    simulation = Simulation(seed, mode)
    for _ in range(40):
        simulation.act()
    last = Driver(simulation.world, "run-last", mode)
    for epoch in range(max(0, simulation.checkpoint), EPOCHS):
        last.land(epoch)
    return simulation


QUICK, THOROUGH = range(150), range(150, 3000)


@pytest.mark.parametrize("seeds", [QUICK, pytest.param(THOROUGH, marks=pytest.mark.slow)], ids=["quick", "thorough"])
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_no_order_of_things_loses_or_doubles_an_epoch(mode: str, seeds: range) -> None:
    """L12, L17, L22, L23, L24, L26, L28, F4, F5, F7: as long as cleanup does not outrun a bookmark."""
    for seed in seeds:
        simulation = run(seed, mode)
        rows = Counter(simulation.world.rows())
        expected = Counter(id for epoch in range(EPOCHS) for id in ids_of(epoch)) + simulation.foreign
        assert rows == expected, f"seed {seed}:\n" + "\n".join(simulation.log)
        doubled = [epoch for epoch, times in Counter(landed(simulation.world)).items() if times > 1]
        assert not doubled, f"seed {seed}"


@pytest.mark.parametrize("seeds", [QUICK, pytest.param(THOROUGH, marks=pytest.mark.slow)], ids=["quick", "thorough"])
def test_no_order_of_things_takes_a_result_back(seeds: range) -> None:
    """L9, L17, L27, F4: what replaces the table is newer than what it replaces, and the newest is there in the end."""
    for seed in seeds:
        simulation = run(seed, "complete")
        rows = simulation.world.rows()
        said = f"seed {seed}:\n" + "\n".join(simulation.log)
        assert [row for row in rows if row < 9000] == ids_of(EPOCHS - 1), said
        stamped = landed(simulation.world)
        assert stamped == sorted(set(stamped)), said
