"""Everybody else who has to do with the table: writers, compaction, cleanup, tags, and people who replace it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

from headrace.tables.commit import bookmark, ledger
from support.memory_world import MemoryWorld
from support.simulation.oracle import Oracle
from support.simulation.plan import FOREIGN, Plan
from support.simulation.story import Story


class Others:
    """What they do, by name. Each of it is one turn of the world."""

    def __init__(self, world: MemoryWorld, plan: Plan, chance: random.Random, oracle: Oracle, story: Story) -> None:
        self._world = world
        self._table = world.table
        self._plan = plan
        self._chance = chance
        self._oracle = oracle
        self._say = lambda what: story.say("others", what)
        self._ids = itertools.count(FOREIGN)
        self.replaced = 0
        self.acts: dict[str, Callable[[], None]] = {
            "append": self._append,
            "delete": self._delete,
            "update": self._update,
            "configure": self._configure,
            "compact": self._compact,
            "add a column": self._add_column,
            "clean": self._clean,
            "tag": self._tag,
            "overwrite": self._overwrite,
            "restore": self._restore,
            "recreate": self._recreate,
        }

    def act(self, what: str) -> None:
        self.acts[what]()

    def _append(self) -> None:
        row = next(self._ids)
        self._say(f"append row {row}")
        self._oracle.foreign.add(row)
        self._world.append([row])

    def _some_row(self) -> int | None:
        return self._chance.choice(sorted(self._oracle.foreign)) if self._oracle.foreign else None

    def _delete(self) -> None:
        row = self._some_row()
        if row is not None:
            self._say(f"delete row {row}")
            self._oracle.foreign.discard(row)
            self._world.delete(row)

    def _update(self) -> None:
        row = self._some_row()
        if row is not None:
            self._say(f"update row {row}")
            self._world.update(row)

    def _configure(self) -> None:
        self._say("change a setting")
        self._world.configure()

    def _compact(self) -> None:
        self._say("compact")
        self._world.compact()

    def _add_column(self) -> None:
        columns = len(self._table.newest.columns)
        if columns < 5:
            self._say("add a column")
            self._world.add_column(f"more{columns}")

    def _tag(self) -> None:
        versions = sorted(self._table.versions)
        version = versions[-1] if self._chance.random() < 0.7 else self._chance.choice(versions)
        self._say(f"tag version {version}")
        self._world.tag(version)

    def _clean(self) -> None:
        """Removes old versions; where queries only warn, none that was committed last and is not in a bookmark yet."""
        if self._plan.on_history_gap == "warn" and not self._is_marked():
            return
        retained = self._chance.choice([1, 2, 4])
        self._say(f"clean up: all but the newest {retained} versions, and tagged ones")
        self._world.clean(retained)

    def _is_marked(self) -> bool:
        store = self._world.store()
        for query in self._plan.queries:
            stamped = max(
                (
                    number
                    for number, version in self._table.versions.items()
                    if ledger.stamp_of(version.entry.properties, query.id) is not None
                ),
                default=0,
            )
            mark = bookmark.read(store, query.id) if stamped else None
            if stamped and (mark is None or mark.at.version < stamped):
                return False
        return True

    def _overwrite(self) -> None:
        row = next(self._ids)
        self._say(f"overwrite the table with row {row}")
        self._replace(lambda: self._world.overwrite([row]))

    def _restore(self) -> None:
        version = self._chance.choice(sorted(self._table.versions))
        self._say(f"restore version {version}")
        self._replace(lambda: self._world.restore(version))

    def _recreate(self) -> None:
        self._say("drop the table and create it again")
        self._replace(self._world.recreate, is_new=True)

    def _replace(self, act: Callable[[], None], *, is_new: bool = False) -> None:
        self.replaced += 1
        self._table.is_watched = False
        act()
        self._table.is_watched = True
        self._oracle.was_replaced(self._table, is_new=is_new)
