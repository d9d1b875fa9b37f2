"""What a task writes: data files that no version knows yet, and a message about them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from lance.file import LanceFileReader
from worlds import LanceWorld, result_of, rows_of

from headrace import SchemaMismatchError, StorageError, TableNotFoundError
from headrace.tables.commit.ledger import QueryRun
from headrace.tables.commit.message import TaskMessage
from headrace.tables.commit.payload import AppendPayload, OverwritePayload
from headrace.tables.commit.protocol import EpochCommitter
from headrace.tables.location import Location
from headrace.tables.settings import FileSettings, Rules
from headrace.tables.write.data_files import Task, write_rows, write_staged

TASK = Task(3, QueryRun("run", "checkpoint"), 7)


@pytest.fixture
def world(tmp_path: Path) -> LanceWorld:
    return LanceWorld(str(tmp_path / "table.lance"))


def batch(*ids: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(ids, pa.int64()), "note": [str(id) for id in ids]})


def land(world: LanceWorld, epoch: int, payload: AppendPayload | OverwritePayload) -> None:
    EpochCommitter(world.store(), Rules(f"query {epoch}"), QueryRun("run")).commit(epoch, payload)


def data_files(world: LanceWorld) -> list[str]:
    folder = Path(world.location.uri) / "data"
    return sorted(path.name for path in folder.glob("*")) if folder.exists() else []


@pytest.mark.parametrize("batches", [[], [batch()], [batch(), batch()]])
def test_a_task_without_rows_opens_nothing(tmp_path: Path, batches: list[pa.RecordBatch]) -> None:
    """L8: not even the table, which need not exist."""
    nowhere = Location(str(tmp_path / "nowhere.lance"))
    expected = TaskMessage(3, run=TASK.run, epoch=7)
    assert write_rows(batches, nowhere, TASK) == expected
    assert write_rows(batches, nowhere, TASK, replacing=True) == expected
    assert write_staged(batches, nowhere, nowhere, TASK, ("id",)) == expected
    assert list(tmp_path.iterdir()) == []


def test_a_task_with_rows_needs_a_table(tmp_path: Path) -> None:
    """L5"""
    with pytest.raises(TableNotFoundError):
        write_rows([batch(1)], Location(str(tmp_path / "nowhere.lance")), TASK)
    assert list(tmp_path.iterdir()) == []


def test_what_was_written_is_in_the_message_and_in_no_version(world: LanceWorld) -> None:
    """L14: it is invisible until it is committed."""
    message = write_rows([batch(1, 2), batch(), batch(3)], world.location, TASK)
    assert (message.partition, message.rows, message.run, message.epoch) == (3, 3, QueryRun("run", "checkpoint"), 7)
    assert sorted(message.files) == data_files(world)
    assert world.rows() == []
    assert world.store().open().version == 1
    columns = world.store().open().columns()
    assert message.columns == columns
    land(world, 0, AppendPayload([TaskMessage.from_json(message.to_json())]))
    assert world.rows() == [1, 2, 3]


class SourceError(Exception):
    """The query's own."""


@pytest.mark.parametrize("error", [SourceError("theirs"), SchemaMismatchError("ours"), KeyboardInterrupt()])
@pytest.mark.parametrize("rows_before", [0, 1])
def test_an_error_in_the_rows_comes_out_as_itself(world: LanceWorld, error: BaseException, rows_before: int) -> None:
    """L31: not as what Lance makes of it; nothing is in the table."""

    def failing() -> Iterator[pa.RecordBatch]:
        for number in range(rows_before):
            yield batch(number)
        raise error

    with pytest.raises(type(error)) as caught:
        write_rows(failing(), world.location, TASK)
    assert caught.value is error
    assert world.rows() == []


def test_a_batch_that_does_not_fit_in_mid_stream_fails_the_task(world: LanceWorld) -> None:
    """L31: naming the column."""
    world.retype_column("id", pa.int8())
    with pytest.raises(SchemaMismatchError, match=r"'id'.*300"):
        write_rows([batch(1), batch(300)], world.location, TASK)
    assert world.rows() == []


@pytest.mark.parametrize("is_staged", [False, True])
def test_rows_are_encoded_before_the_last_batch_has_come(world: LanceWorld, tmp_path: Path, is_staged: bool) -> None:
    """Five megabytes of a column are several pages; with its own setting Lance would begin after the last batch."""

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, 600_000, 10_000):
            yield pa.record_batch(
                {"id": pa.array(range(start, start + 10_000), pa.int64()), "note": pa.nulls(10_000, pa.string())}
            )

    staging = Location(str(tmp_path / "staging.lance"))
    if is_staged:
        write_staged(batches(), world.location, staging, TASK, ("id",))
    else:
        write_rows(batches(), world.location, TASK)
    folder = Path(staging.uri if is_staged else world.location.uri) / "data"
    (file,) = folder.glob("*.lance")
    assert len(LanceFileReader(str(file)).metadata().columns[0].pages) > 1


def test_files_have_no_more_rows_than_they_may(world: LanceWorld) -> None:
    """L7: and still land as one version."""
    batches = [batch(*range(start, start + 10)) for start in range(0, 50, 10)]
    message = write_rows(batches, world.location, TASK, settings=FileSettings(max_rows=20))
    assert [fragment["physical_rows"] for fragment in message.fragments] == [20, 20, 10]
    assert message.rows == 50
    before = world.store().open().version
    land(world, 0, AppendPayload([message]))
    assert world.store().open().version == before + 2
    assert world.rows() == list(range(50))


@pytest.mark.parametrize("is_compacted", [False, True])
def test_rows_and_results_land_where_field_ids_have_gaps(world: LanceWorld, is_compacted: bool) -> None:
    """L9, L31: columns were dropped, added and retyped: a result renumbers the ids, rows keep the table's."""
    world.append([1])
    world.add_column("more")
    world.drop_column("note")
    world.add_column("last")
    if is_compacted:
        world.compact()
    assert list(world.store().open().columns()) == [0, 2, 3]
    land(world, 0, rows_of(world, [2]))  # type: ignore[arg-type]
    assert world.rows() == [1, 2]
    land(world, 1, result_of(world, [5, 6]))  # type: ignore[arg-type]
    assert world.dataset.to_table().to_pydict() == {"id": [5, 6], "more": [None, None], "last": [None, None]}
    land(world, 2, rows_of(world, [7]))  # type: ignore[arg-type]
    assert world.rows() == [5, 6, 7]
    land(world, 3, OverwritePayload([]))
    assert world.rows() == []
    assert world.dataset.schema.names == ["id", "more", "last"]


def test_a_result_may_have_its_own_schema(world: LanceWorld) -> None:
    """L9: for a batch overwrite."""
    schema = pa.schema([("other", pa.string())])
    rows = pa.record_batch({"other": ["x"]})
    message = write_rows([rows], world.location, TASK, replacing=True, schema=schema)
    land(world, 0, OverwritePayload([message], schema))
    assert world.dataset.to_table().to_pydict() == {"other": ["x"]}


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_the_tables_file_format_is_kept(tmp_path: Path, version: str) -> None:
    """L9: whatever the settings ask for when rows are appended, and unless they do for a result."""
    world = LanceWorld(str(tmp_path / "table.lance"), data_storage_version=version)
    for epoch, replacing in enumerate((False, True)):
        settings = FileSettings() if replacing else FileSettings(storage_version="2.2")
        message = write_rows([batch(1)], world.location, TASK, replacing=replacing, settings=settings)
        land(world, epoch, OverwritePayload([message]) if replacing else AppendPayload([message]))
        assert world.dataset.data_storage_version == version
    assert world.rows() == [1]


def test_a_folder_that_cannot_be_written_is_a_storage_error(world: LanceWorld) -> None:
    """F9"""
    data = Path(world.location.uri) / "data"
    if data.exists():
        data.rmdir()
    data.write_text("a file in the way")
    with pytest.raises(StorageError, match="data files of"):
        write_rows([batch(1)], world.location, TASK)


def test_staged_rows_have_each_key_once_and_no_null(world: LanceWorld, tmp_path: Path) -> None:
    """L11: duplicate keys within an epoch are a clear error, across batches too."""
    staging = Location(str(tmp_path / "staging"))
    message = write_staged([batch(1), batch(2)], world.location, staging, TASK, ("id",))
    assert message.rows == 2
    with pytest.raises(SchemaMismatchError, match=r"more than one row for the same key: .* 1 such key,.*\{'id': 1\}"):
        write_staged([batch(1, 2), batch(1)], world.location, Location(str(tmp_path / "s2")), TASK, ("id",))
    nothing = pa.record_batch({"id": pa.array([None], pa.int64()), "note": ["x"]})
    with pytest.raises(SchemaMismatchError, match="'id' holds nulls"):
        write_staged([nothing], world.location, Location(str(tmp_path / "s3")), TASK, ("id",))
    only = pa.record_batch({"id": [1]})
    with pytest.raises(SchemaMismatchError, match=r"'note'.*erase"):
        write_staged([only], world.location, Location(str(tmp_path / "s4")), TASK, ("id",))
    assert world.rows() == []
