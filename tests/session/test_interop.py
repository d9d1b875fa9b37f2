"""Libraries that accept a reader: pyarrow, DuckDB, Polars, pandas and Lance, over the Arrow C stream."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import lance
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

from headrace import (
    CancelledError,
    ClosedError,
    HeadraceError,
    RecordBatchReader,
    SessionContext,
    SimpleTableProvider,
)

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
ROWS = 1_000
BOOM = ValueError("the source went away")

# As pyarrow.dataset and Flight do, which read the C++ reader directly.
READ_IN_CPP = pa.ipc.RecordBatchStreamReader.read_next_batch

Take = Callable[[RecordBatchReader, Path], pa.Table]


def batch_of(number: int) -> pa.RecordBatch:
    keys = pa.array(range(number * ROWS, (number + 1) * ROWS))
    return pa.record_batch([keys, pa.repeat("x", ROWS)], schema=SCHEMA)


def pyarrow_table(reader: RecordBatchReader, folder: Path) -> pa.Table:
    return pa.table(reader)


def pyarrow_reader(reader: RecordBatchReader, folder: Path) -> pa.Table:
    return pa.RecordBatchReader.from_stream(reader).read_all()


def pyarrow_scanner(reader: RecordBatchReader, folder: Path) -> pa.Table:
    return pyarrow.dataset.Scanner.from_batches(reader).to_table()


def duckdb_by_name(reader: RecordBatchReader, folder: Path) -> pa.Table:
    with duckdb.connect() as connection:
        return connection.sql("select * from reader").to_arrow_table()


def duckdb_registered(reader: RecordBatchReader, folder: Path) -> pa.Table:
    with duckdb.connect() as connection:
        connection.register("rows", reader)
        return connection.sql("select * from rows").to_arrow_table()


def polars_frame(reader: RecordBatchReader, folder: Path) -> pa.Table:
    return pl.DataFrame(reader).to_arrow()


def pandas_frame(reader: RecordBatchReader, folder: Path) -> pa.Table:
    return pa.Table.from_pandas(pd.DataFrame.from_arrow(reader), preserve_index=False)


def lance_table(reader: RecordBatchReader, folder: Path) -> pa.Table:
    return lance.write_dataset(reader, folder / "written.lance").to_table()


def lance_table_told_the_schema(reader: RecordBatchReader, folder: Path) -> pa.Table:
    return lance.write_dataset(reader, folder / "written.lance", schema=reader.schema).to_table()


TAKERS = [
    pyarrow_table,
    pyarrow_reader,
    pyarrow_scanner,
    duckdb_by_name,
    duckdb_registered,
    polars_frame,
    pandas_frame,
    lance_table,
    lance_table_told_the_schema,
]

takers = pytest.mark.parametrize("take", TAKERS, ids=lambda take: take.__name__)
both = pytest.mark.parametrize("execute", ["execute_stream", "collect"])


def kinds(table: pa.Table) -> list[tuple[str, str]]:
    """Names and types; libraries differ in the width of offsets."""
    wide = {pa.string(): "string", pa.large_string(): "string", pa.string_view(): "string"}
    return [(field.name, wide.get(field.type, str(field.type))) for field in table.schema]


@both
@takers
def test_every_library_gets_every_row(ctx: SessionContext, take: Take, execute: str, tmp_path: Path) -> None:
    """S1: of a streamed and of a collected result, without any conversion."""
    ctx.register_table("t", SimpleTableProvider(SCHEMA, lambda: map(batch_of, range(5))))
    table = take(getattr(ctx.sql("select * from t"), execute)(), tmp_path)
    assert kinds(table) == [("k", "int64"), ("v", "string")]
    assert sorted(table.column("k").to_pylist()) == list(range(5 * ROWS))
    assert set(table.column("v").to_pylist()) == {"x"}


@both
@takers
def test_a_result_without_rows_keeps_its_schema_in_every_library(
    ctx: SessionContext, take: Take, execute: str, tmp_path: Path
) -> None:
    """S1: a result of zero rows has its columns and types."""
    ctx.register_table("t", SimpleTableProvider(SCHEMA, lambda: map(batch_of, range(2))))
    table = take(getattr(ctx.sql("select * from t where k < 0"), execute)(), tmp_path)
    assert table.num_rows == 0
    assert kinds(table) == [("k", "int64"), ("v", "string")]


@takers
def test_no_library_takes_a_stream_that_fails_in_the_middle_for_a_complete_one(
    ctx: SessionContext, take: Take, tmp_path: Path
) -> None:
    """S9: each raises with the source's message, and Lance creates no table with half the rows."""

    def scan() -> Iterator[pa.RecordBatch]:
        yield from map(batch_of, range(5))
        raise BOOM

    ctx.register_table("t", SimpleTableProvider(SCHEMA, scan))
    reader = ctx.sql("select * from t").execute_stream()
    with pytest.raises(Exception, match="Table 't' failed: ValueError: the source went away"):
        take(reader, tmp_path)
    with pytest.raises(ClosedError):
        reader.read_next_batch()
    with pytest.raises(ValueError, match="not found"):
        lance.dataset(tmp_path / "written.lance")


@takers
def test_no_library_takes_a_stream_that_is_cancelled_in_the_middle_for_a_complete_one(
    ctx: SessionContext, take: Take, tmp_path: Path
) -> None:
    """S11: the next read raises and does not end the stream."""
    handed_on = threading.Event()

    def scan() -> Iterator[pa.RecordBatch]:
        for number in range(1_000_000):
            yield batch_of(number % 10)
            if number == 20:
                handed_on.set()

    ctx.register_table("t", SimpleTableProvider(SCHEMA, scan))
    reader = ctx.sql("select * from t").execute_stream()

    def cancel() -> None:
        handed_on.wait(10)
        reader.cancel()

    canceller = threading.Thread(target=cancel, daemon=True)
    canceller.start()
    with pytest.raises(Exception, match="cancelled"):
        take(reader, tmp_path)
    canceller.join(10)


AFTERWARDS = {
    "cancel": (CancelledError, "The stream was cancelled; the batches read so far are not the complete result."),
    "close": (ClosedError, "The reader is closed."),
}


@pytest.mark.parametrize("leave", AFTERWARDS)
def test_cpp_code_that_reads_after_close_or_cancel_gets_the_error_that_python_code_gets(
    ctx: SessionContext, leave: str
) -> None:
    """S11: the message does not depend on whether a read was waiting."""
    ctx.register_table("t", SimpleTableProvider(SCHEMA, lambda: map(batch_of, range(100))))
    reader = ctx.sql("select * from t").execute_stream()
    assert READ_IN_CPP(reader).num_rows > 0
    getattr(reader, leave)()
    kind, words = AFTERWARDS[leave]
    for read in (READ_IN_CPP, RecordBatchReader.read_next_batch) * 2:
        with pytest.raises(kind, match=words):
            read(reader)


def test_cpp_code_that_reads_after_an_error_gets_a_message_that_names_it(ctx: SessionContext) -> None:
    """S9: the first read raises the error, the next one says that it was raised."""

    def scan() -> Iterator[pa.RecordBatch]:
        yield batch_of(0)
        raise BOOM

    ctx.register_table("t", SimpleTableProvider(SCHEMA, scan))
    reader = ctx.sql("select * from t").execute_stream()
    assert READ_IN_CPP(reader).num_rows == ROWS
    with pytest.raises(HeadraceError, match=r"^Table 't' failed: ValueError: the source went away"):
        READ_IN_CPP(reader)
    for read in (READ_IN_CPP, RecordBatchReader.read_next_batch) * 2:
        with pytest.raises(ClosedError, match=r"has failed before, with .*: the source went away"):
            read(reader)


@pytest.mark.parametrize("take", [duckdb_by_name, duckdb_registered], ids=lambda take: take.__name__)
def test_a_library_that_stops_reading_early_releases_the_source(
    ctx: SessionContext, take: Take, tmp_path: Path
) -> None:
    """S7: a LIMIT in DuckDB also ends our execution, although a reference to the reader remains."""
    closed = threading.Event()

    def endless() -> Iterator[pa.RecordBatch]:
        try:
            while True:
                yield batch_of(0)
        finally:
            closed.set()

    ctx.register_table("t", SimpleTableProvider(SCHEMA, endless))
    reader = ctx.sql("select * from t").execute_stream()
    with duckdb.connect() as connection:
        connection.register("rows", reader)
        query = "select k from rows limit 3" if take is duckdb_registered else "select k from reader limit 3"
        assert connection.sql(query).fetchall() == [(0,), (1,), (2,)]
    assert closed.wait(1.0)


def test_code_that_imports_a_reader_and_drops_it_releases_the_source(ctx: SessionContext) -> None:
    """S7: dropping the last reference to the Arrow stream closes the reader."""
    closed = threading.Event()

    def endless() -> Iterator[pa.RecordBatch]:
        try:
            while True:
                yield batch_of(0)
        finally:
            closed.set()

    ctx.register_table("t", SimpleTableProvider(SCHEMA, endless))
    reader = ctx.sql("select * from t").execute_stream()
    imported = pa.RecordBatchReader.from_stream(reader)
    assert imported.read_next_batch().num_rows > 0
    del imported
    assert closed.wait(1.0)
    with pytest.raises(ClosedError):
        reader.read_next_batch()


def test_reading_the_schema_through_the_arrow_stream_takes_no_rows(ctx: SessionContext) -> None:
    """S1: DuckDB exports a stream once for its schema and again for its rows."""
    ctx.register_table("t", SimpleTableProvider(SCHEMA, lambda: map(batch_of, range(2))))
    reader = ctx.sql("select * from t").execute_stream()
    assert pa.schema(reader) == SCHEMA
    for _ in range(2):
        assert pa.RecordBatchReader.from_stream(reader).schema == SCHEMA
    assert reader.read_all().num_rows == 2 * ROWS


@pytest.mark.parametrize("batches", [5, 0])
def test_pyarrow_writes_a_reader_as_a_dataset(ctx: SessionContext, batches: int, tmp_path: Path) -> None:
    """S1: pyarrow reads the reader directly in C++ here, and gets the same rows."""
    ctx.register_table("t", SimpleTableProvider(SCHEMA, lambda: map(batch_of, range(batches))))
    reader = ctx.sql("select * from t").execute_stream()
    pyarrow.dataset.write_dataset(reader, tmp_path, format="parquet", basename_template="{i}.parquet")
    rows = pyarrow.dataset.dataset(tmp_path, schema=SCHEMA).to_table()
    assert sorted(rows.column("k").to_pylist()) == list(range(batches * ROWS))


def test_a_library_gets_only_the_rows_that_were_not_read_before(ctx: SessionContext) -> None:
    """S1: the rest of the stream, each row once."""
    ctx.register_table("t", SimpleTableProvider(SCHEMA, lambda: map(batch_of, range(5))))
    reader = ctx.sql("select * from t").execute_stream()
    first = reader.read_next_batch()
    rest = pl.DataFrame(reader)
    assert first.column("k").to_pylist() + rest["k"].to_list() == list(range(5 * ROWS))


def test_a_library_may_request_another_type_for_the_same_values(ctx: SessionContext) -> None:
    """S1: the stream has the requested schema where pyarrow can cast."""
    ctx.register_table("t", SimpleTableProvider(SCHEMA, lambda: [batch_of(0)]))
    wanted = pa.schema([("k", pa.int32()), ("v", pa.large_string())])
    table = pa.table(ctx.sql("select * from t").execute_stream(), schema=wanted)
    assert table.schema == wanted
    assert table.num_rows == ROWS


def test_a_frame_exports_its_result_as_an_arrow_stream(ctx: SessionContext) -> None:
    """S1, S5: the same stream as the reader's, once."""
    ctx.register_table("t", SimpleTableProvider(SCHEMA, lambda: map(batch_of, range(5))))
    assert pa.table(ctx.sql("select * from t")).num_rows == 5 * ROWS
    assert pl.DataFrame(ctx.sql("select * from t")).height == 5 * ROWS


@both
@pytest.mark.parametrize("take", [pyarrow_table, pyarrow_scanner], ids=lambda take: take.__name__)
def test_every_type_of_a_result_reaches_the_library_unchanged(
    ctx: SessionContext, take: Take, execute: str, tmp_path: Path
) -> None:
    """S1: nested, dictionary, decimal, zoned, fixed-size and view types."""
    moment = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)
    table = pa.table(
        {
            "nested": pa.array(
                [{"a": [1, 2], "b": None}, None], pa.struct([("a", pa.list_(pa.int8())), ("b", pa.date32())])
            ),
            "words": pa.array(["x", None]).dictionary_encode(),
            "price": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
            "at": pa.array([moment, None], pa.timestamp("us", "Europe/Berlin")),
            "vector": pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)),
            "view": pa.array(["a string that is longer than twelve bytes", None], pa.string_view()),
        }
    )
    ctx.register_table("t", SimpleTableProvider(table.schema, lambda: table))
    assert take(getattr(ctx.sql("select * from t"), execute)(), tmp_path) == table
