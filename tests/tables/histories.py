"""Tables with a history, and a reader that goes through it step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import lance
import pyarrow as pa

from headrace.tables.lance_store import LanceStore
from headrace.tables.location import Location
from headrace.tables.read.feed import Feed
from headrace.tables.read.offset import Offset
from headrace.tables.read.scan import read
from headrace.tables.read.shape import FEED_FIELDS
from headrace.tables.read.splits import Split
from headrace.tables.settings import NO_LIMIT, FeedRules, Limit
from support.lance_tables import LanceTable

SCHEMA = pa.schema([("id", pa.int64()), ("state", pa.string())])


def some(*ids: int, state: str = "new") -> pa.Table:
    return pa.table({"id": ids, "state": [state] * len(ids)}, schema=SCHEMA)


class Table:
    """A Lance table whose changes are one call each; every call makes the version it returns."""

    def __init__(self, folder: Path, *, stable_row_ids: bool = False) -> None:
        self._table = LanceTable(folder / "table.lance")
        self._stable_row_ids = stable_row_ids
        self.uri = self._table.uri
        self.location = Location(self.uri)

    @property
    def dataset(self) -> lance.LanceDataset:
        return self._table.open()

    def create(self, *ids: int) -> int:
        return self._table.write(some(*ids), "create", enable_stable_row_ids=self._stable_row_ids)

    def append(self, *ids: int, files: int = 1) -> int:
        return self._table.write(some(*ids), max_rows_per_file=-(-len(ids) // files))

    def overwrite(self, *ids: int) -> int:
        return self._table.write(some(*ids), "overwrite", enable_stable_row_ids=self._stable_row_ids)

    def delete(self, condition: str) -> int:
        return self._table.delete(condition)

    def update(self, condition: str, state: str) -> int:
        return self._table.update(condition, state=f"'{state}'")

    def upsert(self, *ids: int, state: str) -> int:
        return self._table.upsert(some(*ids, state=state))

    def insert(self, *ids: int) -> int:
        return self._table.insert(some(*ids))

    def compact(self) -> int:
        return self._table.compact()

    def index(self) -> int:
        self.dataset.create_scalar_index("id", "BTREE", replace=True)
        return self.newest()

    def restore(self, version: int) -> int:
        return self._table.restore(version)

    def clean_up(self, keep: int = 1) -> None:
        """Remove all versions but the newest few."""
        self._table.clean(retain_versions=keep)

    def newest(self) -> int:
        return self._table.version


def ids_in(slices: Iterable[Split], table: Table) -> list[int]:
    """The ids of the rows that slices stand for."""
    return [value for batch in read(slices, table.location, SCHEMA) for value in batch["id"].to_pylist()]


@dataclass
class Reader:
    """Goes through a table's history like a streaming query that is restarted after every step."""

    table: Table
    rules: FeedRules = field(default_factory=FeedRules)
    limit: Limit = NO_LIMIT
    position: Offset | None = None
    last: tuple[Offset, Offset] | None = None

    def begin(self) -> Reader:
        self.position = self.feed().begin()
        return self

    def feed(self) -> Feed:
        return Feed(LanceStore(self.table.location), self.rules)

    def step(self, newest: int | None = None) -> list[int]:
        """The ids of the next step; none if nothing is there."""
        assert self.position is not None
        end = Offset.from_json(self.feed().advance(self.position, self.limit, newest).to_json())
        self.last = (self.position, end)
        found = self.between(*self.last)
        self.position = end
        return found

    def between(self, start: Offset, end: Offset) -> list[int]:
        return ids_in(self.feed().splits(start, end), self.table)

    def to_end(self, newest: int | None = None, each: Callable[[list[int]], object] = lambda _: None) -> list[int]:
        """The ids of all steps."""
        if self.position is None:
            self.begin()
        found: list[int] = []
        while True:
            before = self.position
            step = self.step(newest)
            found += step
            if self.position == before:
                return found
            each(step)

    def changes(self) -> list[tuple[int, str, str, int]]:
        """Id, state, kind of change and version of all that is left to read."""
        assert self.position is not None
        feed = self.feed()
        end = feed.advance(self.position, self.limit)
        schema = pa.schema([*SCHEMA, *FEED_FIELDS])
        slices = feed.splits(self.position, end)
        self.position = end
        return [
            (row["id"], row["state"], row["_change_type"], row["_commit_version"])
            for batch in read(slices, self.table.location, schema, with_changes=True)
            for row in batch.to_pylist()
        ]


def reading(table: Table, **rules: object) -> Reader:
    """A reader of a table that has begun."""
    limit = rules.pop("limit", Limit())
    return Reader(table, FeedRules(**rules), limit).begin()  # type: ignore[arg-type]
