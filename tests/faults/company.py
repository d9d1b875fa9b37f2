"""Everybody else who works on the table while a stream lands in it: other writers, compaction, and their accounts."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Self

import pyarrow as pa
from landing_plan import FOREIGN, SCHEMA

from headrace import ConfigurationError, StorageError
from headrace.tables.lance_store import LanceStore
from headrace.tables.location import Location
from headrace.tables.manage import cleanup
from support.lance_tables import LanceTable

WRITING = ("append", "delete", "update", "merge")
UPKEEP = ("append", "compact", "clean up")


class Company(threading.Thread):
    """Others who do things to a table all along, in an order that a seed decides.

    Args:
        uri: The table.
        acts: What they do, out of what `Company` can do.
        seed: Of the order.
        storage_options: Of the table.

    Attributes:
        rows: Their rows, as they must be in the table in the end: each id and its value.
        done: How often they did something.
    """

    def __init__(
        self, uri: str, acts: tuple[str, ...], seed: int, storage_options: dict[str, str] | None = None
    ) -> None:
        super().__init__(daemon=True)
        self._table = LanceTable(uri, storage_options)
        self._chance = random.Random(seed)
        self._stopped = threading.Event()
        self._failure: Exception | None = None
        self._next = FOREIGN
        known: dict[str, Callable[[], None]] = {
            "append": self._append,
            "delete": self._delete,
            "update": self._update,
            "merge": self._merge,
            "compact": self._compact,
            "clean up": self._clean_up,
        }
        self._acts = [known[name] for name in acts]
        self.rows: dict[int, int] = {}
        self.done = 0

    def run(self) -> None:
        try:
            while not self._stopped.wait(0.2):
                self._chance.choice(self._acts)()
                self.done += 1
        except Exception as error:  # noqa: BLE001 - raised to the test on leaving
            self._failure = error

    def _retry(self, act: Callable[[], object]) -> None:
        """A change in flight when a run of a query takes over fails once, as Lance has it with any conflict."""
        for _ in range(20):
            try:
                act()
            except OSError as error:
                if "conflict" not in str(error).lower():
                    raise
            else:
                return
        raise AssertionError("a change of another writer met a conflict 20 times in a row")

    def _append(self) -> None:
        self._next += 1
        row = pa.table({"id": [self._next], "n": [0]}, schema=SCHEMA)
        self._retry(lambda: self._table.write(row))
        self.rows[self._next] = 0

    def _some(self) -> int | None:
        return self._chance.choice(sorted(self.rows)) if self.rows else None

    def _delete(self) -> None:
        if (row := self._some()) is not None:
            self._retry(lambda: self._table.delete(f"id = {row}"))
            del self.rows[row]

    def _update(self) -> None:
        if (row := self._some()) is not None:
            self._retry(lambda: self._table.update(f"id = {row}", n="n + 1"))
            self.rows[row] += 1

    def _merge(self) -> None:
        self._next += 1
        ids = sorted({self._next, self._some() or self._next})
        rows = pa.table({"id": ids, "n": [7] * len(ids)}, schema=SCHEMA)
        self._retry(lambda: self._table.upsert(rows))
        self.rows |= dict.fromkeys(ids, 7)

    def _compact(self) -> None:
        self._retry(lambda: self._table.compact())

    def _clean_up(self) -> None:
        """As ``headrace cleanup`` does it, which leaves what a query needs."""
        store = LanceStore(Location(self._table.uri, self._table.options))
        try:
            cleanup.carry_out(store, cleanup.plan(store, keep=3))
        except (ConfigurationError, StorageError):
            return  # it is refused, or another writer has just removed the version

    def require_kept(self) -> None:
        """All that they wrote is there, as they left it."""
        table = self._table.open().to_table(filter=f"id >= {FOREIGN}")
        found = sorted(zip(table["id"].to_pylist(), table["n"].to_pylist(), strict=True))
        assert found == sorted(self.rows.items())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.join(60)
        assert not self.is_alive(), "another writer hangs"
        if self._failure is not None:
            raise self._failure
