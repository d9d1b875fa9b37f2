"""Write batches as data files that belong to no version of the table yet. Runs on executors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import write_fragments
from lance.schema import LanceSchema

from headrace._counts import counted
from headrace.arrow.align import Alignment
from headrace.arrow.nulls import count_null_rows
from headrace.errors import SchemaMismatchError
from headrace.tables.commit.ledger import Task
from headrace.tables.commit.message import TaskMessage
from headrace.tables.lance_errors import lance_errors, storage_error
from headrace.tables.lance_store import LanceStore, columns_of
from headrace.tables.location import Location
from headrace.tables.settings import FileSettings
from headrace.tables.spelling import Words
from headrace.tables.write.behind import write_behind

# Per column. Lance's own 8 MiB are a million numbers: most tasks would encode all their rows after Spark's last batch.
_PAGE_BYTES = 2 << 20


def write_rows(
    batches: Iterable[pa.RecordBatch],
    location: Location,
    task: Task,
    *,
    settings: FileSettings = FileSettings(),  # noqa: B008 - frozen
    replacing: bool = False,
    schema: pa.Schema | None = None,
    words: Words = Words(),  # noqa: B008 - frozen
) -> TaskMessage:
    """Write one task's rows as data files of the table.

    Args:
        batches: The rows. They are streamed, one batch at a time.
        location: The table.
        task: The task.
        settings: Limits and format of data files.
        replacing: Whether the rows will replace the table's rows instead of being appended.
        schema: With ``replacing``, the schema that replaces the table's; None keeps the table's.
        words: How hints name settings.

    Returns:
        The task's message to the driver; it lists no fragments if there were no rows.

    Raises:
        SchemaMismatchError: The rows do not fit the table.
        StorageError: A file cannot be written.
    """
    first, rest = _first_of(batches)
    if first is None:
        return TaskMessage(task.partition, run=task.run, epoch=task.epoch)
    dataset = LanceStore(location).open().dataset
    target = schema or dataset.schema
    settings_used = settings.arguments()
    if replacing:
        settings_used.setdefault("data_storage_version", dataset.data_storage_version)
        columns = columns_of(LanceSchema.from_pyarrow(target))
    else:
        settings_used.pop("data_storage_version", None)
        columns = columns_of(dataset.lance_schema)
    rows = _Rows(Alignment(first.schema, target, add_setting=words.merge_schema), chain((first,), rest))
    settings_used |= {"mode": "overwrite" if replacing else "append", "data_cache_bytes": _PAGE_BYTES * len(target)}
    fragments = rows.write(location, lambda reader: write_fragments(reader, dataset, **settings_used))
    return _message(task, fragments, columns, rows.null_rows)


def write_staged(
    batches: Iterable[pa.RecordBatch],
    location: Location,
    staging: Location,
    task: Task,
    keys: tuple[str, ...],
    *,
    words: Words = Words(),  # noqa: B008 - frozen
) -> TaskMessage:
    """Write one task's rows to the staging directory, to be merged by ``keys``. Each key may occur once.

    Raises:
        SchemaMismatchError: The rows do not fit the table, a key is null, or a key occurs twice.
        StorageError: A file cannot be written.
    """
    first, rest = _first_of(batches)
    if first is None:
        return TaskMessage(task.partition, run=task.run, epoch=task.epoch)
    schema = LanceStore(location).open().schema
    alignment = Alignment(first.schema, schema, fills=False, add_setting=words.merge_schema)
    rows = _Rows(alignment, chain((first,), rest), keys)
    settings: dict[str, Any] = {"data_cache_bytes": _PAGE_BYTES * len(schema), "storage_options": staging.options()}
    fragments = rows.write(location, lambda reader: write_fragments(reader, staging.uri, mode="create", **settings))
    rows.require_single_keys()
    return _message(task, fragments, columns_of(LanceSchema.from_pyarrow(schema)), rows.null_rows)


def _first_of(batches: Iterable[pa.RecordBatch]) -> tuple[pa.RecordBatch | None, Iterator[pa.RecordBatch]]:
    """Return the first batch that has rows, and an iterator over the others: a task without rows opens no table."""
    rest = (batch for batch in batches if batch.num_rows)
    return next(rest, None), rest


class _Rows:
    """A task's rows, aligned with the table for Lance's writer. Keeps the error that Lance would replace by its own."""

    def __init__(self, alignment: Alignment, batches: Iterator[pa.RecordBatch], keys: tuple[str, ...] = ()) -> None:
        self._alignment = alignment
        self._batches = batches
        self._keys = keys
        self._seen: list[pa.RecordBatch] = []
        self._failure: BaseException | None = None
        self.null_rows = 0

    def write(self, location: Location, write: Any) -> list[Any]:
        def write_aligned(batches: Iterator[pa.RecordBatch]) -> list[Any]:
            return list(write(pa.RecordBatchReader.from_batches(self._alignment.schema, self._aligned(batches))))

        try:
            return write_behind(self._batches, write_aligned)
        except lance_errors() as error:
            if self._failure is not None:
                raise self._failure from None
            raise storage_error(f"Writing data files of {location} failed", location, error) from location.cause(error)

    def _aligned(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for batch in batches:
                self.null_rows += count_null_rows(batch)
                aligned = self._alignment.apply(batch)
                if self._keys:
                    self._seen.append(require_keys(aligned, self._keys))
                yield aligned
        except BaseException as error:
            self._failure = error
            raise

    def require_single_keys(self) -> None:
        keys = pa.Table.from_batches(self._seen)
        if keys.num_rows > 1:
            counts = keys.group_by(list(self._keys)).aggregate([([], "count_all")])
            twice = counts.filter(pc.greater(counts.column("count_all"), 1)).select(list(self._keys))
            if twice.num_rows:
                example = twice.slice(0, 1).to_pylist()[0]
                raise SchemaMismatchError(
                    f"The epoch has more than one row for the same key: one task found "
                    f"{counted(twice.num_rows, 'such key')}, for example {example}.",
                    hint="keep one row per key in the query, for example the newest.",
                )


def require_keys(batch: pa.RecordBatch, keys: tuple[str, ...]) -> pa.RecordBatch:
    """Return the key columns of a batch.

    Raises:
        SchemaMismatchError: A key is null.
    """
    found = batch.select(list(keys))
    for name, column in zip(keys, found.columns, strict=True):
        if column.null_count:
            raise SchemaMismatchError(
                f"Key column {name!r} holds nulls, which match no row.", hint="drop those rows, or fill in the key."
            )
    return found


def _message(task: Task, fragments: list[Any], columns: Any, null_rows: int) -> TaskMessage:
    values = tuple(json.loads(json.dumps(fragment.to_json())) for fragment in fragments)
    return TaskMessage(
        task.partition,
        sum(value["physical_rows"] for value in values),
        values,
        columns,
        task.run,
        task.epoch,
        null_rows,
    )
