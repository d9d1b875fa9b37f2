"""A source in Python that has its rows in memory: what it takes is Spark's time, which no source in Python can beat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from _shapes import Shape, shape_named


class HandedOver(DataSource):
    """Yields the same batch repeatedly. Options: ``shape``, ``rows`` and ``tasks``."""

    @classmethod
    def name(cls) -> str:
        return "handed-over"

    def schema(self) -> str:
        return shape_named(self.options["shape"]).spark

    def reader(self, schema: Any) -> DataSourceReader:
        return _Reader(self.options)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - as Spark calls it
        return _StreamReader(self.options)


class _Rows:
    def __init__(self, options: Any) -> None:
        self._shape = shape_named(options["shape"])
        self._tasks = int(options["tasks"])
        self._rows = int(options["rows"]) // self._tasks

    def _parts(self) -> list[InputPartition]:
        return [InputPartition(task) for task in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        at_once = min(self._shape.at_once, self._rows)
        batch = _for_spark(self._shape, at_once)
        for first in range(0, self._rows, at_once):
            yield batch.slice(0, min(at_once, self._rows - first))


class _Reader(_Rows, DataSourceReader):
    def partitions(self) -> Sequence[InputPartition]:
        return self._parts()


class _StreamReader(_Rows, DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"rows": 0}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802
        return {"rows": self._rows * self._tasks}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return self._parts()


def _for_spark(shape: Shape, count: int) -> pa.RecordBatch:
    rows = shape.rows(0, count)
    if "v" in rows.column_names:
        rows = rows.cast(pa.schema([("id", pa.int64()), ("v", pa.list_(pa.field("element", pa.float32())))]))
    return rows.combine_chunks().to_batches()[0]
