"""A result that fails returns the batches before the failure, then raises one typed error with its cause."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace import (
    ClosedError,
    ConfigurationError,
    ExecutionError,
    HeadraceError,
    PlanError,
    RecordBatchReader,
    ResourcesExhaustedError,
    SessionContext,
    SimpleTableProvider,
    StorageError,
    TableError,
)
from support.lance_tables import create_table

SCHEMA = pa.schema([("k", pa.int64())])
ROWS = 1_000
BOOM = ValueError("the source went away")


def batch_of(number: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(number * ROWS, (number + 1) * ROWS))], schema=SCHEMA)


def failing(after: int) -> SimpleTableProvider:
    def scan() -> Iterator[pa.RecordBatch]:
        yield from map(batch_of, range(after))
        raise BOOM

    return SimpleTableProvider(SCHEMA, scan)


def read_until_it_ends(reader: RecordBatchReader) -> tuple[list[int], BaseException | None]:
    """Return the keys that were read, and the error after them, or None for a clean end."""
    keys: list[int] = []
    try:
        for batch in reader:
            keys += batch.column(0).to_pylist()
    except HeadraceError as error:
        return keys, error
    return keys, None


# -- in the middle -----------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [1, 2, 8])
@pytest.mark.parametrize("after", [0, 1, 3, 30])
def test_the_batches_before_the_error_of_a_pull_table_come_first(after: int, partitions: int) -> None:
    """S9: every one of them, in order, then the error with the original as its cause."""
    with SessionContext(target_partitions=partitions) as ctx:
        ctx.register_table("t", failing(after))
        keys, error = read_until_it_ends(ctx.sql("select k from t").execute_stream())
        assert keys == list(range(after * ROWS))
        assert isinstance(error, TableError)
        assert str(error) == "Table 't' failed: ValueError: the source went away"
        assert error.__cause__ is BOOM


@pytest.mark.parametrize("after", [0, 1, 3, 30])
def test_the_batches_before_the_failure_of_a_push_table_come_first(after: int) -> None:
    """S9: the reader gets the batches written before fail(), then an error with its exception as cause."""
    with SessionContext() as ctx:
        sink = ctx.register_streaming_table("t", SCHEMA)
        for number in range(after):
            sink.write(batch_of(number))
        sink.fail(BOOM)
        keys, error = read_until_it_ends(ctx.sql("select k from t").execute_stream())
        assert keys == list(range(after * ROWS))
        assert isinstance(error, TableError)
        assert error.__cause__ is BOOM


@pytest.mark.parametrize("after", [1, 3])
def test_a_filter_returns_the_rows_before_the_error(after: int) -> None:
    """S9, S15: the operators of a row-wise query buffer no rows, so none are lost."""
    with SessionContext() as ctx:
        ctx.register_table("t", failing(after))
        keys, error = read_until_it_ends(ctx.sql("select k from t where k % 2 = 0").execute_stream())
        assert keys == list(range(0, after * ROWS, 2))
        assert isinstance(error, TableError)


def test_the_batches_before_an_error_of_the_engine_come_first() -> None:
    """S9: the row that divides by zero is in the fourth batch, and three batches are returned."""
    with SessionContext(batch_size=ROWS, target_partitions=1) as ctx:
        ctx.register_table("t", SimpleTableProvider(SCHEMA, lambda: map(batch_of, range(10))))
        keys, error = read_until_it_ends(ctx.sql("select k + 0 / (k - 3500) as k from t").execute_stream())
        assert keys == list(range(3 * ROWS))
        assert type(error) is ExecutionError
        assert "Divide by zero" in str(error)


@pytest.mark.parametrize("partitions", [1, 2, 8])
@pytest.mark.parametrize(
    "query",
    [
        "select k from t where k % 2 = 0",
        "select count(*) as k from t",
        "select k from t order by k",
        "select distinct k from t",
        "select a.k from t a join t b on a.k = b.k",
        "select k from t union all select k from t",
    ],
)
def test_no_query_over_a_failing_table_ends_cleanly(query: str, partitions: int) -> None:
    """S9: an aggregate of half a table is not a result."""
    with SessionContext(target_partitions=partitions) as ctx:
        ctx.register_table("t", failing(20))
        _, error = read_until_it_ends(ctx.sql(query).execute_stream())
        assert isinstance(error, TableError)
        assert error.__cause__ is BOOM


@pytest.mark.parametrize("execute", ["collect", "count", "show"])
def test_calls_that_need_the_whole_result_raise_and_return_no_part_of_it(execute: str) -> None:
    """S9: there is no complete result to return."""
    with SessionContext() as ctx:
        ctx.register_table("t", failing(5))
        with pytest.raises(TableError, match="the source went away"):
            getattr(ctx.sql("select count(*) as n from t"), execute)()


def test_the_error_is_raised_once_and_a_later_read_is_refused() -> None:
    """S9: never a silent end, not even for a read after the error."""
    with SessionContext() as ctx:
        ctx.register_table("t", failing(1))
        reader = ctx.sql("select k from t").execute_stream()
        assert isinstance(read_until_it_ends(reader)[1], TableError)
        for read in (reader.read_next_batch, reader.read_all, lambda: list(reader), reader.__arrow_c_stream__):
            with pytest.raises(ClosedError, match=r"failed before.*the source went away"):
                read()
        reader.close()
        reader.cancel()
        with pytest.raises(ClosedError):
            reader.read_next_batch()
        assert ctx.sql("select 1").count() == 1


@pytest.mark.parametrize("first", range(3))
def test_every_partition_of_a_failing_table_raises_in_any_order_of_reading(first: int) -> None:
    """S9, S13: no partition of an incomplete result ends cleanly."""
    with SessionContext(target_partitions=3) as ctx:
        ctx.register_table("t", failing(50))
        readers = ctx.sql("select k from t where k >= 0").execute_stream_partitioned()
        errors = [read_until_it_ends(reader)[1] for reader in (*readers[first:], *readers[:first])]
        assert [type(error) for error in errors] == [TableError] * 3
        assert [error.__cause__ for error in errors if error is not None] == [BOOM] * 3


# -- typed -------------------------------------------------------------------------------------------


def aggregate_in_100_kb(ctx_of: Callable[..., SessionContext], folder: Path) -> None:
    ctx = ctx_of(memory_limit="100KB", spill=False)
    ctx.sql("select k, count(*) from t group by k").collect()


def sort_in_100_kb(ctx_of: Callable[..., SessionContext], folder: Path) -> None:
    ctx_of(memory_limit="100KB", spill=False).sql("select k + 1 as k from t order by k").collect()


def cast_that_fails(ctx_of: Callable[..., SessionContext], folder: Path) -> None:
    ctx_of().sql("select cast('x' || k as int) from t").collect()


def division_by_zero(ctx_of: Callable[..., SessionContext], folder: Path) -> None:
    ctx_of().sql("select 1 / (k - 5) from t").collect()


def subquery_with_two_rows(ctx_of: Callable[..., SessionContext], folder: Path) -> None:
    ctx_of().sql("select (select k from t) from t").collect()


def corrupt_parquet(ctx_of: Callable[..., SessionContext], folder: Path) -> None:
    path = write_parquet(folder)
    ctx = ctx_of()
    ctx.register_parquet("p", path)
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(content[:middle] + b"\xff" * 5_000 + content[middle + 5_000 :])
    ctx.sql("select * from p").collect()


def file_without_parquet_in_it(ctx_of: Callable[..., SessionContext], folder: Path) -> None:
    (folder / "junk.parquet").write_bytes(b"junk" * 10)
    ctx_of().register_parquet("p", folder / "junk.parquet")


def file_deleted_before_it_is_opened(ctx_of: Callable[..., SessionContext], folder: Path) -> None:
    path = write_parquet(folder)
    ctx = ctx_of()
    ctx.register_parquet("p", path)
    reader = ctx.sql("select * from p").execute_stream()
    path.unlink()
    reader.read_all()


def file_deleted_before_the_query(ctx_of: Callable[..., SessionContext], folder: Path) -> None:
    path = write_parquet(folder)
    ctx = ctx_of()
    ctx.register_parquet("p", path)
    path.unlink()
    ctx.sql("select * from p").collect()


def lance_files_deleted(ctx_of: Callable[..., SessionContext], folder: Path) -> None:
    create_table(folder / "t.lance", pa.Table.from_batches([batch_of(0)]))
    ctx = ctx_of()
    ctx.register_lance("l", folder / "t.lance")
    shutil.rmtree(folder / "t.lance" / "data")
    ctx.sql("select * from l").collect()


def spill_folder_deleted(ctx_of: Callable[..., SessionContext], folder: Path) -> None:
    (folder / "spill").mkdir()
    settings = {"datafusion.execution.sort_spill_reservation_bytes": 1_000}
    ctx = ctx_of(memory_limit="300KB", spill=folder / "spill", config=settings, target_partitions=1)
    shutil.rmtree(folder / "spill")
    ctx.sql("select -k as k from t order by k").collect()


def write_parquet(folder: Path) -> Path:
    pq.write_table(pa.table({"k": list(range(50_000))}), folder / "p.parquet", row_group_size=1_000)
    return folder / "p.parquet"


@pytest.mark.parametrize(
    ("provoke", "kind"),
    [
        (aggregate_in_100_kb, ResourcesExhaustedError),
        (sort_in_100_kb, ResourcesExhaustedError),
        (cast_that_fails, ExecutionError),
        (division_by_zero, ExecutionError),
        (subquery_with_two_rows, ExecutionError),
        (corrupt_parquet, StorageError),
        (file_without_parquet_in_it, StorageError),
        (file_deleted_before_it_is_opened, StorageError),
        (file_deleted_before_the_query, StorageError),
        (lance_files_deleted, StorageError),
        (spill_folder_deleted, StorageError),
    ],
)
def test_the_class_of_an_error_names_its_kind_and_its_cause_is_the_original(
    provoke: Callable[[Callable[..., SessionContext], Path], None], kind: type[HeadraceError], tmp_path: Path
) -> None:
    """S10: exactly that class, so that a caller can distinguish the kinds."""
    sessions = ExitStack()

    def session(**settings: object) -> SessionContext:
        ctx = sessions.enter_context(SessionContext(**settings))
        ctx.register_table("t", SimpleTableProvider(SCHEMA, lambda: map(batch_of, range(100))))
        return ctx

    with sessions, pytest.raises(HeadraceError) as caught:
        provoke(session, tmp_path)
    assert type(caught.value) is kind
    assert caught.value.__cause__ is not None
    if kind is ResourcesExhaustedError:
        assert "memory_limit" in str(caught.value)


def test_a_plan_error_keeps_the_original_as_its_cause() -> None:
    """S10: the engine's exception, with the engine's message."""
    with SessionContext() as ctx, pytest.raises(PlanError, match="missing") as caught:
        ctx.sql("select * from missing")
    assert "missing" in str(caught.value.__cause__)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("target_partitions", {"target_partitions": 0}),
        ("batch_size", {"batch_size": True}),
        ("batch_size", {"batch_size": 1.5}),
        ("memory_limit", {"memory_limit": "lots"}),
        ("memory_limit", {"memory_limit": 0}),
        ("spill", {"spill": "/nowhere/at/all"}),
        ("spill", {"spill": ""}),
        ("low_latency", {"low_latency": "yes"}),
        ("no_such_setting", {"config": {"no_such_setting": 1}}),
        ("no_such_setting", {"config": {"datafusion.no_such_setting": 1}}),
        ("datafusion.execution.batch_size", {"config": {"datafusion.execution.batch_size": "abc"}}),
    ],
)
def test_a_wrong_setting_is_a_configuration_error_that_names_it(
    name: str, settings: dict[str, object], capfd: pytest.CaptureFixture[str]
) -> None:
    """S10: the message is for the caller, and the engine prints no panic on the terminal."""
    with pytest.raises(ConfigurationError, match=name) as caught:
        SessionContext(**settings)
    assert "unwrap" not in str(caught.value)
    assert "panicked" not in capfd.readouterr().err
