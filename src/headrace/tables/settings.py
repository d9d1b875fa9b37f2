"""Everything a sink or reader can be told, as values that pickle and print no secret; loads neither Lance nor Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from headrace.tables.location import Location

DEFAULT_LOOKBACK = 100


@dataclass(frozen=True, slots=True)
class Rules:
    """What a query's owner has decided.

    Attributes:
        query_id: The query's key.
        lookback: Versions of other writers that one commit in the steady state reads at most.
        on_history_gap: Whether history that is missing where it matters is worth a warning or an error.
        accepts_reset: Whether a new checkpoint may go on under the same key.
        accepts_replaced: Whether to continue in a table that no longer has what the query landed in it.
    """

    query_id: str
    lookback: int = DEFAULT_LOOKBACK
    on_history_gap: Literal["warn", "fail"] = "warn"
    accepts_reset: bool = False
    accepts_replaced: bool = False


@dataclass(frozen=True, slots=True)
class FileSettings:
    """How data files are cut; None leaves it to Lance.

    Attributes:
        max_rows: Rows after which a new file is begun.
        max_bytes: Bytes after which a new file is begun, roughly.
        storage_version: Lance's file format version; for appends, the table's own holds.
    """

    max_rows: int | None = None
    max_bytes: int | None = None
    storage_version: str | None = None

    def arguments(self) -> dict[str, Any]:
        """As Lance's writer wants them."""
        named = {
            "max_rows_per_file": self.max_rows,
            "max_bytes_per_file": self.max_bytes,
            "data_storage_version": self.storage_version,
        }
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True)
class CompactionRules:
    """When compaction is due, and what it does.

    Attributes:
        every_epochs: Compact after every so many epochs; None for not by epochs.
        above_fragments: Compact when more fragments than this are small; None for not by fragments.
        retain_versions: After compacting, keep this many versions; None to keep all.
    """

    every_epochs: int | None = None
    above_fragments: int | None = None
    retain_versions: int | None = None

    def is_due(self, epoch: int) -> bool:
        """Whether the epoch's number makes it due."""
        return self.every_epochs is not None and (epoch + 1) % self.every_epochs == 0

    def is_too_many(self, fragments: int) -> bool:
        """Whether the number of fragments makes it due."""
        return self.above_fragments is not None and fragments > self.above_fragments


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """Everything a sink was told; it pickles, and prints no secret.

    Attributes:
        location: The table.
        rules: What decides about replays; without a query id for a batch write.
        files: How data files are cut.
        creates_table: Whether to make a table that is not there.
        merges_schema: Whether to add columns the table does not have.
        replaces_schema: Whether a batch overwrite brings its own schema.
        compaction: When to compact.
    """

    location: Location
    rules: Rules
    files: FileSettings = field(default_factory=FileSettings)
    creates_table: bool = False
    merges_schema: bool = False
    replaces_schema: bool = False
    compaction: CompactionRules = field(default_factory=CompactionRules)


@dataclass(frozen=True, slots=True)
class Limit:
    """How much one step may take; None for no limit.

    Attributes:
        files: Fragments, or parts of them.
        rows: Rows.
        bytes: Bytes of data files; a fragment is taken whole, and one in any case.
    """

    files: int | None = None
    rows: int | None = None
    bytes: int | None = None


NO_LIMIT = Limit()


@dataclass(frozen=True, slots=True)
class FeedRules:
    """What the owner of a reading query has decided.

    Attributes:
        start: Where a new query begins: at ``earliest``, with the rows that are there; at ``latest``, with the next
            ones; or with the rows of a version, or of the first version made at a time or later.
        skips_changes: Whether a version that changes rows is passed over.
        fails_on_loss: Whether versions that are gone stop the query.
        with_updates: Whether changed rows come too, in their new state.
        limit: How much one step takes.
    """

    start: Literal["earliest", "latest"] | int | datetime = "earliest"
    skips_changes: bool = False
    fails_on_loss: bool = True
    with_updates: bool = False
    limit: Limit = NO_LIMIT


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """Everything a reader was told; it pickles, and prints no secret.

    Attributes:
        location: The table.
        columns: The columns to read; empty for all.
        filter: A condition in Lance's SQL; empty for none.
        version: The version or tag to read; None for the newest.
        timestamp: Read the newest version made until then.
        pushes_filters: Whether Spark hands its own filters over.
        feed: What decides about streams.
    """

    location: Location
    columns: tuple[str, ...] = ()
    filter: str = ""
    version: int | str | None = None
    timestamp: datetime | None = None
    pushes_filters: bool = False
    feed: FeedRules = field(default_factory=FeedRules)
