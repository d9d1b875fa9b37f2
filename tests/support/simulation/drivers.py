"""Drivers as Spark runs them: an epoch is planned, written by tasks, landed by the real protocol, and noted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.errors import HeadraceError
from headrace.tables.commit.ledger import QueryRun
from headrace.tables.commit.message import TaskMessage
from headrace.tables.commit.payload import AppendPayload, OverwritePayload, Payload, UpsertPayload
from headrace.tables.commit.protocol import EpochCommitter, RunState
from headrace.tables.settings import Rules
from headrace.tables.store import Merge
from support.memory_store import MemorySnapshot, MergedRows
from support.simulation.oracle import WatchedStore
from support.simulation.plan import EPOCHS, Query
from support.simulation.processes import Process
from support.simulation.simulated_store import SimulatedStore

if TYPE_CHECKING:
    from support.simulation.world import World


@dataclass
class Checkpoint:
    """How far Spark has come.

    Attributes:
        id: Spark's id of the query, which a copy has too.
        planned: The newest epoch that is planned.
        done: The newest that is done.
    """

    id: str
    planned: int = -1
    done: int = -1


class Driver:
    """One run of a query.

    Attributes:
        error: What stopped it.
        memory: What its process remembers; losing it is a new process of the same run.
    """

    def __init__(
        self,
        world: World,
        query: Query,
        name: str,
        checkpoint: Checkpoint,
        on_history_gap: str,
        accepts_replaced: bool,
    ) -> None:
        self._world = world
        self.query = query
        self.checkpoint = checkpoint
        self.run = QueryRun(name, checkpoint.id)
        plan = world.plan
        self._rules = Rules(query.id, plan.lookback, on_history_gap, plan.accepts_reset, accepts_replaced)  # type: ignore[arg-type]
        self.state = RunState()
        self.error: HeadraceError | None = None
        self.process = Process(name, self._drive)

    def _drive(self, process: Process) -> None:
        store = SimulatedStore(WatchedStore(self._world.table), process, self._world.weather)
        epoch, is_first = self.checkpoint.done + 1, True
        while epoch < EPOCHS:
            process.give_way()
            if self.checkpoint.planned < epoch:
                self.checkpoint.planned = epoch
            elif not is_first:
                store.say(f"finds epoch {epoch} planned by another driver, and stops")
                return
            is_first = False
            store.say(f"begins epoch {epoch}")
            process.is_landing = True
            try:
                self._land(store, epoch)
            except HeadraceError as error:
                store.say(f"stops: {type(error).__name__}: {error}")
                self.error = error
                self._world.errors.append(error)
                return
            process.is_landing = False
            process.give_way()
            if self.checkpoint.done >= epoch:
                store.say(f"finds epoch {epoch} noted by another driver, and stops")
                return
            self.checkpoint.done = epoch
            store.say(f"notes that epoch {epoch} is done")
            epoch += 1

    def _land(self, store: SimulatedStore, epoch: int) -> None:
        committer = EpochCommitter(store, self._rules, self.run, self.state, pause=lambda seconds: None)
        if self._world.plan.way == "sink" and self.state.last is None and committer.has_landed(epoch, self.query.mode):
            store.say(f"learns that epoch {epoch} has landed before")
            self._world.oracle.was_acknowledged(self.query, epoch, None, self.checkpoint.id)
            return
        payload = self._write(store, epoch)
        strokes = store.weather.strokes
        try:
            outcome = committer.commit(epoch, payload)
        except HeadraceError:
            if not committer.may_have_landed:
                self._discard(store, payload.files or ())
            raise
        if payload.is_nothing and store.weather.strokes > strokes:
            store.weather.is_noted = False
        store.say(f"learns that epoch {epoch} {'had' if outcome.was_skipped else 'has'} landed")
        self._world.oracle.was_acknowledged(self.query, epoch, outcome.version, self.checkpoint.id)

    def _write(self, store: SimulatedStore, epoch: int) -> Payload:
        """The tasks' work, two of them; of one that is run twice, one file is in the way of nobody."""
        rows, table = self.query.rows(epoch), self._world.table
        if self.query.mode == "upsert":
            return UpsertPayload(len(rows), lambda snapshot: self._merge(snapshot, rows))
        snapshot = store.open()
        replaces = self.query.mode == "complete"
        columns = dict(snapshot.columns_of_new(snapshot.schema) if replaces else snapshot.columns())
        messages = []
        for partition, part in enumerate((rows[:1], rows[1:])):
            store.process.give_way()
            if part and self._world.chance.random() < 0.1:
                table.write_file(part)
            files = (table.write_file(part),) if part else ()
            messages.append(TaskMessage(partition, len(part), files, columns if part else None))
        return OverwritePayload(messages) if replaces else AppendPayload(messages)

    def _merge(self, snapshot: Any, rows: Sequence[int]) -> Merge:
        table, seen = self._world.table, snapshot.inner
        assert isinstance(seen, MemorySnapshot)
        span = range(self.query.base, self.query.base + 100_000)
        keys = {self.query.key(row) for row in rows}
        places = table.places(seen.seen)
        matched = frozenset(place for place in places if place[1] in span and self.query.key(place[1]) in keys)
        return Merge(MergedRows(snapshot.version, matched, (table.write_file(rows),)))

    def _discard(self, store: SimulatedStore, files: Sequence[str]) -> None:
        """As `Sink.discard` does."""
        try:
            known = store.open().inner.seen.files
            store.delete_files([file for file in files if file not in known])
        except HeadraceError:
            return
