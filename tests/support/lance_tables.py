"""A Lance table that a test writes to, reads and manages, with one call for each thing."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import lance
import pyarrow as pa
from lance.dataset import CleanupStats


class LanceTable:
    """A table at an address. Each call opens it again, and one that changes it returns the version this made.

    Args:
        uri: Where it is. It does not have to exist before `write` creates it.
        options: Its storage options.
    """

    def __init__(self, uri: str | Path, options: Mapping[str, str] | None = None) -> None:
        self.uri = str(uri)
        self.options = dict(options or {})

    def write(
        self,
        rows: pa.Table | pa.RecordBatchReader,
        mode: Literal["append", "create", "overwrite"] = "append",
        **settings: Any,
    ) -> int:
        """Write rows; ``settings`` are those of ``lance.write_dataset``."""
        return int(lance.write_dataset(rows, self.uri, mode=mode, storage_options=self.options, **settings).version)

    def open(self, version: int | str | None = None) -> lance.LanceDataset:
        """Open a version, the newest if none is named."""
        return lance.dataset(self.uri, version=version, storage_options=self.options)

    @property
    def version(self) -> int:
        """The newest version."""
        return int(self.open().version)

    @property
    def kept(self) -> list[int]:
        """The versions that were not removed, oldest first."""
        return sorted(int(version["version"]) for version in self.open().versions())

    def values(self, column: str = "id", version: int | None = None) -> list[Any]:
        """The values of a column, sorted."""
        return sorted(self.open(version).to_table(columns=[column])[column].to_pylist())

    def delete(self, condition: str) -> int:
        self.open().delete(condition)
        return self.version

    def update(self, condition: str, **values: str) -> int:
        """Set columns to SQL expressions in the rows that meet a condition."""
        self.open().update(values, where=condition)
        return self.version

    def upsert(self, rows: pa.Table, keys: Sequence[str] = ("id",)) -> int:
        merge = self.open().merge_insert(list(keys)).when_matched_update_all().when_not_matched_insert_all()
        merge.execute(rows)
        return self.version

    def insert(self, rows: pa.Table, keys: Sequence[str] = ("id",)) -> int:
        """Insert the rows whose keys are not in the table."""
        self.open().merge_insert(list(keys)).when_not_matched_insert_all().execute(rows)
        return self.version

    def restore(self, version: int = 1) -> int:
        self.open(version).restore()
        return self.version

    def compact(self, **settings: Any) -> int:
        self.open().optimize.compact_files(**settings)
        return self.version

    def clean(self, **settings: Any) -> CleanupStats:
        """Remove old versions; ``settings`` are those of ``cleanup_old_versions``."""
        return self.open().cleanup_old_versions(**settings)

    def drop(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.uri)

    def recreate(self, rows: pa.Table | pa.Schema) -> None:
        """Drop it, and create another at the same address."""
        self.drop()
        create_table(self.uri, rows, self.options)


def create_table(
    uri: str | Path,
    rows: pa.Table | pa.RecordBatchReader | pa.Schema,
    options: Mapping[str, str] | None = None,
    **settings: Any,
) -> LanceTable:
    """Create a table from its first rows, or from a schema, without rows."""
    table = LanceTable(uri, options)
    table.write(rows.empty_table() if isinstance(rows, pa.Schema) else rows, "create", **settings)
    return table
