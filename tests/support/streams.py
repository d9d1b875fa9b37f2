"""Streams whose every epoch is known, the replay of an epoch, and what a table contains afterwards."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import lance
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

ARROW_SCHEMA = pa.schema([("id", pa.int64())])
SPARK_SCHEMA = "id BIGINT"

DRAIN_SECONDS = 100

# Spark takes files by their times, and two written in the same millisecond in any order: each gets its own second.
_FIRST_TIME = 1_700_000_000


class Stamp(NamedTuple):
    """One version of a table: the class of its operation, and what its writer attached to it."""

    version: int
    operation: str
    properties: dict[str, str]


class StreamInput:
    """A folder that Spark reads as a stream: each file in it is an epoch, and epochs count from 0."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.epochs: list[list[int]] = []
        folder.mkdir(parents=True)

    def add(self, *ids: int) -> int:
        """Writes the file of the next epoch, and returns its number."""
        epoch = len(self.epochs)
        written = self.folder / f"_{epoch:05}"
        pq.write_table(pa.table({"id": ids}, schema=ARROW_SCHEMA), written)
        os.utime(written, (_FIRST_TIME + epoch, _FIRST_TIME + epoch))
        # Spark does not look at names with an underscore, so it sees the file whole or not at all.
        written.rename(self.folder / f"{epoch:05}.parquet")
        self.epochs.append(list(ids))
        return epoch

    def ids(self) -> list[int]:
        """Every id of every epoch, sorted: what a table holds that each epoch reached once."""
        return sorted(itertools.chain.from_iterable(self.epochs))

    def stream(self, spark: SparkSession) -> DataFrame:
        """A streaming frame over the folder, one file an epoch."""
        return spark.readStream.schema(SPARK_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(self.folder))


def drain(writer: DataStreamWriter, checkpoint: Path, **options: Any) -> StreamingQuery:
    """Runs every epoch that is due, and returns the ended query, or raises what failed it."""
    query = writer.option("checkpointLocation", str(checkpoint)).options(**options).trigger(availableNow=True).start()
    try:
        if not query.awaitTermination(DRAIN_SECONDS):
            raise TimeoutError(f"the query did not end in {DRAIN_SECONDS} s: {query.status}")
    finally:
        query.stop()
    return query


def committed(checkpoint: Path) -> list[int]:
    """The epochs that Spark has noted as done."""
    return sorted(_entries(checkpoint / "commits").values())


def replay(checkpoint: Path, epoch: int | None = None) -> int:
    """Makes the next query of a checkpoint run an epoch again, the newest unless named, and all after it.

    This is what is left when Spark dies between the sink's commit and its own note of it. For an epoch before the
    newest the later plans go too: Spark would otherwise run the newest planned epoch only.
    """
    done = committed(checkpoint)
    first = done[-1] if epoch is None else epoch
    if first not in done:
        raise ValueError(f"epoch {first} is not among the done ones, {done}")
    _forget(checkpoint / "commits", first)
    _forget(checkpoint / "offsets", first + 1)
    for source in (checkpoint / "sources").glob("*"):
        _forget(source, first + 1)
    return first


def rows(uri: str, storage_options: dict[str, str] | None = None) -> list[int]:
    """Every id in a table, sorted."""
    table = lance.dataset(uri, storage_options=storage_options).to_table(columns=["id"])
    return sorted(table["id"].to_pylist())


def stamps(uri: str, storage_options: dict[str, str] | None = None) -> list[Stamp]:
    """Every version of a table, oldest first."""
    table = lance.dataset(uri, storage_options=storage_options)
    found = []
    for version in sorted(each["version"] for each in table.versions()):
        transaction = table.read_transaction(version)
        assert transaction is not None, f"version {version} was written without a transaction"
        properties = dict(transaction.transaction_properties or {})
        found.append(Stamp(version, type(transaction.operation).__name__, properties))
    return found


def _entries(folder: Path) -> dict[Path, int]:
    """The entries of a log of Spark's; each tenth of a source's holds the ones before it too, and says so."""
    names = {path: path.name.removesuffix(".compact") for path in folder.iterdir()}
    return {path: int(name) for path, name in names.items() if name.isdigit()}


def _forget(folder: Path, first: int) -> None:
    """Removes the entries from a number on, each with its checksum."""
    for path, number in _entries(folder).items():
        if number >= first:
            path.unlink()
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
