"""A table in memory, and what other people may do to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from headrace.tables.commit.message import TaskMessage
from headrace.tables.commit.payload import UpsertPayload
from headrace.tables.store import Column, Merge, Snapshot
from support.memory_store import Did, MemorySnapshot, MemoryStore, MemoryTable, MergedRows

SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string())])


class MemoryWorld:
    """A world in memory."""

    def __init__(self, table: MemoryTable | None = None) -> None:
        self.table = table or MemoryTable()
        self.table.create(SCHEMA)

    def store(self) -> MemoryStore:
        return MemoryStore(self.table)

    def write(self, ids: Iterable[int], *, replacing: bool = False, partition: int = 0) -> TaskMessage:
        ids = list(ids)
        if not ids:
            return TaskMessage(partition)
        snapshot = self.store().open()
        columns = snapshot.columns_of_new(snapshot.schema) if replacing else snapshot.columns()
        return TaskMessage(partition, len(ids), (self.table.write_file(ids),), dict(columns))

    def upserts(self, ids: Iterable[int]) -> UpsertPayload:
        ids = list(ids)

        def merge(snapshot: Snapshot) -> Merge:
            snapshot = getattr(snapshot, "inner", snapshot)
            assert isinstance(snapshot, MemorySnapshot)
            matched = frozenset(place for place in self.table.places(snapshot.seen) if place[1] in ids)
            return Merge(MergedRows(snapshot.version, matched, (self.table.write_file(ids),)))

        return UpsertPayload(len(ids), merge)

    def rows(self, version: int | None = None) -> list[int]:
        return self.table.rows(version)

    def append(self, ids: Iterable[int]) -> None:
        self.table.add(Did.APPEND, fragments=(*self.table.newest.fragments, self.table.write_file(ids)))

    def overwrite(self, ids: Iterable[int]) -> None:
        self.table.add(Did.OVERWRITE, fragments=(self.table.write_file(ids),), gone=frozenset())

    def restore(self, version: int) -> None:
        old = self.table.versions[version]
        kept = {"schema": old.schema, "columns": old.columns, "fragments": old.fragments, "gone": old.gone}
        self.table.add(Did.RESTORE, restored=version, **kept)

    def drop(self) -> None:
        self.table.drop()

    def recreate(self) -> None:
        self.table.create(SCHEMA)

    def _touch(self, id: int) -> frozenset[tuple[str, int]]:
        return frozenset(place for place in self.table.places(self.table.newest) if place[1] == id)

    def delete(self, id: int) -> None:
        gone = self._touch(id)
        self.table.add(Did.DELETE, gone=self.table.newest.gone | gone, touched=gone)

    def update(self, id: int) -> None:
        gone = self._touch(id)
        again = (self.table.write_file([id]),) if gone else ()
        newest = self.table.newest
        self.table.add(Did.UPDATE, gone=newest.gone | gone, fragments=newest.fragments + again, touched=gone)

    def compact(self) -> None:
        rows = [row for _, row in self.table.places(self.table.newest)]
        self.table.add(Did.REWRITE, fragments=(self.table.write_file(rows),), gone=frozenset())

    def configure(self) -> None:
        self.table.add(Did.CONFIG)

    def _change_columns(self, did: Did, columns: dict[int, Column], fields: list[pa.Field]) -> None:
        self.table.add(did, columns=columns, schema=pa.schema(fields))

    def _highest(self) -> int:
        return max(number for version in self.table.versions.values() for number in version.columns)

    def add_column(self, name: str) -> None:
        newest = self.table.newest
        columns = dict(newest.columns) | {self._highest() + 1: Column(name, "int64", True)}
        self._change_columns(Did.MERGE, columns, [*newest.schema, pa.field(name, pa.int64())])

    def drop_column(self, name: str) -> None:
        newest = self.table.newest
        columns = {number: column for number, column in newest.columns.items() if column.name != name}
        self._change_columns(Did.PROJECT, columns, [each for each in newest.schema if each.name != name])

    def rename_column(self, name: str, to: str) -> None:
        newest = self.table.newest
        columns = {k: replace(v, name=to) if v.name == name else v for k, v in newest.columns.items()}
        fields = [each.with_name(to) if each.name == name else each for each in newest.schema]
        self._change_columns(Did.PROJECT, columns, fields)

    def retype_column(self, name: str, kind: pa.DataType) -> None:
        newest = self.table.newest
        columns = {number: column for number, column in newest.columns.items() if column.name != name}
        columns[self._highest() + 1] = Column(name, str(kind), True)
        fields = [each.with_type(kind) if each.name == name else each for each in newest.schema]
        self._change_columns(Did.MERGE, columns, fields)

    def tag(self, version: int) -> None:
        self.table.tags.add(version)

    def clean(self, retain: int = 1, *, unverified: bool = False) -> None:
        self.table.clean(retain, unverified=unverified)

    def lose_file(self, name: str) -> None:
        del self.table.files[name]
