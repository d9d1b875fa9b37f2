"""Tables are made, and get new columns, only on request, even if other writers do so at the same moment."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from headrace import SchemaMismatchError, StorageError, TableNotFoundError
from headrace.tables.lance_store import LanceStore
from headrace.tables.location import Location
from headrace.tables.settings import FileSettings, Rules, SinkSettings
from headrace.tables.sink import EpochSink
from headrace.tables.write import create

SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string())])


@pytest.fixture
def store(tmp_path: Path) -> LanceStore:
    return LanceStore(Location(str(tmp_path / "table.lance")))


def columns(store: LanceStore) -> list[str]:
    return list(store.open().schema.names)


def test_a_table_is_not_made_unless_requested(store: LanceStore, tmp_path: Path) -> None:
    """L5: a clear error, and nothing is created."""
    with pytest.raises(TableNotFoundError, match="createTable=true"):
        create.open_or_create(store, SCHEMA, creates=False)
    assert list(tmp_path.iterdir()) == []


def test_a_table_is_made_empty_of_the_rows_schema(store: LanceStore) -> None:
    """L5: in the file format that was asked for; a table that is there is left as it is."""
    settings = FileSettings(storage_version="2.2")
    snapshot = create.open_or_create(store, SCHEMA, creates=True, settings=settings)
    assert (snapshot.version, snapshot.schema) == (1, SCHEMA)
    assert snapshot.dataset.data_storage_version == "2.2"
    again = create.open_or_create(store, pa.schema([("other", pa.int8())]), creates=True)
    assert (again.version, again.schema) == (1, SCHEMA)


def test_two_creators_at_once_get_the_same_table(tmp_path: Path) -> None:
    """L5, F4: however often they race, neither fails and neither destroys what the other made."""
    for number in range(10):
        location = Location(str(tmp_path / f"{number}.lance"))
        barrier, made, errors = threading.Barrier(2), [], []

        def create_table(
            location: Location = location, barrier: Any = barrier, made: Any = made, errors: Any = errors
        ) -> None:
            try:
                barrier.wait(10)
                made.append(create.open_or_create(LanceStore(location), SCHEMA, creates=True))
            except BaseException as error:  # noqa: BLE001 - the assertion below shows it
                errors.append(error)

        threads = [threading.Thread(target=create_table) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert errors == []
        assert [snapshot.schema for snapshot in made] == [SCHEMA, SCHEMA]
        assert lance.dataset(location.uri).version == 1


def test_a_table_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    """L5: that there is none either is not the answer."""
    (tmp_path / "file").write_text("in the way")
    store = LanceStore(Location(str(tmp_path / "file" / "table.lance")))
    with pytest.raises((StorageError, TableNotFoundError)) as caught:
        create.open_or_create(store, SCHEMA, creates=True)
    assert isinstance(caught.value, StorageError), caught.value


def test_rows_that_fit_change_nothing(store: LanceStore) -> None:
    """L31, L32"""
    snapshot = create.open_or_create(store, SCHEMA, creates=True)
    for merges in (False, True):
        create.require_fit(store, snapshot, pa.schema([("note", pa.string())]), merges=merges)
    assert store.open().version == 1


def test_a_new_column_needs_to_be_asked_for(store: LanceStore) -> None:
    """L32"""
    snapshot = create.open_or_create(store, SCHEMA, creates=True)
    wider = pa.schema([*SCHEMA, pa.field("new", pa.float64(), nullable=False)])
    with pytest.raises(SchemaMismatchError, match=r"'new'.*mergeSchema=true"):
        create.require_fit(store, snapshot, wider, merges=False)
    assert columns(store) == ["id", "note"]
    merged = create.require_fit(store, snapshot, wider, merges=True)
    assert merged.schema.field("new").nullable
    assert columns(store) == ["id", "note", "new"]
    create.require_fit(store, merged, wider, merges=True)
    assert store.open().version == 2


def test_rows_that_do_not_fit_add_no_column(store: LanceStore) -> None:
    """L32: what is wrong is found before the table is changed."""
    snapshot = create.open_or_create(store, SCHEMA, creates=True)
    wrong = pa.schema([("id", pa.string()), ("new", pa.int64())])
    with pytest.raises(SchemaMismatchError, match="'id'"):
        create.require_fit(store, snapshot, wrong, merges=True)
    assert columns(store) == ["id", "note"]


def test_two_writers_adding_the_same_column_both_go_on(store: LanceStore) -> None:
    """L32, F5: the one that comes second finds it there."""
    create.open_or_create(store, SCHEMA, creates=True)
    wider = pa.schema([*SCHEMA, pa.field("new", pa.float64())])
    first, second = store.open(), store.open()
    create.require_fit(store, first, wider, merges=True)
    merged = create.require_fit(store, second, wider, merges=True)
    assert merged.schema.names == ["id", "note", "new"]
    assert columns(store) == ["id", "note", "new"]


def test_a_column_added_meanwhile_with_another_type_is_refused(store: LanceStore) -> None:
    """L31, L32: by its name."""
    snapshot = create.open_or_create(store, SCHEMA, creates=True)
    lance.dataset(store.location.uri).add_columns(pa.schema([pa.field("new", pa.string())]))
    with pytest.raises(SchemaMismatchError, match="'new'"):
        create.require_fit(store, snapshot, pa.schema([*SCHEMA, pa.field("new", pa.float64())]), merges=True)


def test_key_columns_must_be_there() -> None:
    """L11"""
    create.require_keys(SCHEMA, SCHEMA, ("id",))
    with pytest.raises(SchemaMismatchError, match=r"'key'.*id, note"):
        create.require_keys(SCHEMA, SCHEMA, ("id", "key"))


def test_keys_that_would_be_rounded_are_refused() -> None:
    """L11, L31: tasks get their rows by unrounded keys, and would not see that two of them become one."""
    exact, rounded = pa.schema([("k", pa.float64())]), pa.schema([("k", pa.float32())])
    create.require_keys(rounded, rounded, ("k",))
    create.require_keys(rounded, exact, ("k",))
    create.require_keys(pa.schema([("k", pa.int64())]), rounded, ("k",))
    with pytest.raises(SchemaMismatchError, match=r"'k' is double in the rows and float in the table.*Hint: cast it"):
        create.require_keys(exact, rounded, ("k",))


def test_a_sink_prepares_the_table_as_configured(tmp_path: Path) -> None:
    """L5, L32"""
    location = Location(str(tmp_path / "table.lance"))
    wider = pa.schema([*SCHEMA, pa.field("new", pa.float64())])
    with pytest.raises(TableNotFoundError):
        EpochSink(SinkSettings(location, Rules("q"))).prepare(SCHEMA)
    EpochSink(SinkSettings(location, Rules("q"), creates_table=True)).prepare(SCHEMA)
    with pytest.raises(SchemaMismatchError):
        EpochSink(SinkSettings(location, Rules("q"), creates_table=True)).prepare(wider)
    assert EpochSink(SinkSettings(location, Rules("q"), replaces_schema=True)).prepare(wider).schema == SCHEMA
    assert EpochSink(SinkSettings(location, Rules("q"), merges_schema=True)).prepare(wider).schema == wider
