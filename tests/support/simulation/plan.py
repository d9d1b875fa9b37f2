"""What a seed decides before anything happens: the queries, and how likely everything else is.

No seed does everything at once. Each has its own mixture, so that some are mostly kills, some mostly cleanup, and
what two rare things do together is not hidden by ten common ones.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

EPOCHS = 5
# Ids from here on are other writers' rows.
FOREIGN = 1_000_000


@dataclass(frozen=True)
class Query:
    """A query and all that it will ever send.

    Attributes:
        id: Its key.
        mode: ``append``, ``complete`` or ``upsert``.
        base: The first of its row ids; rows are distinguished by their id alone.
        empty: The epochs without rows.
    """

    id: str
    mode: str
    base: int
    empty: frozenset[int]

    @property
    def ids(self) -> range:
        """Every id that a row of it can have."""
        return range(self.base, self.base + 100_000)

    def rows(self, epoch: int) -> list[int]:
        """Return the rows of an epoch. In upsert mode a row is a key and the epoch that wrote it last."""
        if epoch in self.empty:
            return []
        if self.mode == "upsert":
            return [self.base + key * 100 + epoch for key in (0, 1, 10 + epoch)]
        return [self.base + epoch * 10, self.base + epoch * 10 + 1]

    def key(self, row: int) -> int:
        """In upsert mode, which row of the table a row takes the place of."""
        return (row - self.base) // 100

    def state_after(self, epochs: int) -> tuple[int, ...]:
        """Return its rows in the table after ``epochs`` epochs have landed, sorted."""
        if self.mode == "complete":
            return tuple(self.rows(epochs - 1)) if epochs else ()
        if self.mode == "append":
            return tuple(row for epoch in range(epochs) for row in self.rows(epoch))
        newest = {self.key(row): row for epoch in range(epochs) for row in self.rows(epoch)}
        return tuple(sorted(newest.values()))


@dataclass(frozen=True)
class Plan:
    """One execution's mixture.

    Attributes:
        queries: The queries that land in the table.
        way: ``format``, where every epoch is written and then looked up, or ``sink``, where it is looked up first.
        lookback: How many versions of others a commit reads at most.
        on_history_gap: What the queries do about history that is missing.
        accepts_reset: Whether a new checkpoint lands its epochs as new rows.
        accepts_replaced: Whether a query continues in a table that lost what it had landed, without being asked.
        shares_checkpoint: Whether a driver that is started beside another uses the same checkpoint or a copy.
        others: How often other writers do each of the things they do.
        events: How often the world does each of the things it does to drivers.
        faults: How likely each call of the table is to go wrong in each way.
        naps: How likely a driver is to freeze just before it commits or writes a note.
        may_replace: Whether other writers overwrite, restore, drop and recreate the table.
        has_tags: Whether versions are tagged, so that cleanup leaves holes.
    """

    queries: tuple[Query, ...]
    way: str
    lookback: int
    on_history_gap: str
    accepts_reset: bool
    accepts_replaced: bool
    shares_checkpoint: bool
    others: Mapping[str, float]
    events: Mapping[str, float]
    faults: Mapping[str, float]
    naps: float
    may_replace: bool
    has_tags: bool


OTHERS = ("append", "delete", "update", "configure", "compact", "add a column", "clean")
EVENTS = ("start", "kill", "freeze", "forget")
FAULTS = ("fails", "is lost on the way", "lands unheard", "lands late")


def plan_for(seed: int) -> tuple[Plan, random.Random]:
    """A seed's mixture, and the chance that decides the rest."""
    chance = random.Random(seed)
    modes = chance.choice([("append",), ("append",), ("complete",), ("upsert",), ("append", "upsert")])
    queries = tuple(
        Query(
            f"query {number}",
            mode,
            base=number * 100_000,
            empty=frozenset(epoch for epoch in range(EPOCHS) if chance.random() < 0.1),
        )
        for number, mode in enumerate(modes)
    )
    has_tags = chance.random() < 0.2
    others = {what: chance.choice([0, 1, 1, 4]) for what in OTHERS}
    events = {what: chance.choice([0, 1, 1, 5]) for what in EVENTS}
    if has_tags:  # what they make possible takes a driver that sleeps while versions are removed
        others |= {"tag": 6, "clean": 4}
        events |= {"start": 2, "kill": 1, "freeze": 5}
    may_replace = chance.random() < 0.1
    if may_replace:
        others |= dict.fromkeys(("overwrite", "restore", "recreate"), 1)
    plan = Plan(
        queries,
        chance.choice(["format", "sink"]),
        chance.choice([1, 2, 100]),
        chance.choice(["warn", "fail"]),
        False,
        random.Random(f"owner of {seed}").random() < 0.3,
        chance.random() < 0.4,
        others,
        events,
        {what: chance.choice([0, 0.01, 0.03]) for what in FAULTS},
        random.Random(f"naps of {seed}").choice([0, 0, 0.1, 0.3]),
        may_replace,
        has_tags,
    )
    return plan, chance
