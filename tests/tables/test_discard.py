"""Files of an epoch that failed are removed, as far as that is safe."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from worlds import LanceWorld

from headrace import CommitUnknownError, LandingError, StorageError
from headrace.tables.commit.ledger import QueryRun
from headrace.tables.commit.message import TaskMessage
from headrace.tables.commit.payload import AppendPayload
from headrace.tables.lance_store import LanceStore
from headrace.tables.location import Location
from headrace.tables.memory import ProcessMemory
from headrace.tables.settings import Rules, SinkSettings
from headrace.tables.sink import EpochSink
from headrace.tables.store import Append, Operation, Published

RUN = QueryRun("run", "checkpoint")


@pytest.fixture
def world(tmp_path: Path) -> LanceWorld:
    return LanceWorld(str(tmp_path / "table.lance"))


@pytest.fixture
def sink(world: LanceWorld) -> EpochSink:
    return EpochSink(SinkSettings(world.location, Rules("query")))


def data_files(world: LanceWorld) -> list[str]:
    return sorted(path.name for path in (Path(world.location.uri) / "data").glob("*"))


def test_the_files_of_a_failed_epoch_are_removed(world: LanceWorld, sink: EpochSink) -> None:
    """L30: all of them, and nothing else; the version is unchanged."""
    landed = [world.write([1])]
    sink.land(0, RUN, AppendPayload(landed))
    failed = [world.write([2]), world.write([3], partition=1), TaskMessage(2)]
    version = world.store().open().version
    sink.discard(failed, 1)
    assert data_files(world) == list(landed[0].files)
    assert world.store().open().version == version
    assert world.rows() == [1]
    sink.discard(failed, 1)
    assert data_files(world) == list(landed[0].files)


@pytest.mark.parametrize("kind", ["this epoch", "an older epoch", "compacted since"])
def test_files_that_have_landed_are_never_touched(world: LanceWorld, sink: EpochSink, kind: str) -> None:
    """L30: whatever is said to have failed; those the table has, not even by a process that does not remember."""
    messages = [world.write([1])]
    sink.land(0, RUN, AppendPayload(messages))
    if kind != "this epoch":
        sink.land(1, RUN, AppendPayload([world.write([2])]))
    version = world.store().open().version
    if kind == "compacted since":
        world.compact()
        sink.discard(messages, 0)
    else:
        EpochSink(sink.settings, memory=ProcessMemory()).discard(messages, 0)
    assert 1 in world.rows()
    assert 1 in world.rows(version), "an older version is readable too"


class MuteStore(LanceStore):
    """A store whose commits of rows raise instead of answering."""

    def __init__(self, location: Location, error: Exception) -> None:
        super().__init__(location)
        self._error = error

    def publish(self, operation: Operation, *, read_version: int, properties: Mapping[str, str]) -> Published:
        if isinstance(operation, Append):
            raise self._error
        return super().publish(operation, read_version=read_version, properties=properties)


@pytest.mark.parametrize("error", [CommitUnknownError("no answer"), StorageError("no space")])
def test_the_files_of_a_doubtful_epoch_are_left_alone(world: LanceWorld, sink: EpochSink, error: Exception) -> None:
    """L28, L30: its commit may still land, or has; the next sink of the process remembers."""
    messages = [world.write([1])]
    mute = EpochSink(sink.settings, store=MuteStore(world.location, error))
    with pytest.raises(type(error)):
        mute.land(0, RUN, AppendPayload(messages))
    sink.discard(messages, 0)
    assert data_files(world) == list(messages[0].files)
    other = world.write([2])
    sink.discard([other], 1)
    assert data_files(world) == list(messages[0].files)


def test_the_files_of_a_doubtful_batch_write_are_left_alone(world: LanceWorld) -> None:
    """L30"""
    settings, messages = SinkSettings(world.location, Rules("")), [world.write([1])]
    mute = EpochSink(settings, store=MuteStore(world.location, CommitUnknownError("no answer")))
    with pytest.raises(CommitUnknownError):
        mute.land_batch(AppendPayload(messages))
    EpochSink(settings).discard(messages)
    assert data_files(world) == list(messages[0].files)


def test_a_process_remembers_what_was_used_last_and_no_more() -> None:
    """L30: a driver may run for months."""
    memory, here = ProcessMemory(most=2), Location("table")
    first, second = memory.state(here, "query", "one"), memory.state(here, "query", "two")
    assert memory.state(here, "query", "one") is first
    assert memory.state(here, "another query", "two") is not second
    assert memory.state(here, "query", "one") is first
    assert memory.state(here, "query", "two") is not second
    for epoch in (0, 1, 0, 2):
        memory.doubt(here, "query", epoch)
    assert [memory.is_doubtful(here, "query", epoch) for epoch in range(3)] == [True, False, True]
    assert not memory.is_doubtful(Location("elsewhere"), "query", 2)
    assert not memory.is_doubtful(here, "another query", 2)


def test_an_epoch_that_was_refused_can_be_discarded(world: LanceWorld, sink: EpochSink) -> None:
    """L30: it certainly has not landed."""
    messages = [world.write([1]), world.write([2])]
    with pytest.raises(LandingError, match="2 times"):
        sink.land(0, RUN, AppendPayload(messages))
    sink.discard(messages, 0)
    assert data_files(world) == []


def _gone(tmp_path: Path) -> Location:
    return Location(str(tmp_path / "nowhere.lance"))


def _in_the_way(tmp_path: Path) -> Location:
    (tmp_path / "file").write_text("")
    return Location(str(tmp_path / "file" / "table.lance"))


def _unknown_scheme(tmp_path: Path) -> Location:
    return Location("nonsense://somewhere/table.lance")


def _unknown_namespace(tmp_path: Path) -> Location:
    return Location("", {}, "nonsense", {}, ("t",))


def _corrupt(tmp_path: Path) -> Location:
    world = LanceWorld(str(tmp_path / "corrupt.lance"))
    for manifest in (tmp_path / "corrupt.lance" / "_versions").glob("*.manifest"):
        manifest.write_bytes(b"garbage")
    return world.location


@pytest.mark.parametrize("place", [_gone, _in_the_way, _unknown_scheme, _unknown_namespace, _corrupt])
def test_discarding_never_raises(
    tmp_path: Path, place: Callable[[Path], Location], caplog: pytest.LogCaptureFixture
) -> None:
    """L30: it says in the log what could not be done."""
    caplog.set_level(logging.WARNING, "headrace.tables")
    message = TaskMessage(0, 1, ({"physical_rows": 1, "files": [{"path": "a.lance"}]},))
    sink = EpochSink(SinkSettings(place(tmp_path), Rules("query")))
    sink.discard([message], 0)
    sink.discard([], 0)
    assert caplog.text.count("stay until cleanup finds them") == 1


def test_a_file_that_cannot_be_removed_does_not_keep_the_others(world: LanceWorld, sink: EpochSink) -> None:
    """L30: as far as possible."""
    messages = [world.write([number], partition=number) for number in range(3)]
    stuck = Path(world.location.uri) / "data" / messages[1].files[0]
    stuck.unlink()
    stuck.mkdir()
    (stuck / "something").write_text("")
    sink.discard(messages, 0)
    assert data_files(world) == [stuck.name]
