"""Random tables: names, columns of every type, and rows in batches and partitions of every shape."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

import pyarrow as pa

from support.differential.kinds import may_be_null, random_struct, random_type
from support.differential.values import random_array

NAMES = ["t", "u", "T1", "my table", "a.b", "select", "ü"]
COLUMNS = ["k", "x", "a", "b", "v", "w", "B", "the c", "d.e", "g"]
# More rows than the session hands to the engine in one batch.
MANY_ROWS = 70_001


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its name, its schema, and its rows as batches in partitions."""

    name: str
    schema: pa.Schema
    partitions: tuple[tuple[pa.RecordBatch, ...], ...]

    @property
    def batches(self) -> list[pa.RecordBatch]:
        return [batch for partition in self.partitions for batch in partition]

    @property
    def rows(self) -> int:
        return sum(batch.num_rows for batch in self.batches)

    def with_rows(self, batches: list[pa.RecordBatch]) -> Table:
        """The same table with other rows, in one partition."""
        return replace(self, partitions=(tuple(batches),))

    def __str__(self) -> str:
        lines = [f"table {quoted(self.name)}, {self.rows} rows:"]
        lines += [f"    {field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in self.schema]
        for number, partition in enumerate(self.partitions):
            for batch in partition:
                shown = [str(batch.slice(i, 1).to_pylist()[0]) for i in range(min(batch.num_rows, 12))]
                more = f" and {batch.num_rows - 12} more" if batch.num_rows > 12 else ""
                lines.append(f"    partition {number}, batch of {batch.num_rows}: {', '.join(shown)}{more}")
        return "\n".join(lines)


def quoted(name: str) -> str:
    """A name as SQL takes it to the letter."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def random_tables(rng: Random, families: dict[str, int] | None = None, *, many_rows: float = 0.02) -> list[Table]:
    """One to three tables; all have a column ``id`` of unique numbers, and most a struct ``s``.

    Args:
        rng: Decides.
        families: How often a column is of which family; by default every family there is.
        many_rows: The share of seeds whose first table has more than 70,000 rows.
    """
    names = rng.sample(NAMES, rng.randint(2, 3))
    large = rng.random() < many_rows
    return [_random_table(rng, name, families, MANY_ROWS if large and not i else None) for i, name in enumerate(names)]


def _random_table(rng: Random, name: str, families: dict[str, int] | None, rows: int | None) -> Table:
    fields = [pa.field("id", pa.int64(), nullable=rng.random() < 0.5)]
    if rng.random() < 0.6:
        fields.append(pa.field("s", _nested_struct(rng)))
    # Lance holds no column with a dot in its name.
    names = COLUMNS if rng.random() < 0.2 else [column for column in COLUMNS if "." not in column]
    for column in rng.sample(names, rng.randint(1, 4)):
        kind = random_type(rng, 2, families)
        if rows and pa.types.is_run_end_encoded(kind):  # 16 bits cannot count 70,000 rows
            kind = pa.run_end_encoded(pa.int32(), kind.value_type)
        fields.append(pa.field(column, kind, nullable=pa.types.is_null(kind) or rng.random() < 0.8))
    if rng.random() < 0.3:
        rng.shuffle(fields)
    schema = pa.schema(fields)
    partitions = []
    first = 0
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        batches = []
        for _ in range(rng.choice([0, 1, 1, 2, 3])):
            size = rows if rows and not batches and not partitions else rng.choice([0, 0, 1, 2, 3, 5, 9])
            batches.append(_random_batch(rng, schema, size, first))
            first += size
        partitions.append(tuple(batches))
    if not any(partitions):
        partitions[0] = (_random_batch(rng, schema, 0, 0),)
    return Table(name, schema, tuple(partitions))


def _nested_struct(rng: Random) -> pa.DataType:
    """A struct with a struct inside, most often with fields that are named as columns are."""
    if rng.random() < 0.2:
        return random_struct(rng, 1)
    inner = pa.struct([pa.field("b", rng.choice([pa.int64(), pa.string(), pa.int32()])), pa.field("x", pa.int64())])
    nested = pa.list_(inner, 2) if rng.random() < 0.15 else inner
    return pa.struct([pa.field("a", nested), pa.field("id", pa.int64())])


def _random_batch(rng: Random, schema: pa.Schema, rows: int, first: int) -> pa.RecordBatch:
    # A large batch repeats a few rows: making every value separately would take seconds.
    unique = min(rows, 500)
    before = rng.choice([0, 0, 0, 1, 3]) if rows else 0
    after = rng.choice([0, 0, 2]) if rows else 0
    total = before + unique + after
    columns = []
    for field in schema:
        if field.name == "id" and field.type == pa.int64():
            columns.append(pa.array(range(first - before, first + rows + after), pa.int64()))
            continue
        nulls = rng.choice([0.0, 0.2, 0.5, 1.0]) if field.nullable and may_be_null(field.type) else 0.0
        if unique == rows or pa.types.is_run_end_encoded(field.type):
            columns.append(random_array(rng, field.type, rows + before + after, nulls))
        else:
            columns.append(_repeated(random_array(rng, field.type, total, nulls), rows + before + after))
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    return batch.slice(before, rows)


def _repeated(array: pa.Array, rows: int) -> pa.Array:
    copies = -(-rows // len(array))
    return pa.concat_arrays([array] * copies).slice(0, rows)
