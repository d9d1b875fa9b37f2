"""What parquet and Lance make of a table: the columns they cannot hold, and the types they give back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import datafusion
import lance
import pyarrow as pa
import pyarrow.parquet

from support.differential.plain import copied
from support.differential.tables import Table
from support.lance_tables import create_table


class UnfitError(Exception):
    """The format cannot hold the table; the message says what it does not hold."""


def written(way: str, table: Table, folder: Path) -> Table:
    """Write a table in a format, and return it as the format gives it back.

    Raises:
        UnfitError: The format cannot hold it.
    """
    try:
        (_write_parquet if way == "parquet" else _write_lance)(table, folder)
        context = datafusion.SessionContext()
        register_native(way, folder)(context, '"t"', table)
        frame = context.sql("select * from t")
        schema = frame.schema()
        batches = [batch.to_pyarrow() for batch in frame.execute_stream()]
        batches = [pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches]
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise UnfitError(str(error).strip().splitlines()[0][:120]) from error
    return replace(table.with_rows(batches), schema=schema)


def register_native(way: str, folder: Path) -> Callable[[datafusion.SessionContext, str, Table], None]:
    """How plain DataFusion itself reads a table in a format."""

    def register(context: datafusion.SessionContext, name: str, table: Table) -> None:
        if way == "parquet":
            context.register_parquet(name, str(folder / f"{table.name}.parquet"))
        else:
            dataset = lance.dataset(str(folder / f"{table.name}.lance"))
            context.register_table(name, lance.FFILanceTableProvider(dataset))

    return register


def _write_parquet(table: Table, folder: Path) -> None:
    with pyarrow.parquet.ParquetWriter(folder / f"{table.name}.parquet", table.schema) as writer:
        for batch in table.batches:
            writer.write_batch(copied(batch))


def _write_lance(table: Table, folder: Path) -> None:
    rows = pa.RecordBatchReader.from_batches(table.schema, [copied(batch) for batch in table.batches])
    create_table(folder / f"{table.name}.lance", rows)
