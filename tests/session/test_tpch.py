"""TPC-H at scale 0.01: every way to feed a session answers the 22 queries as DuckDB and plain DataFusion do."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import datafusion
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from _tpch import QUERIES, MemoryTable, ParquetTable, difference, lance_tables, order_keys, parquet_tables, scans
from headrace import ConsumerGoneError, SessionContext, TableSink

# The tables are generated once, by one worker.
pytestmark = pytest.mark.xdist_group("tpch")

PARTITIONS = 3
PUSHED_ROWS = 1_000
JOIN_SECONDS = 10
SCANS_ALL_TWICE = ("q11",)

Files = dict[str, Path]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return parquet_tables(0.01, tmp_path_factory.mktemp("tpch") / "tables")


@pytest.fixture(scope="module")
def plain(files: Files) -> datafusion.SessionContext:
    # The process's first session makes the pool of worker threads large enough for blocked scans.
    SessionContext().close()
    context = datafusion.SessionContext()
    for table, file in files.items():
        context.register_parquet(table, str(file))
    return context


@pytest.fixture(scope="module")
def expected(files: Files) -> dict[str, pa.Table]:
    """DuckDB's answers."""
    with duckdb.connect() as connection:
        for table, file in files.items():
            connection.sql(f"create view {table} as from '{file}'")
        return {name: connection.sql(sql).to_arrow_table() for name, sql in QUERIES.items()}


def parquet(session: SessionContext, files: Files) -> None:
    for table, file in files.items():
        session.register_parquet(table, file)


def lance(session: SessionContext, files: Files) -> None:
    for table, path in lance_tables(files).items():
        session.register_lance(table, path)


def providers_of_parquet(session: SessionContext, files: Files) -> None:
    for table, file in files.items():
        session.register_table(table, ParquetTable(file, PARTITIONS))


def providers_of_batches(session: SessionContext, files: Files) -> None:
    for table, file in files.items():
        rows = pq.read_table(file)
        batches = rows.to_batches(max_chunksize=-(-rows.num_rows // (2 * PARTITIONS)))
        session.register_table(table, MemoryTable(pa.Table.from_batches(batches), PARTITIONS))


@pytest.fixture(scope="module", params=[parquet, lance, providers_of_parquet, providers_of_batches])
def session(request: pytest.FixtureRequest, files: Files) -> Iterator[SessionContext]:
    register: Callable[[SessionContext, Files], None] = request.param
    with SessionContext(target_partitions=PARTITIONS) as made:
        register(made, files)
        yield made


@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_is_that_of_duckdb_and_of_plain_datafusion(
    name: str, session: SessionContext, plain: datafusion.SessionContext, expected: dict[str, pa.Table]
) -> None:
    """T9: over files, Lance tables and providers, which can be scanned any number of times."""
    answer = session.sql(QUERIES[name]).execute_stream().read_all()
    require_right(name, answer, plain, expected)


@pytest.mark.parametrize("name", [name for name in QUERIES if name not in SCANS_ALL_TWICE])
def test_the_answer_over_push_tables_is_that_of_duckdb_and_of_plain_datafusion(
    name: str, files: Files, plain: datafusion.SessionContext, expected: dict[str, pa.Table]
) -> None:
    """T9, P1: a table that the query scans once is pushed while it runs; the others are pulled."""
    scanned = scans(plain.sql(QUERIES[name]).optimized_logical_plan().display_indent())
    assert 1 in scanned.values(), "no table of this query can be pushed"
    with SessionContext() as session, contextlib.ExitStack() as producers:
        for table, times in scanned.items():
            rows = pq.read_table(files[table])
            if times == 1:
                sink = session.register_streaming_table(table, rows.schema)
                producers.enter_context(writing(sink, rows))
            else:
                session.register_table(table, MemoryTable(rows, PARTITIONS))
        answer = session.sql(QUERIES[name]).execute_stream().read_all()
    require_right(name, answer, plain, expected)


@contextlib.contextmanager
def writing(sink: TableSink, rows: pa.Table) -> Iterator[None]:
    """Write the rows on a thread; the query may end before it reads all of them."""

    def write() -> None:
        with contextlib.suppress(ConsumerGoneError), sink:
            for batch in rows.to_batches(max_chunksize=PUSHED_ROWS):
                sink.write(batch)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        thread.join(JOIN_SECONDS)
        assert not thread.is_alive()


def require_right(name: str, answer: pa.Table, plain: datafusion.SessionContext, expected: dict[str, pa.Table]) -> None:
    sql = QUERIES[name]
    frame = plain.sql(sql)
    assert expected[name].num_rows, "an empty answer compares nothing"
    assert difference(answer, expected[name], order_keys(sql)) is None
    assert difference(answer, pa.Table.from_batches(frame.collect(), frame.schema()), order_keys(sql)) is None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"k": [1, 2, 2], "d": ["1.00", "2.00", "3.00"]}, None),
        ({"k": [1, 2, 2], "d": ["1.00", "3.00", "2.00"]}, None),
        ({"k": [1, 2, 2], "d": ["1.01", "2.00", "3.00"]}, "d of row 0 is Decimal('1.01'), not Decimal('1.00')"),
        ({"k": [2, 1, 2], "d": ["2.00", "1.00", "3.00"]}, "k of row 0 is 2, not 1"),
        ({"k": [1, 2], "d": ["1.00", "2.00"]}, "there are 2 rows, not 3"),
        ({"k": [1, 2, 2], "e": ["1.00", "2.00", "3.00"]}, "the columns are ['k', 'e'], not ['k', 'd']"),
        ({"k": [1, 2, 2], "d": ["1.00", None, "3.00"]}, "d of row 1 is Decimal('3.00'), not Decimal('2.00')"),
    ],
)
def test_a_wrong_answer_differs(wrong: dict[str, list[object]], said: str | None) -> None:
    """The comparison itself: rows with equal keys may be in any order, all else is exact."""
    assert difference(answer_of(wrong), answer_of({"k": [1, 2, 2], "d": ["1.00", "2.00", "3.00"]}), ["k"]) == said


def test_a_quotient_need_only_be_as_exact_as_its_decimals() -> None:
    """DuckDB divides decimals as binary fractions."""
    assert difference(answer_of({"d": ["0.33"]}), pa.table({"d": [1 / 3]}), []) is None
    assert difference(answer_of({"d": ["0.35"]}), pa.table({"d": [1 / 3]}), []) is not None


def answer_of(columns: dict[str, list[object]]) -> pa.Table:
    """Return a table whose texts are decimals with two digits."""
    decimals = pa.decimal128(10, 2)
    return pa.table(
        {
            name: pa.array(values).cast(decimals) if pa.types.is_string(pa.array(values).type) else pa.array(values)
            for name, values in columns.items()
        }
    )
