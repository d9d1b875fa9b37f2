"""The sizes of batches, measured and computed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.arrow.sizes import BatchSizes, batch_size_in_bytes

FIXED = {
    "int64": pa.array(range(1000)),
    "float32": pa.array([0.5] * 1000, pa.float32()),
    "boolean": pa.array([True, False] * 500),
    "decimal": pa.array([None] * 1000, pa.decimal128(10, 2)),
    "timestamp": pa.array(range(1000), pa.timestamp("us", "UTC")),
    "vector": pa.FixedSizeListArray.from_arrays(pa.array([0.5] * 4000, pa.float32()), 4),
    "struct": pa.array([{"a": 1, "b": 0.5}] * 1000),
    "fixed-size binary": pa.array([b"1234"] * 1000, pa.binary(4)),
}
VARIABLE = {
    "text": pa.array(["a", "bc"] * 500),
    "list": pa.array([[1], []] * 500),
    "dictionary": pa.array(["a", "b"] * 500).dictionary_encode(),
    "struct with text": pa.array([{"a": "x"}] * 1000),
    "null": pa.nulls(1000),
}


def table_of(array: pa.Array) -> pa.RecordBatch:
    return pa.record_batch({"c": array, "n": pa.array(range(len(array)))})


@pytest.mark.parametrize("array", FIXED.values(), ids=FIXED)
def test_rows_of_fixed_width_have_the_size_of_their_values(array: pa.Array) -> None:
    """P14: what is computed from the number of rows is what the buffers hold."""
    batch = table_of(array)
    sizes = BatchSizes(batch.schema)
    assert sizes.row_bytes is not None
    nulls = sum(column.null_count > 0 for column in batch.columns) * 125
    assert round(batch.num_rows * sizes.row_bytes) + nulls == pytest.approx(batch.nbytes, abs=2)


@pytest.mark.parametrize("array", [*FIXED.values(), *VARIABLE.values()], ids=[*FIXED, *VARIABLE])
def test_the_size_of_a_batch_is_about_its_bytes_and_a_slice_counts_only_its_rows(array: pa.Array) -> None:
    """P14: for every type."""
    batch = table_of(array)
    sizes = BatchSizes(batch.schema)
    assert batch.nbytes * 0.98 <= sizes.of(batch) <= batch.nbytes * 1.2
    if array.type in [each.type for each in FIXED.values()]:
        part = batch.slice(10, 100)
        assert part.nbytes * 0.95 <= sizes.of(part) <= part.nbytes * 1.3


@pytest.mark.parametrize("array", VARIABLE.values(), ids=VARIABLE)
def test_rows_of_variable_width_are_measured(array: pa.Array) -> None:
    """P14: their number says nothing about their bytes."""
    batch = table_of(array)
    assert BatchSizes(batch.schema).row_bytes is None or pa.types.is_null(array.type)
    assert BatchSizes().of(batch) == batch_size_in_bytes(batch)
