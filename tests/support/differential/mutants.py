"""The session with one part taken out at a time that makes an answer right: what the comparison must notice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from headrace.arrow import fill
from headrace.engine import execution, hints, names, planner, pump, scan
from headrace.session import context, sources
from support.differential.report import described
from support.differential.seeds import Slant, run_seed
from support.differential.shrink import shrink

_planned, _field_paths, _without_nulls, _slices = (
    planner._planned,
    hints._field_paths,
    fill._without_nulls,
    scan._slices,
)


def _unanalysed(context: Any, logical: Any, bridged: tuple[str, ...]) -> Any:
    """The schema of the plan before types are coerced."""
    query = _planned(context, logical, bridged)
    return replace(query, schema=query.frame.schema())


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Results are cast to the schema they should have."""
    columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _innermost(projections: list[Any]) -> Any:
    """A field of a field is taken for the column of that name."""
    paths = _field_paths(projections)
    return paths and [(name, path[-1:]) for name, path in paths]


def _no_run_ends(array: pa.Array) -> pa.Array:
    """Nothing stands in for run ends."""
    if pa.types.is_run_end_encoded(array.type):
        raise ValueError("Type's expected number of children (2) did not match the passed number (1)")
    return _without_nulls(array)


def _with_empty(batch: pa.RecordBatch, max_rows: int, *, copy: bool) -> Any:
    """Batches without rows are handed on."""
    return _slices(batch, max_rows, copy=copy) if batch.num_rows else (batch,)


def _lowered(name: str) -> names.TableName:
    """Names have no capitals, quoted or not."""
    return names.TableName((name.lower().strip('"'),))


def _as_it_is(value: Any) -> Any:
    return value


def _never(*_: object) -> bool:
    return False


def _nothing(*_: object, **__: object) -> None:
    pass


# What is taken out, and what is put in its place: an object, the name of a part of it, and the other part.
_MUTANTS: dict[str, list[tuple[Any, str, Any]]] = {
    "types as the analysed plan has them": [(planner, "_planned", _unanalysed), (pump, "relabelled", _cast)],
    # Only where the optimizer takes fields out of structs early do their paths reach the scan.
    "hints that know fields of fields": [(hints, "_field_paths", _innermost), (planner, "_OVER_BRIDGES", {})],
    "copies of slices that the engine cannot import": [(scan, "has_fragile_columns", _never)],
    "copies of slices in Arrow data": [(sources, "importable", _as_it_is)],
    "planning over structs without rules that lose them": [(planner, "_OVER_BRIDGES", {})],
    "NOT IN without dynamic filters": [(planner, "has_anti_join", _never)],
    "null-safe joins without dynamic filters": [(planner, "joins_count_nulls", _never)],
    "constant filters that stay in the plan": [(planner, "has_clashing_filters", _never)],
    "no batch without rows": [(scan, "_slices", _with_empty)],
    "run ends that stand in for others": [(fill, "_without_nulls", _no_run_ends)],
    "a look for push tables in a recursive query": [(execution.Execution, "claim_again", _nothing)],
    "names to the letter": [(context, "parse_table_name", _lowered)],
}
MUTANTS = tuple(_MUTANTS)

_PULLED = ("pull", "hinted")
# The mixtures in which a part is needed often.
SLANTS: dict[str, Slant] = {
    "types as the analysed plan has them": Slant(themes={"union": 1, "mixed": 1}, ways=("arrow",)),
    "hints that know fields of fields": Slant(themes={"select": 1}, families={"struct": 1, "int": 1}, ways=("hinted",)),
    "copies of slices that the engine cannot import": Slant(themes={"select": 1}, families={"struct": 1}, ways=_PULLED),
    "copies of slices in Arrow data": Slant(themes={"select": 1}, families={"struct": 1}, ways=("arrow",)),
    "planning over structs without rules that lose them": Slant(themes={"join": 1, "subquery": 1}, ways=_PULLED),
    "NOT IN without dynamic filters": Slant(themes={"subquery": 1}, families={"int": 1, "text": 1}, ways=("parquet",)),
    "null-safe joins without dynamic filters": Slant(
        themes={"join": 1, "union": 1}, families={"int": 1, "text": 1}, ways=("parquet",)
    ),
    "constant filters that stay in the plan": Slant(themes={"join": 1}, families={"int": 1}, ways=_PULLED),
    "no batch without rows": Slant(
        themes={"functions": 1},
        families={"dictionary": 1},
        ways=("push",),
        settings={"pause": 0.02, "batch_size": None},
    ),
    "run ends that stand in for others": Slant(
        themes={"select": 1}, families={"run_end": 1, "int": 1}, ways=("hinted",)
    ),
    "a look for push tables in a recursive query": Slant(themes={"recursive": 1}, families={"int": 1}, ways=("push",)),
    "names to the letter": Slant(themes={"select": 1}, families={"int": 1}, ways=_PULLED),
}


@contextmanager
def without(part: str) -> Iterator[None]:
    """Takes a part of the session out for a while."""
    with ExitStack() as stack:
        for owner, name, other in _MUTANTS[part]:
            stack.enter_context(patch.object(owner, name, other))
        yield


def first_wrong(part: str, seeds: range) -> int | None:
    """The first seed of a part's mixture under which it is missed."""
    with without(part):
        return next((seed for seed in seeds if run_seed(seed, SLANTS[part]).failures), None)


def wrong_ones(part: str, seeds: range) -> list[int]:
    """The seeds of a part's mixture that are wrong with nothing taken out."""
    return [seed for seed in seeds if run_seed(seed, SLANTS[part]).failures]


def shrunk(part: str, seeds: range) -> str:
    """What is printed of the first seed under which a part is missed."""
    with without(part):
        seed = next(seed for seed in seeds if run_seed(seed, SLANTS[part]).failures)
        return described(seed, shrink(run_seed(seed, SLANTS[part]).failures[0], seconds=20))
