"""A store as one process sees it: each call is a turn, may fail, and may be the process's last."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import CommitConflictError, CommitUnknownError, StorageError
from headrace.tables.commit import ledger
from headrace.tables.store import Entry, Fence, Operation, Published
from support.memory_store import MemorySnapshot
from support.simulation.oracle import WatchedStore
from support.simulation.plan import Plan
from support.simulation.processes import Process
from support.simulation.story import Story
from support.stepping import SteppedSnapshot, Steps


@dataclass
class Weather:
    """What storage does to calls.

    Attributes:
        plan: How likely it is.
        chance: What decides.
        story: Where it is recorded.
        is_calm: Whether nothing goes wrong any more.
        late: Commits that were given up by who sent them, and are still on their way.
        strokes: How often it did something.
        is_noted: Whether every epoch without rows could be noted.
    """

    plan: Plan
    chance: random.Random
    story: Story
    is_calm: bool = False
    late: list[Callable[[], object]] = field(default_factory=list)
    strokes: int = 0
    is_noted: bool = True

    def strikes(self, what: str) -> bool:
        does = not self.is_calm and self.chance.random() < self.plan.faults[what]
        self.strokes += does
        return does


class SimulatedStore(Steps):
    """A store whose calls are turns of a process."""

    def __init__(self, inner: WatchedStore, process: Process, weather: Weather) -> None:
        super().__init__()
        self.inner = inner
        self.process = process
        self.weather = weather

    def step(self, name: str, call: Callable[[], Any]) -> Any:
        """Makes a call when the process gets its turn."""
        self.process.give_way()
        if self.weather.strikes("fails"):
            self.say(f"{name}: storage fails")
            raise StorageError(f"The storage is down ({name}).")
        return call()

    def _may_nap(self) -> None:
        """Freezes the process where it matters most that others go on without it."""
        weather = self.weather
        if weather.plan.naps and not weather.is_calm and weather.chance.random() < weather.plan.naps:
            self.process.frozen = weather.chance.randrange(5, 80)
            self.say(f"freezes for {self.process.frozen} turns")

    def say(self, what: str) -> None:
        self.weather.story.say(self.process.name, what)

    def open(self) -> SimulatedSnapshot:
        snapshot = self.step("opens the table", self.inner.open)
        self.say(f"opens version {snapshot.version}")
        return SimulatedSnapshot(snapshot, self)

    def publish(self, operation: Operation, *, read_version: int, properties: Mapping[str, str]) -> Published:
        epoch = properties.get(ledger.EPOCH_ID)
        what = "a fence" if isinstance(operation, Fence) else f"epoch {epoch}"
        name = f"commits {what} on version {read_version}"

        def commit() -> Published:
            return self.inner.publish(operation, read_version=read_version, properties=properties)

        self._may_nap()
        self.process.give_way()
        if self.weather.strikes("fails"):
            self.say(f"{name}: refused by storage")
            raise StorageError("The commit failed, and is not in the table.")
        if self.weather.strikes("is lost on the way"):
            self.say(f"{name}: lost on the way, and nobody knows")
            raise CommitUnknownError("No answer.")
        if self.weather.strikes("lands late"):
            self.say(f"{name}: given up, though it may still come to land")
            self.weather.late.append(self._late(commit, f"{name}, late"))
            raise self.weather.chance.choice([CommitUnknownError, StorageError])("Timed out.")
        try:
            published = commit()
        except CommitConflictError as error:
            self.say(f"{name}: conflict: {error}")
            raise
        self.say(f"{name}: it is version {published.version}")
        if self.inner.table.oracle.doubled is None and self.weather.strikes("lands unheard"):
            self.say("  its answer is lost, and nobody knows")
            raise CommitUnknownError("No answer, though it landed.")
        return published

    def _late(self, commit: Callable[[], Published], name: str) -> Callable[[], object]:
        """A commit that lands if nothing else has meanwhile: it is to become one certain version."""
        seen = self.inner.table.newest

        def land() -> None:
            if self.inner.table.versions and self.inner.table.newest is seen:
                try:
                    published = commit()
                except (CommitConflictError, StorageError):
                    return
                self.say(f"{name}: it is version {published.version}")

        return land

    def missing_files(self, files: Sequence[str]) -> list[str]:
        missing: list[str] = self.step("looks for its files", lambda: self.inner.missing_files(files))
        return missing

    def delete_files(self, files: Sequence[str]) -> None:
        self.step("deletes files", lambda: self.inner.delete_files(files))
        self.say(f"deletes the files {', '.join(files)}")

    def list_notes(self) -> Sequence[str]:
        names: Sequence[str] = self.step("lists notes", self.inner.list_notes)
        return names

    def read_note(self, name: str) -> str | None:
        text: str | None = self.step("reads a note", lambda: self.inner.read_note(name))
        return text

    def write_note(self, name: str, text: str) -> None:
        self._may_nap()
        self.step("writes a note", lambda: self.inner.write_note(name, text))
        self.say(f"writes the note {name[:6]}...{name[-10:]}")
        if self.weather.strikes("lands unheard"):
            self.say("  its answer is lost")
            raise StorageError("The note was written, and the answer lost.")

    def delete_note(self, name: str) -> None:
        """As far as possible: it does not raise."""
        self.process.give_way()
        if not self.weather.strikes("fails"):
            self.inner.delete_note(name)
            self.say(f"deletes the note {name[:6]}...{name[-10:]}")


class SimulatedSnapshot(SteppedSnapshot):
    """A snapshot whose reads are turns of a process."""

    inner: MemorySnapshot
    steps: SimulatedStore

    def entry(self, version: int) -> Entry | None:
        entry = super().entry(version)
        self.steps.say(f"reads version {version}" + ("" if entry else ", which is gone"))
        return entry
