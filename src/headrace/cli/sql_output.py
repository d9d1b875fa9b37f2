"""Print a query result to standard output batch by batch: as a box, CSV, JSON lines or an Arrow stream."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from headrace._counts import counted
from headrace.session.render import Box

if TYPE_CHECKING:
    from headrace.session.reader import RecordBatchReader

Printer = Callable[["RecordBatchReader"], None]


def printer(style: str) -> Printer:
    """Return the function that prints a result as ``box``, ``csv``, ``json`` or ``arrow``."""
    return {"box": _box, "csv": _csv, "json": _json, "arrow": _arrow}[style]


def _box(reader: RecordBatchReader) -> None:
    """Size the columns for the first batch; wider values in later batches are cut."""
    if not reader.schema.names:
        return
    batches = _with_rows(reader)
    first = next(batches, None)
    box = Box(reader.schema, [] if first is None else [first])
    click.echo(box.head())
    rows = 0
    for batch in [] if first is None else _chain(first, batches):
        for line in box.lines(batch):
            click.echo(line)
        rows += batch.num_rows
    click.echo(box.foot())
    click.echo(counted(rows, "row"))


def _csv(reader: RecordBatchReader) -> None:
    from pyarrow import csv

    out = sys.stdout.buffer
    with csv.CSVWriter(pa.PythonFile(out, "w"), _flat(reader.schema)) as writer:
        for batch in _with_rows(reader):
            writer.write_batch(_flattened(batch))
            out.flush()


def _json(reader: RecordBatchReader) -> None:
    for batch in _with_rows(reader):
        for row in batch.to_pylist():
            click.echo(json.dumps(row, default=_plain, ensure_ascii=False))


def _arrow(reader: RecordBatchReader) -> None:
    if sys.stdout.isatty():
        raise click.UsageError("An Arrow stream cannot be shown on a terminal: redirect it to a file or a program.")
    out = sys.stdout.buffer
    with pa.ipc.new_stream(out, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
            out.flush()


def _with_rows(reader: RecordBatchReader) -> Iterator[pa.RecordBatch]:
    return (batch for batch in reader if batch.num_rows)


def _chain(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from others


def _is_nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _flat(schema: pa.Schema) -> pa.Schema:
    """Return the schema for CSV, with nested and binary columns as strings."""
    return pa.schema([field.with_type(pa.string()) if _is_nested(field.type) else field for field in schema])


def _flattened(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [
        pa.array([None if value is None else _text(value) for value in column.to_pylist()], pa.string())
        if _is_nested(column.type)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_flat(batch.schema))


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else json.dumps(value, default=_plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Convert a value that JSON does not support: bytes to hexadecimal digits, everything else to text."""
    return value.hex() if isinstance(value, bytes) else str(value)
