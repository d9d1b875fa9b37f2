"""Worlds to run the protocol in: a table, its store, and what other people may do to it; in memory and in Lance."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import lance
import pyarrow as pa

from headrace.tables.commit import bookmark, ledger
from headrace.tables.commit.message import TaskMessage
from headrace.tables.commit.payload import AppendPayload, OverwritePayload, UpsertPayload
from headrace.tables.lance_store import LanceSnapshot, LanceStore, translated
from headrace.tables.location import Location
from headrace.tables.store import Entry, Merge, Snapshot, Store
from headrace.tables.write.data_files import Task, write_rows
from support.lance_tables import create_table
from support.memory_world import SCHEMA

QUERY = "orders to lake/é"


class World(Protocol):
    """A table and the other writers of it. Rows are distinguished by their id alone."""

    def store(self) -> Store: ...
    def write(self, ids: Iterable[int], *, replacing: bool = False, partition: int = 0) -> TaskMessage: ...
    def upserts(self, ids: Iterable[int]) -> UpsertPayload: ...
    def rows(self, version: int | None = None) -> list[int]: ...
    def append(self, ids: Iterable[int]) -> None: ...
    def overwrite(self, ids: Iterable[int]) -> None: ...
    def restore(self, version: int) -> None: ...
    def drop(self) -> None: ...
    def recreate(self) -> None: ...
    def delete(self, id: int) -> None: ...
    def update(self, id: int) -> None: ...
    def compact(self) -> None: ...
    def configure(self) -> None: ...
    def add_column(self, name: str) -> None: ...
    def drop_column(self, name: str) -> None: ...
    def rename_column(self, name: str, to: str) -> None: ...
    def retype_column(self, name: str, kind: pa.DataType) -> None: ...
    def tag(self, version: int) -> None: ...
    def clean(self, retain: int = 1, *, unverified: bool = False) -> None: ...
    def lose_file(self, name: str) -> None: ...


class LanceWorld:
    """A real Lance table."""

    def __init__(self, uri: str, storage_options: dict[str, str] | None = None, **settings: Any) -> None:
        self.location = Location(uri, storage_options or {})
        self._tags = 0
        self._table = create_table(uri, SCHEMA, storage_options, **settings)

    @property
    def dataset(self) -> lance.LanceDataset:
        return self._table.open()

    def store(self) -> LanceStore:
        return LanceStore(self.location)

    def batch(self, ids: Iterable[int]) -> pa.RecordBatch:
        """Rows with these ids, and the columns that the table has now."""
        ids = list(ids)
        notes = [str(id) for id in ids]
        batch = pa.record_batch({"id": pa.array(ids, pa.int64()), "note": pa.array(notes, pa.string())})
        return batch.select([name for name in ("id", "note") if name in self.dataset.schema.names])

    def write(self, ids: Iterable[int], *, replacing: bool = False, partition: int = 0) -> TaskMessage:
        return write_rows([self.batch(ids)], self.location, Task(partition), replacing=replacing)

    def upserts(self, ids: Iterable[int]) -> UpsertPayload:
        ids = list(ids)

        def merge(snapshot: Snapshot) -> Merge:
            snapshot = getattr(snapshot, "inner", snapshot)
            assert isinstance(snapshot, LanceSnapshot)
            builder = snapshot.dataset.merge_insert(["id"]).when_matched_update_all().when_not_matched_insert_all()
            with translated(self.location, "merging rows"):
                transaction, _ = builder.execute_uncommitted(self.batch(ids))
            return Merge(transaction)

        return UpsertPayload(len(ids), merge)

    def rows(self, version: int | None = None) -> list[int]:
        return self._table.values("id", version)

    def append(self, ids: Iterable[int]) -> None:
        self._table.write(pa.Table.from_batches([self.batch(ids)]))

    def overwrite(self, ids: Iterable[int]) -> None:
        self._table.write(pa.Table.from_batches([self.batch(ids)]), "overwrite")

    def restore(self, version: int) -> None:
        self._table.restore(version)

    def drop(self) -> None:
        self._table.drop()

    def recreate(self) -> None:
        self._table.recreate(SCHEMA)

    def delete(self, id: int) -> None:
        self._table.delete(f"id = {id}")

    def update(self, id: int) -> None:
        self._table.update(f"id = {id}", note="'updated'")

    def compact(self) -> None:
        self._table.compact(num_threads=1)

    def configure(self) -> None:
        self.dataset.update_config({"some": "setting"})

    def add_column(self, name: str) -> None:
        self.dataset.add_columns(pa.schema([pa.field(name, pa.int64())]))

    def drop_column(self, name: str) -> None:
        self.dataset.drop_columns([name])

    def rename_column(self, name: str, to: str) -> None:
        self.dataset.alter_columns({"path": name, "name": to})

    def retype_column(self, name: str, kind: pa.DataType) -> None:
        self.dataset.alter_columns({"path": name, "data_type": kind})

    def tag(self, version: int) -> None:
        self._tags += 1
        self.dataset.tags.create(f"tag-{self._tags}", version)

    def clean(self, retain: int = 1, *, unverified: bool = False) -> None:
        self._table.clean(retain_versions=retain, delete_unverified=unverified, error_if_tagged_old_versions=False)

    def lose_file(self, name: str) -> None:
        (Path(self.location.uri) / "data" / name).unlink()


def history(world: World) -> list[Entry]:
    """Every version that is kept, oldest first."""
    snapshot = world.store().open()
    found = [snapshot.entry(version) for version in sorted(snapshot.kept_versions(0))]
    return [entry for entry in found if entry is not None]


def landed(world: World, query_id: str = QUERY) -> list[int]:
    """The epochs of a query that are stamped in the kept history, oldest first."""
    stamps = [ledger.stamp_of(entry.properties, query_id) for entry in history(world)]
    return [stamp.epoch for stamp in stamps if stamp is not None and not stamp.is_fence]


def fences(world: World, query_id: str = QUERY) -> int:
    """How many take-overs of a query are in the kept history."""
    stamps = [ledger.stamp_of(entry.properties, query_id) for entry in history(world)]
    return sum(stamp is not None and stamp.is_fence for stamp in stamps)


def spoil_bookmark(world: World, spoil: Callable[[Any], Any] | str) -> None:
    """Change the query's one bookmark."""
    store = world.store()
    (name,) = store.list_notes()
    text = store.read_note(name)
    assert text is not None
    store.write_note(name, spoil if isinstance(spoil, str) else json.dumps(spoil(json.loads(text))))


def marked(world: World, query_id: str = QUERY) -> int:
    """The version the query's bookmark points at."""
    mark = bookmark.read(world.store(), query_id)
    assert mark is not None
    return mark.at.version


def rows_of(world: World, ids: Iterable[int]) -> AppendPayload:
    return AppendPayload([world.write(ids)])


def result_of(world: World, ids: Iterable[int]) -> OverwritePayload:
    return OverwritePayload([world.write(ids, replacing=True)])


MODES: dict[str, Callable[[World, Iterable[int]], Any]] = {
    "append": rows_of,
    "complete": result_of,
    "upsert": lambda world, ids: world.upserts(ids),
}
