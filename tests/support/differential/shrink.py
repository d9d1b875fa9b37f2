"""Make a disagreement small: fewer clauses, settings, tables, columns, batches and rows, while it still disagrees."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa

from support.differential.seeds import Case, Failure, check_case
from support.differential.selects import Query
from support.differential.sql import smaller
from support.differential.tables import Table
from support.differential.verdict import Disagreement
from support.differential.ways import Settings

SECONDS = 60.0


def shrink(
    failure: Failure, checked: Callable[[Case], Disagreement | None] = check_case, seconds: float = SECONDS
) -> Failure:
    """The smallest failure of the same kind that is found in the time given.

    Args:
        failure: Where to begin.
        checked: Asks whether a case still disagrees.
        seconds: How long to look.
    """
    until = time.monotonic() + seconds
    progress = True
    while progress:
        progress = False
        for case in _smaller_cases(failure.case):
            if time.monotonic() > until:
                return failure
            found = checked(case)
            if found is not None and found.kind == failure.disagreement.kind:
                failure, progress = Failure(case, found), True
                break
    return failure


def _smaller_cases(case: Case) -> Iterator[Case]:
    for tables in _fewer_rows(case.tables, coarse=True):
        yield replace(case, tables=tables)
    for query in _smaller_queries(case.query):
        yield replace(case, query=query)
    for tables in _fewer_columns(case.tables):
        yield replace(case, tables=tables)
    for tables in _fewer_rows(case.tables, coarse=False):
        yield replace(case, tables=tables)
    for settings in _simpler(case.settings):
        yield replace(case, settings=settings)


def _smaller_queries(query: Query) -> Iterator[Query]:
    if query.ordering is not None:
        yield replace(query, ordering=None)
    for body in smaller(query.body):
        yield replace(query, body=body)


def _fewer_columns(tables: tuple[Table, ...]) -> Iterator[tuple[Table, ...]]:
    for i, table in enumerate(tables):
        if len(tables) > 1:
            yield tables[:i] + tables[i + 1 :]
        for name in table.schema.names if len(table.schema) > 1 else ():
            kept = [other for other in table.schema.names if other != name]
            partitions = tuple(tuple(batch.select(kept) for batch in part) for part in table.partitions)
            schema = pa.schema([table.schema.field(other) for other in kept])
            yield (*tables[:i], Table(table.name, schema, partitions), *tables[i + 1 :])


def _fewer_rows(tables: tuple[Table, ...], *, coarse: bool) -> Iterator[tuple[Table, ...]]:
    for i, table in enumerate(tables):
        for partitions in _fewer_batches(table) if coarse else _shorter_batches(table):
            yield (*tables[:i], replace(table, partitions=partitions), *tables[i + 1 :])


Partitions = tuple[tuple[pa.RecordBatch, ...], ...]


def _fewer_batches(table: Table) -> Iterator[Partitions]:
    nothing = pa.RecordBatch.from_pylist([], schema=table.schema)
    if len(table.partitions) > 1:
        yield (tuple(table.batches),)
    if table.rows:
        yield ((nothing,),)
    for i, partition in enumerate(table.partitions):
        for j in range(len(partition)):
            rest = partition[:j] + partition[j + 1 :]
            if rest or len(table.partitions) > 1:
                yield (*table.partitions[:i], rest, *table.partitions[i + 1 :])


def _shorter_batches(table: Table) -> Iterator[Partitions]:
    for i, partition in enumerate(table.partitions):
        for j, batch in enumerate(partition):
            for start, rows in _cuts(batch.num_rows):
                shorter = (*partition[:j], batch.slice(start, rows), *partition[j + 1 :])
                yield (*table.partitions[:i], shorter, *table.partitions[i + 1 :])


def _cuts(rows: int) -> Iterator[tuple[int, int]]:
    if rows > 1:
        half = rows // 2
        yield 0, half
        yield half, rows - half
        yield 0, rows - 1
        yield 1, rows - 1


def _simpler(settings: Settings) -> Iterator[Settings]:
    plain = Settings()
    for name in ("pause", "memory_limit", "batch_size", "ordered", "target_partitions"):
        if getattr(settings, name) != getattr(plain, name):
            yield replace(settings, **{name: getattr(plain, name)})
