"""Pull tables as users write them: over a Parquet file and over batches in memory, in several partitions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset

import headrace


class ParquetTable(headrace.TableProvider):
    """Reads the requested columns and rows of a Parquet file with pyarrow; a partition is a part of its row groups."""

    def __init__(self, file: Path, partitions: int) -> None:
        dataset = pyarrow.dataset.dataset(file)
        (self._fragment,) = dataset.get_fragments()
        self._schema = dataset.schema
        self._partitions = max(1, min(partitions, self._fragment.num_row_groups))

    def schema(self) -> pa.Schema:
        return self._schema

    def partition_count(self) -> int:
        return self._partitions

    def scan(self) -> pa.RecordBatchReader:
        return self._fragment.scanner().to_reader()

    def scan_with(self, request: headrace.ScanRequest) -> pa.RecordBatchReader:
        groups = range(request.partition, self._fragment.num_row_groups, request.partitions)
        part = self._fragment.subset(row_group_ids=list(groups))
        return part.scanner(schema=self._schema, columns=list(request.columns), filter=request.filter).to_reader()


class MemoryTable(headrace.TableProvider):
    """Hands over the requested columns of batches in memory; a partition is a part of the batches."""

    def __init__(self, data: pa.Table, partitions: int) -> None:
        self._schema = data.schema
        self._batches = data.to_batches()
        self._partitions = max(1, min(partitions, len(self._batches)))

    def schema(self) -> pa.Schema:
        return self._schema

    def partition_count(self) -> int:
        return self._partitions

    def scan(self) -> pa.Table:
        return pa.Table.from_batches(self._batches, self._schema)

    def scan_with(self, request: headrace.ScanRequest) -> pa.Table:
        part = self._batches[request.partition :: request.partitions]
        return pa.Table.from_batches(part, self._schema).select(request.columns)
