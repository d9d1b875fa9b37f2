"""Rows that are null in every column: counted by the tasks that write them, and summed for the epoch."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import LanceWorld

from headrace import SchemaMismatchError
from headrace.arrow.nulls import count_null_rows
from headrace.tables.commit.ledger import QueryRun
from headrace.tables.commit.message import TaskMessage
from headrace.tables.commit.payload import AppendPayload, OverwritePayload
from headrace.tables.commit.protocol import EpochCommitter
from headrace.tables.location import Location
from headrace.tables.settings import Rules
from headrace.tables.write.data_files import Task, write_rows, write_staged

TASK = Task(0)
VALUES = (st.none() | st.integers(0, 9), st.none() | st.text(max_size=2), st.none() | st.just({"a": None}))
TYPES = (pa.int64(), pa.string(), pa.struct([("a", pa.int8())]))


@settings(max_examples=60)
@given(st.integers(0, 3), st.lists(st.tuples(*VALUES), max_size=8), st.integers(0, 3))
def test_rows_that_are_null_in_every_column_are_counted(width: int, rows: list[tuple[object, ...]], start: int) -> None:
    """C25: of any types, in slices too; a struct of nulls is not null, and without columns there is no such row."""
    columns = [
        pa.array([row[index] for row in rows], kind)  # type: ignore[call-overload]
        for index, kind in enumerate(TYPES[:width])
    ]
    batch = pa.RecordBatch.from_arrays(columns, names=[str(index) for index in range(width)]).slice(start)
    expected = sum(all(value is None for value in row[:width]) for row in rows[start:]) if width else 0
    assert count_null_rows(batch) == expected


def test_a_column_of_nulls_only_decides_nothing() -> None:
    """C25: such as one that the query sets to NULL."""
    nothing = pa.nulls(4)
    assert count_null_rows(pa.record_batch({"a": nothing, "b": [1, None, None, 2]})) == 2
    assert count_null_rows(pa.record_batch({"a": nothing, "b": [1, 2, 3, 4]})) == 0
    assert count_null_rows(pa.record_batch({"a": nothing, "b": nothing})) == 4


@pytest.fixture
def world(tmp_path: Path) -> LanceWorld:
    return LanceWorld(str(tmp_path / "table.lance"))


def batch(*ids: int | None) -> pa.RecordBatch:
    notes = [None if id is None else str(id) for id in ids]
    return pa.record_batch({"id": pa.array(ids, pa.int64()), "note": pa.array(notes, pa.string())})


@pytest.mark.parametrize("replacing", [False, True])
def test_an_epoch_has_the_null_rows_of_all_its_tasks(world: LanceWorld, replacing: bool) -> None:
    """C25: also in the outcome of an epoch that is skipped."""
    batches = ([batch(1, None), batch(None, None, 2)], [batch(3)], [batch(None)])
    messages = [
        TaskMessage.from_json(write_rows(each, world.location, Task(number), replacing=replacing).to_json())
        for number, each in enumerate(batches)
    ]
    assert [message.null_rows for message in messages] == [3, 0, 1]
    payload = OverwritePayload(messages) if replacing else AppendPayload(messages)
    committer = EpochCommitter(world.store(), Rules("query"), QueryRun("run"))
    for was_skipped in (False, True):
        landed = committer.commit(0, payload)
        assert (landed.was_skipped, landed.rows, landed.null_rows) == (was_skipped, 7, 4)


def test_only_the_columns_that_the_rows_came_with_decide(world: LanceWorld) -> None:
    """C25: a column of the table that is filled with nulls changes nothing."""
    only_id = pa.record_batch({"id": pa.array([1, None], pa.int64())})
    assert write_rows([only_id], world.location, TASK).null_rows == 1


def test_rows_to_merge_are_never_null_in_every_column(world: LanceWorld, tmp_path: Path) -> None:
    """C25, L11: their keys may not be null."""
    staging = Location(str(tmp_path / "staging"))
    assert write_staged([batch(1, 2)], world.location, staging, TASK, ("id",)).null_rows == 0
    assert world.upserts([1]).null_rows == 0
    with pytest.raises(SchemaMismatchError, match="'id' holds nulls"):
        write_staged([batch(1, None)], world.location, Location(str(tmp_path / "s2")), TASK, ("id",))
