"""How many rows the batches of a result have."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace import SessionContext

ROWS = 100_000
NUMBERS = pa.table({"id": pa.array(range(ROWS)), "x": pa.array([0.5] * ROWS)})
VECTORS = pa.table({"id": pa.array(range(ROWS)), "v": pa.FixedSizeListArray.from_arrays(pa.array([0.5] * 9 * ROWS), 9)})
WORDS = pa.table({"id": pa.array(range(ROWS)), "word": pa.array(["a word"] * ROWS)})


def largest(query: str, **settings: Any) -> int:
    with SessionContext(target_partitions=1, **settings) as ctx:
        ctx.register_arrow("numbers", NUMBERS)
        ctx.register_arrow("vectors", VECTORS)
        ctx.register_arrow("words", WORDS)
        return max(batch.num_rows for batch in ctx.sql(query).execute_stream())


@pytest.mark.parametrize(
    "query",
    [
        "select id + 1 as next, x from numbers where id >= 0",
        "select id + 1 as next from words where id >= 0",
        "select value * 2 as twice from generate_series(1, 100000) where value > 0",
        "select a.id from numbers a join words b on a.id = b.id",
    ],
)
def test_batches_of_narrow_rows_of_numbers_have_up_to_32k_rows(query: str) -> None:
    """S4: only the columns that are read count."""
    assert 8192 < largest(query) <= 32 * 1024


@pytest.mark.parametrize(
    "query",
    [
        "select * from vectors where id >= 0",
        "select id from vectors where v[1] > 0",
        "select * from words where id >= 0",
        "select id from words where word like 'a%'",
        "select cast(id as varchar) as id from numbers where id >= 0",
        "select a.id, b.v from numbers a join vectors b on a.id = b.id",
        "select id from numbers where id >= (select min(id) from words)",
        "with recursive steps as (select 1 as n union all select n + 1 from steps where n < 5) select n from steps",
    ],
)
def test_batches_of_rows_that_are_or_may_be_wide_have_the_engines_number_of_rows(query: str) -> None:
    """S4: also if the result is narrow and the rows that are read are not."""
    assert largest(query) <= 8192


@pytest.mark.parametrize(
    "settings",
    [{"batch_size": 100}, {"memory_limit": "100MB"}, {"config": {"datafusion.execution.batch_size": 4096}}],
)
def test_a_setting_of_the_session_wins(settings: dict[str, Any]) -> None:
    """S2: batch_size bounds the rows; with a memory limit, batches stay small."""
    assert largest("select id + 1 as next from numbers where id >= 0", **settings) <= 8192


def test_files_with_quoted_names_are_found(tmp_path: Any) -> None:
    """S1: a name with a dot or upper case is one name."""
    pq.write_table(NUMBERS, tmp_path / "numbers.parquet")
    with SessionContext(target_partitions=1) as ctx:
        ctx.register_parquet('"sales.Numbers"', tmp_path / "numbers.parquet")
        reader = ctx.sql('select id + 1 as next from "sales.Numbers" where id >= 0').execute_stream()
        assert sum(batch.num_rows for batch in reader) == ROWS
