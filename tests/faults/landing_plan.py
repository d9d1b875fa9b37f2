"""Shared by the tests of landing faults and the programs that they kill: the rows sent, and the arguments."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])
QUERY = "orders"
# Ids from here on are other writers' rows.
FOREIGN = 10**9

Rows = tuple[tuple[int, int], ...]


def ids_of(epoch: int) -> list[int]:
    """Return the ids that the source emits in an epoch; an id determines its epoch."""
    return [epoch * 1000 + number for number in (0, 1, 2, 100 + epoch)]


def state_after(mode: str, epochs: int) -> Rows:
    """Return the table's rows after ``epochs`` epochs have landed, sorted.

    Append: each id and its epoch. Complete: each epoch and how many ids it has. Upsert: three keys that every epoch
    updates and one that it adds, with the epoch that wrote them last.
    """
    done = range(epochs)
    if mode == "append":
        return tuple((number, epoch) for epoch in done for number in ids_of(epoch))
    if mode == "complete":
        return tuple((epoch, len(ids_of(epoch))) for epoch in done)
    assert mode == "upsert"
    updated = [(key, epochs - 1) for key in (0, 1, 2)] if epochs else []
    return (*updated, *((100 + epoch, epoch) for epoch in done))


@dataclass(frozen=True, slots=True)
class Stream:
    """A Spark query, as the arguments of the program that runs it.

    Attributes:
        uri: The table.
        source: The folder of its input, or the Lance table that is.
        checkpoint: Its checkpoint.
        way: ``format`` for ``format("lance")``, ``sink`` for ``LanceSink``.
        mode: The sink's mode.
        master: Spark's master.
        conf: Further settings of Spark.
        fault: What goes wrong in a task, by name.
        marks: A folder in which the fault leaves its marks.
        hold_at: A point at which it says so and waits for a line on its input, once, as ``before-commit:3``.
        reads: The format of its input: ``parquet``, one file an epoch, or ``lance``.
        rows: Of ``lance``, how many an epoch.
        storage_options: Of the table.
        on_table_replaced: What the sink does about a table that was replaced; ``way`` must be ``sink``.
    """

    uri: str
    source: str
    checkpoint: str
    way: str = "format"
    mode: str = "append"
    master: str = "local[2]"
    conf: dict[str, str] = field(default_factory=dict)
    fault: str = ""
    marks: str = ""
    hold_at: str = ""
    reads: str = "parquet"
    rows: int = 3
    storage_options: dict[str, str] = field(default_factory=dict)
    on_table_replaced: str = "fail"


@dataclass(frozen=True, slots=True)
class Epochs:
    """Epochs landed by the commit protocol alone, as the arguments of the program that lands them.

    Attributes:
        uri: The table.
        run: Id of the run.
        first: The first epoch.
        end: The epoch it stops before.
        mode: ``append`` or ``complete``.
        storage_options: Of the table.
        checkpoint: Id of the checkpoint.
        hold_at: A point at which it says so and waits for a line on its input, once, as ``before-commit:3``.
        rejoins: Whether it continues as a new run after it was fenced, as under a supervisor.
        has_fence: False breaks the protocol: no fence is set.
        waits: Whether it waits for a line on its input before it begins.
    """

    uri: str
    run: str
    first: int = 0
    end: int = 1
    mode: str = "append"
    storage_options: dict[str, str] = field(default_factory=dict)
    checkpoint: str = "checkpoint"
    hold_at: str = ""
    rejoins: bool = False
    has_fence: bool = True
    waits: bool = False
