"""Drivers that land epochs: a run of a query in a world, and what this process remembers of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from worlds import MODES, QUERY, World

from headrace.tables.commit.landed import Landed
from headrace.tables.commit.ledger import QueryRun
from headrace.tables.commit.protocol import EpochCommitter, Rules, RunState
from support.stepping import SteppedStore, Steps


@dataclass
class Driver:
    """One run of a query. Losing its memory is a new process of the same run; a restart is a new run."""

    world: World
    run: str | None = "run-a"
    mode: str = "append"
    checkpoint: str = "checkpoint"
    query_id: str = QUERY
    rules: dict[str, Any] = field(default_factory=dict)
    steps: Steps = field(default_factory=Steps)
    state: RunState = field(default_factory=RunState)

    def committer(self) -> EpochCommitter:
        run = None if self.run is None else QueryRun(self.run, self.checkpoint)
        store = SteppedStore(self.world.store(), self.steps)
        return EpochCommitter(store, Rules(self.query_id, **self.rules), run, self.state, pause=lambda seconds: None)

    def payload(self, ids: Iterable[int]) -> Any:
        return MODES[self.mode](self.world, ids)

    def land(self, epoch: int, ids: Iterable[int] | None = None) -> Landed:
        """Land an epoch; without ``ids``, it has 10 rows."""
        return self.committer().commit(epoch, self.payload(ids_of(epoch) if ids is None else ids))

    def forget(self) -> None:
        self.state = RunState()

    def restarted(self, run: str, **changed: Any) -> Driver:
        """Return the query restarted: a new run in a new process, from the same checkpoint by default."""
        same = {"mode": self.mode, "checkpoint": self.checkpoint, "query_id": self.query_id, "rules": self.rules}
        return Driver(self.world, run, **(same | changed))


def ids_of(epoch: int) -> list[int]:
    """An epoch's rows, which are no other epoch's."""
    return [epoch * 10, epoch * 10 + 1]


def ids_through(epoch: int) -> list[int]:
    return [id for each in range(epoch + 1) for id in ids_of(each)]
