"""The ways in which the same rows reach a session, and what the session answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet

from headrace import ConsumerGoneError, ScanRequest, SessionContext, SimpleTableProvider, TableProvider
from support.differential.plain import Answer
from support.differential.tables import Table, quoted


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a session."""

    target_partitions: int = 1
    batch_size: int | None = None
    ordered: bool = True
    memory_limit: str | None = None
    # How long a producer waits before each batch, so that batches come alone.
    pause: float = 0.0

    def open(self) -> SessionContext:
        return SessionContext(
            target_partitions=self.target_partitions,
            batch_size=self.batch_size,
            ordered=self.ordered,
            memory_limit=self.memory_limit,
        )


class Honouring(TableProvider):
    """A provider that leaves out all that a request lets it leave out."""

    def __init__(self, table: Table) -> None:
        self._table = table
        # pyarrow cannot filter rows of some types, whichever column decides.
        self._filters = not any("view" in str(kind) or "run_end" in str(kind) for kind in table.schema.types)

    def schema(self) -> pa.Schema:
        return self._table.schema

    def partition_count(self) -> int:
        return len(self._table.partitions)

    def scan(self) -> Any:
        raise AssertionError("scan_with is called instead")

    def scan_with(self, request: ScanRequest) -> Any:
        batches = self._table.partitions[request.partition]
        rows = pa.Table.from_batches(batches, self._table.schema)
        if request.filter is not None and self._filters:
            rows = rows.filter(request.filter)
        rows = rows.select(list(request.columns))
        return rows if request.limit is None else rows.slice(0, request.limit)


class Exporting:
    """An object that exports the rows as an Arrow stream each time it is asked."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._rows.to_reader().__arrow_c_stream__(requested_schema)


def _pull(session: SessionContext, table: Table, folder: Path) -> None:
    session.register_table(quoted(table.name), SimpleTableProvider(table.schema, lambda: iter(table.batches)))


def _hinted(session: SessionContext, table: Table, folder: Path) -> None:
    session.register_table(quoted(table.name), Honouring(table))


def _arrow(session: SessionContext, table: Table, folder: Path) -> None:
    session.register_arrow(quoted(table.name), pa.Table.from_batches(table.batches, table.schema))


def _stream(session: SessionContext, table: Table, folder: Path) -> None:
    session.register_arrow(quoted(table.name), Exporting(pa.Table.from_batches(table.batches, table.schema)))


def _dataset(session: SessionContext, table: Table, folder: Path) -> None:
    rows = pa.Table.from_batches(table.batches, table.schema)
    session.register_arrow(quoted(table.name), pyarrow.dataset.dataset(rows))


def _parquet(session: SessionContext, table: Table, folder: Path) -> None:
    session.register_parquet(quoted(table.name), folder / f"{table.name}.parquet")


def _lance(session: SessionContext, table: Table, folder: Path) -> None:
    session.register_lance(quoted(table.name), folder / f"{table.name}.lance")


_REGISTER: dict[str, Callable[[SessionContext, Table, Path], None]] = {
    "pull": _pull,
    "hinted": _hinted,
    "arrow": _arrow,
    "stream": _stream,
    "dataset": _dataset,
    "parquet": _parquet,
    "lance": _lance,
}
# One way after the other, table by table: the engine knows how many rows some have, and not of others.
_MIXED = ("pull", "arrow", "hinted")
WAYS = ("pull", "hinted", "push", "arrow", "stream", "dataset", "mixed", "parquet", "lance")
FORMATS = ("parquet", "lance")


def register(session: SessionContext, way: str, tables: Sequence[Table], folder: Path) -> BaseException | None:
    """Register tables in one way, and return what is raised; pushed tables are registered by ``push``."""
    try:
        for number, table in enumerate(tables if way != "push" else ()):
            one = _MIXED[number % len(_MIXED)] if way == "mixed" else way
            _REGISTER[one](session, table, folder)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a table that cannot be registered is a disagreement
        return error
    return None


def ask(session: SessionContext, query: str) -> Answer:
    """What a session answers to a query."""
    try:
        with session.sql(query).execute_stream() as reader:
            return Answer(reader.schema, tuple(reader))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever is not ours is a disagreement
        return Answer(None, (), error)


def push(session: SessionContext, tables: Sequence[Table], query: str, pause: float) -> Answer:
    """What a session answers while a thread for each table writes its rows."""
    sinks = [session.register_streaming_table(quoted(table.name), table.schema, 2) for table in tables]
    threads = [
        threading.Thread(target=_write, args=(sink, table.batches, pause))
        for sink, table in zip(sinks, tables, strict=True)
    ]
    for thread in threads:
        thread.start()
    try:
        return ask(session, query)
    finally:
        for table in tables:
            session.deregister_table(quoted(table.name))
        for thread in threads:
            thread.join()


def _write(sink: Any, batches: Sequence[pa.RecordBatch], pause: float) -> None:
    try:
        with sink:
            for batch in batches:
                time.sleep(pause)
                sink.write(batch)
    except ConsumerGoneError:
        pass  # The query needed no more rows, or was refused.
