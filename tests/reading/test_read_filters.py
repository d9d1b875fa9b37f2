"""Spark's filters as Lance's conditions: the same rows, or no condition at all."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.sql import datasource as pushed

from headrace.spark.filters import conditions
from support.lance_tables import create_table

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("x", pa.float64()),
        ("in", pa.struct([("side", pa.int32())])),
        ("odd`name", pa.int64()),
    ]
)
ROWS = [
    {"id": 1, "name": "a'b", "flag": True, "day": datetime.date(2026, 1, 1), "x": 0.0, "in": {"side": 5}},
    {"id": 2, "name": "%", "flag": False, "day": datetime.date(2026, 1, 2), "x": -0.0, "in": {"side": None}},
    {"id": None, "name": None, "flag": None, "day": None, "x": None, "in": None},
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> lance.LanceDataset:
    folder: Path = tmp_path_factory.mktemp("filters")
    return create_table(folder / "t.lance", pa.Table.from_pylist(ROWS, schema=SCHEMA)).open()


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (pushed.EqualTo(("id",), 1), [1]),
        (pushed.GreaterThan(("id",), 1), [2]),
        (pushed.GreaterThanOrEqual(("id",), 1), [1, 2]),
        (pushed.LessThan(("id",), 2), [1]),
        (pushed.LessThanOrEqual(("id",), 2), [1, 2]),
        (pushed.In(("id",), (1, 7)), [1]),
        (pushed.IsNull(("id",)), [None]),
        (pushed.IsNotNull(("id",)), [1, 2]),
        (pushed.Not(pushed.EqualTo(("id",), 1)), [2]),
        (pushed.Not(pushed.IsNull(("id",))), [1, 2]),
        (pushed.EqualTo(("name",), "a'b"), [1]),
        (pushed.StringStartsWith(("name",), "a"), [1]),
        (pushed.StringEndsWith(("name",), "'b"), [1]),
        (pushed.StringContains(("name",), "%"), [2]),
        (pushed.EqualTo(("flag",), True), [1]),
        (pushed.LessThan(("day",), datetime.date(2026, 1, 2)), [1]),
        (pushed.EqualTo(("in", "side"), 5), [1]),
    ],
)
def test_a_condition_keeps_the_rows_the_filter_keeps(
    table: lance.LanceDataset, condition: Any, expected: list[int | None]
) -> None:
    """R7: nulls, quotes and signs that mean something in patterns too."""
    [text] = conditions(condition, SCHEMA)
    assert table.to_table(columns=["id"], filter=text)["id"].to_pylist() == expected


@pytest.mark.parametrize(
    "condition",
    [
        pushed.EqualTo(("x",), 0.0),
        pushed.EqualTo(("id",), Decimal(1)),
        pushed.EqualTo(("id",), True),
        pushed.EqualNullSafe(("id",), 1),
        pushed.EqualTo(("nothing",), 1),
        pushed.EqualTo(("odd`name",), 1),
        pushed.EqualTo(("day",), datetime.datetime(2026, 1, 1)),
        pushed.In(("id",), (1, None)),
        pushed.In(("id",), ()),
        pushed.Not(pushed.EqualTo(("x",), 1.0)),
    ],
)
def test_what_lance_might_see_otherwise_is_left_to_spark(condition: Any) -> None:
    """R7."""
    assert conditions(condition, SCHEMA) == []
