"""The rows that the bench of sources reads: narrow ones, and vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of a row, what a scan computes of them, and the rows that a source hands to Spark at once."""

    name: str
    spark: str
    sums: tuple[str, ...]
    at_once: int

    def rows(self, first: int, count: int) -> pa.Table:
        ids = np.arange(first, first + count)
        if self == VECTORS:
            values = pa.array((np.arange(count * 128) % 1000).astype(np.float32))
            return pa.table([ids, pa.FixedSizeListArray.from_arrays(values, 128)], names=["id", "v"])
        names = pa.array([f"name-{number}" for number in range(5000)]).take(pa.array(ids % 5000))
        return pa.table([ids, ids % 1000, ids * 0.5, names], names=["id", "k", "x", "name"])


NARROW = Shape(
    "narrow rows",
    "id bigint, k bigint, x double, name string",
    ("sum(id)", "sum(k)", "sum(x)", "max(name)"),
    65_000,
)
VECTORS = Shape("vectors of 128", "id bigint, v array<float>", ("sum(id)", "sum(v[0])"), 8_000)


def shape_named(name: str) -> Shape:
    return next(shape for shape in (NARROW, VECTORS) if shape.name == name)
