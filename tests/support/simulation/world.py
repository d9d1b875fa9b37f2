"""One execution: the world takes turns with the drivers in it, in an order that a seed decides."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from headrace.errors import CheckpointResetError, HeadraceError, HistoryGapError, LandingError, TableReplacedError
from headrace.tables.commit.ledger import FENCE, QUERY_ID
from headrace.tables.commit.rowless import noted_empty
from headrace.tables.manage.history import stamped_event
from headrace.tables.manage.verify import account
from support.memory_store import MemoryStore
from support.memory_world import MemoryWorld
from support.simulation.drivers import Checkpoint, Driver
from support.simulation.oracle import Compared, DoubledError, Oracle, WatchedTable, WrongError
from support.simulation.others import Others
from support.simulation.plan import EPOCHS, Query, plan_for
from support.simulation.simulated_store import Weather
from support.simulation.story import Story

TURNS = 130
_MOST_DRIVERS = 3
_LONGEST = 20_000


class World:
    """A table, the drivers of its queries, everybody else, and what goes wrong.

    Args:
        seed: What decides everything.
        is_told: Whether the story is recorded.
        slant: What is not as the seed would have it: attributes of the plan.
    """

    def __init__(self, seed: int, *, is_told: bool = False, **slant: Any) -> None:
        self.seed = seed
        plan, self.chance = plan_for(seed)
        self.plan = replace(plan, **slant)
        self.story = Story(is_told=is_told)
        self.oracle = Oracle(self.plan)
        self.table = WatchedTable(self.oracle)
        self.memory = MemoryWorld(self.table)
        self.table.is_watched = True
        self.weather = Weather(self.plan, self.chance, self.story)
        self.others = Others(self.memory, self.plan, self.chance, self.oracle, self.story)
        self.drivers: list[Driver] = []
        self.checkpoints: dict[str, list[Checkpoint]] = {
            query.id: [Checkpoint(f"checkpoint of {query.id}")] for query in self.plan.queries
        }
        self.runs = 0
        self._owner = random.Random(f"owners of {seed}")
        self.errors: list[HeadraceError] = []
        self.was_told_twice = False
        acts = {what: weight for what, weight in self.plan.others.items() if weight}
        events = {what: weight for what, weight in self.plan.events.items() if weight}
        self._kinds = ["drive", *acts, *events]
        weights = [30.0, *acts.values(), *(0.5 * weight for weight in events.values())]
        self._weights = [sum(weights[: end + 1]) for end in range(len(weights))]

    def run(self) -> World:
        """Lets it all happen.

        Raises:
            WrongError: Something that must not be is.
        """
        try:
            for _ in range(TURNS):
                self._turn()
            self._calm_down()
        except DoubledError as error:
            self._require_told(error)
            return self
        if not self.others.replaced and any(isinstance(error, TableReplacedError) for error in self.errors):
            raise WrongError("no writer replaced the table, and a driver stops as if one had")
        self.oracle.require_all(self.table, was_replaced=bool(self.others.replaced))
        if not self.others.replaced and self.weather.is_noted and self.plan.on_history_gap == "warn":
            self._require_clean_account()
        return self

    # What happens

    def _turn(self) -> None:
        if self.weather.late and self.chance.random() < 0.1:
            self.weather.late.pop(self.chance.randrange(len(self.weather.late)))()
            if self.oracle.doubled is not None:
                raise self.oracle.doubled
        what = self.chance.choices(self._kinds, cum_weights=self._weights)[0]
        for driver in self.drivers:
            driver.process.frozen -= 1
        match what:
            case "drive":
                self._drive()
            case "start":
                if len(self.drivers) < _MOST_DRIVERS:
                    self._start(self.chance.choice(self.plan.queries))
            case "kill":
                self._kill()
            case "freeze":
                self._freeze()
            case "forget":
                self._forget()
            case "reset":
                self._reset(self.chance.choice(self.plan.queries))
            case "recreate" if any(driver.process.is_landing for driver in self.drivers):
                pass  # what a driver saw of the old table may be true of the new one too: that is not promised
            case _:
                self.others.act(what)

    def _drive(self) -> None:
        awake = [driver for driver in self.drivers if driver.process.frozen <= 0]
        if awake:
            self._go_on(self.chance.choice(awake))
        else:
            self._start(self.chance.choice(self.plan.queries))

    def _go_on(self, driver: Driver) -> None:
        driver.process.go_on()
        self._bury(driver)
        if self.oracle.doubled is not None:
            raise self.oracle.doubled

    def _bury(self, driver: Driver) -> None:
        if driver.process.is_over:
            self.drivers.remove(driver)

    def _start(self, query: Query, **rules: Any) -> Driver:
        """A run of a query: from the checkpoint as it is, or from an earlier copy of it."""
        known = self.checkpoints[query.id]
        checkpoint = known[-1]
        if not self.plan.shares_checkpoint and any(driver.query is query for driver in self.drivers):
            checkpoint = replace(self.chance.choice(known))
            known.append(checkpoint)
        return self._start_from(query, checkpoint, **rules)

    def _start_from(
        self,
        query: Query,
        checkpoint: Checkpoint,
        on_history_gap: str | None = None,
        accepts_replaced: bool | None = None,
    ) -> Driver:
        self.runs += 1
        name = f"run-{self.runs}"
        accepts = self._accepts_replaced() if accepts_replaced is None else accepts_replaced
        said = " and accepts a table that was replaced" if accepts else ""
        self.story.say(name, f"starts, for {query.id}{said}; {checkpoint.id} has {checkpoint.done} as done")
        driver = Driver(self, query, name, checkpoint, on_history_gap or self.plan.on_history_gap, accepts)
        if accepts:
            self.oracle.accepting.add(name)
        self.drivers.append(driver)
        return driver

    def _accepts_replaced(self) -> bool:
        """Some accept it beforehand, some when they have been stopped by it, some only in the end."""
        is_told = any(isinstance(error, TableReplacedError) for error in self.errors)
        return self.plan.accepts_replaced or (is_told and self._owner.random() < 0.5)

    def _kill(self) -> None:
        if self.drivers:
            victim = self.chance.choice(self.drivers)
            self.story.say(victim.run.id, "is killed")
            victim.process.kill()
            self._bury(victim)

    def _freeze(self) -> None:
        if self.drivers:
            sleeper = self.chance.choice(self.drivers)
            sleeper.process.frozen = self.chance.randrange(5, 80)
            self.story.say(sleeper.run.id, f"freezes for {sleeper.process.frozen} turns")
            if self.plan.has_tags and sleeper.process.is_landing:
                # What sleeping through a cleanup can do, it does on a tagged version.
                self.others.act("tag")
                self._start(sleeper.query)

    def _forget(self) -> None:
        if self.drivers:
            driver = self.chance.choice(self.drivers)
            self.story.say(driver.run.id, "gets a new process, which remembers nothing")
            driver.state = type(driver.state)()

    def _reset(self, query: Query) -> None:
        """Start the query from an empty checkpoint: beside others, or later again from a copy of it."""
        known = self.checkpoints[query.id]
        checkpoint = Checkpoint(f"reset {len(known)} of {query.id}")  # ids differ in their first letters
        known.insert(0, checkpoint)
        if len(self.drivers) < _MOST_DRIVERS:
            self._start_from(query, checkpoint)

    # How it ends

    def _calm_down(self) -> None:
        """Nothing goes wrong any more: who is left finishes, and one more run of each query lands what is missing."""
        self.story.say("world", "calms down")
        self.weather.is_calm = True
        for _ in range(_LONGEST):
            if not self.drivers:
                break
            self._go_on(self.chance.choice(self.drivers))
        else:
            raise WrongError(f"drivers never end: {[driver.run.id for driver in self.drivers]}")
        for query in self.plan.queries:
            self._finish(query)

    def _finish(self, query: Query) -> None:
        known = self.checkpoints[query.id]
        landed = self.oracle.checkpoints[query.id]
        if landed and landed[-1] != known[-1].id:
            is_welcome = self.plan.accepts_reset and known[-1].id not in landed
            stopped = self._alone(query)
            expected = HistoryGapError | TableReplacedError | None
            if not isinstance(stopped.error, expected if is_welcome else expected | CheckpointResetError):
                raise WrongError(f"{stopped.run.id} is not of the table's checkpoint, and raises: {stopped.error}")
            # Its owner goes back to the checkpoint that the table's epochs are of.
            theirs = [each for each in known if each.id == landed[-1]]
            known.append(max(theirs, key=lambda checkpoint: checkpoint.done))
        last, rules = self._alone(query), dict[str, Any]()
        if isinstance(last.error, HistoryGapError) and self.plan.on_history_gap == "fail":
            # What its hint says: look which epochs' rows are there.
            landed = self.oracle.newest[query.id]
            last.checkpoint.done = max(last.checkpoint.done, landed)
            last.checkpoint.planned = max(last.checkpoint.planned, landed)
            rules["on_history_gap"] = "warn"
            last = self._alone(query, **rules)
        if isinstance(last.error, TableReplacedError):
            last = self._alone(query, **rules, accepts_replaced=True)
        if last.error is not None:
            raise WrongError(f"{last.run.id} is alone, nothing goes wrong, and it stops: {last.error}") from last.error
        if last.checkpoint.done != EPOCHS - 1:
            raise WrongError(f"{last.run.id} is alone and ends at epoch {last.checkpoint.done}")

    def _alone(self, query: Query, **rules: Any) -> Driver:
        driver = self._start(query, **rules)
        for _ in range(_LONGEST):
            if driver.process.is_over:
                return driver
            self._go_on(driver)
        raise WrongError(f"{driver.run.id} is alone and never ends")

    def _require_clean_account(self) -> None:
        """What `headrace verify` says of the table: nothing is wrong."""
        made, versions = datetime.now(UTC), sorted(self.table.versions)
        for query in self.plan.queries:
            entries = [self.table.versions[number].entry for number in versions]
            events = [
                stamped_event(entry.version, made, entry.properties)
                for entry in entries
                if query.id in (entry.properties.get(QUERY_ID), entry.properties.get(FENCE))
            ]
            if not events:
                continue
            noted = noted_empty(MemoryStore(self.table), query.id)
            problems = account(query.id, events, noted, kept=set(versions)).problems
            if problems:
                raise WrongError(f"all is well with {query.id}, and its account says: {problems}")

    def _require_told(self, error: DoubledError) -> None:
        """An epoch may land twice around a tagged version; then the driver that should not have landed it says so."""
        if not self.plan.has_tags:
            raise error
        self.weather.is_calm = True
        for driver in self.drivers:
            while not driver.process.is_over:
                driver.process.go_on()
        if not any(isinstance(told, LandingError) and "twice" in str(told) for told in self.errors):
            raise error
        self.was_told_twice = True


def simulate(seed: int, compared: list[Compared] | None = None, **slant: Any) -> World:
    """Runs a seed; one that fails is run again, to tell what happened.

    Args:
        seed: What decides everything.
        compared: Gets what was compared at the end, also if it was wrong.
        slant: Attributes of the plan that are not as the seed would have them.

    Raises:
        WrongError: With the story.
    """
    world = World(seed, **slant)
    try:
        return world.run()
    except Exception as error:
        again = World(seed, is_told=True, **slant)
        try:
            again.run()
        except Exception:  # noqa: BLE001 - the same again
            raise WrongError(f"seed {seed}: {error}\n{again.plan}\n{again.story}") from error
        raise WrongError(f"seed {seed} does not do the same twice: {error}") from error
    finally:
        if compared is not None:
            compared += world.oracle.compared
