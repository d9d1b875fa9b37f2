"""A small Lance table to try rules on, opened and committed to as headrace does it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance.commit import CommitConflictError
from lance.dataset import LanceDataset, LanceOperation, Transaction
from lance.fragment import FragmentMetadata, write_fragments

from support.lance_tables import LanceTable

SCHEMA = pa.schema([("x", pa.int64())])

# As tables/lance_store commits: Lance may try again by itself, or must not.
RETRIES = 20
STRICT = 0

DAYS = 24 * 3600
RACERS = 8


def rows(*values: int) -> pa.Table:
    return pa.table({"x": values}, schema=SCHEMA)


class Table(LanceTable):
    """A table of one integer column, committed to as headrace does it."""

    def kind(self, version: int | None = None) -> str:
        dataset = self.open()
        return type(dataset.read_transaction(version or dataset.version).operation).__name__

    def files(self, *values: int) -> list[FragmentMetadata]:
        """Data files that no version knows yet."""
        return write_fragments(rows(*values), self.open(), mode="append")

    def path_of(self, fragment: FragmentMetadata) -> Path:
        return Path(self.uri, "data", fragment.files[0].path)

    def commit(self, operation: Any, at: int | None = None, *, retries: int = RETRIES, **properties: str) -> int:
        """Commit on top of a version, the newest if none is named, and return the version it became."""
        transaction = Transaction(at or self.version, operation, transaction_properties=properties)
        committed = LanceDataset.commit(self.uri, transaction, max_retries=retries, storage_options=self.options)
        return int(committed.version)

    def append(self, *values: int, at: int | None = None, retries: int = RETRIES, **properties: str) -> int:
        return self.commit(LanceOperation.Append(self.files(*values)), at, retries=retries, **properties)

    def fence(self, at: int | None = None, **properties: str) -> int:
        return self.commit(LanceOperation.Project(self.open().lance_schema), at, **properties)

    def replace(self, at: int, *, retries: int) -> int:
        return self.commit(LanceOperation.Overwrite(SCHEMA, []), at, retries=retries)

    def merge(self, *values: int) -> Transaction:
        """A merge by key that is worked out and not committed."""
        builder = self.open().merge_insert(["x"]).when_matched_update_all().when_not_matched_insert_all()
        return builder.execute_uncommitted(rows(*values))[0]


def make(uri: str, options: dict[str, str] | None = None, **settings: Any) -> Table:
    table = Table(uri, options)
    table.write(rows(0), "create", **settings)
    return table


def conflict_of(call: Callable[[], object], moved: str) -> CommitConflictError:
    """The conflict that a commit must meet; else ``moved`` says what has changed."""
    try:
        landed = call()
    except CommitConflictError as error:
        return error
    pytest.fail(f"{moved} (it landed as {landed})")
