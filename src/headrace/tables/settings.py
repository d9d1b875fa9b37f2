"""Settings of sinks and readers: frozen values that pickle and print no secret. Imports neither Lance nor Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from headrace.tables.location import Location
from headrace.tables.spelling import Words

DEFAULT_LOOKBACK = 100


@dataclass(frozen=True, slots=True)
class Rules:
    """The options of a streaming query that decide how its epochs are committed.

    Attributes:
        query_id: The query's key in the table's transaction log.
        lookback: In the steady state, the most versions of other writers that one commit reads.
        on_history_gap: Whether to warn or to fail when versions that the lookup needs were removed.
        accepts_reset: Whether a new checkpoint may continue under the same key.
        accepts_replaced: Whether to continue in a table that no longer contains the epochs this query landed.
        words: How hints name the settings.
    """

    query_id: str
    lookback: int = DEFAULT_LOOKBACK
    on_history_gap: Literal["warn", "fail"] = "warn"
    accepts_reset: bool = False
    accepts_replaced: bool = False
    words: Words = Words()  # noqa: RUF009 - frozen


@dataclass(frozen=True, slots=True)
class FileSettings:
    """Limits and format of data files; None uses Lance's default.

    Attributes:
        max_rows: Rows after which a new file is started.
        max_bytes: Approximate bytes after which a new file is started.
        storage_version: Lance's file format version. Appends ignore it and use the table's.
    """

    max_rows: int | None = None
    max_bytes: int | None = None
    storage_version: str | None = None

    def arguments(self) -> dict[str, Any]:
        """Return them as keyword arguments for Lance's writer."""
        named = {
            "max_rows_per_file": self.max_rows,
            "max_bytes_per_file": self.max_bytes,
            "data_storage_version": self.storage_version,
        }
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Vector:
    """The type of a column of vectors: lists of one length, a type that Spark does not have.

    Attributes:
        size: The number of elements.
        element: Arrow's name of their type.
    """

    size: int
    element: str = "float32"

    def __str__(self) -> str:
        return f"vector({self.size}, {self.element})"


@dataclass(frozen=True, slots=True)
class CompactionRules:
    """When a table is compacted, and how many versions are kept after that.

    Attributes:
        every_epochs: Compact every this many epochs; None to ignore the epoch number.
        above_fragments: Compact when there are more small fragments than this; None to ignore their number.
        retain_versions: After compacting, keep this many versions; None to keep all.
    """

    every_epochs: int | None = None
    above_fragments: int | None = None
    retain_versions: int | None = None

    def is_due(self, epoch: int) -> bool:
        """Whether compaction is due after this epoch."""
        return self.every_epochs is not None and (epoch + 1) % self.every_epochs == 0

    def is_too_many(self, fragments: int) -> bool:
        """Whether compaction is due with this many small fragments."""
        return self.above_fragments is not None and fragments > self.above_fragments


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """All settings of a sink; they pickle, and print no secret.

    Attributes:
        location: The table.
        rules: How epochs are committed; a batch write has an empty query id.
        files: Limits and format of data files.
        creates_table: Whether to create the table if it does not exist.
        merges_schema: Whether to add columns that the table does not have.
        replaces_schema: Whether a batch overwrite also replaces the table's schema.
        compaction: When to compact.
        column_types: The types of columns that the sink creates, where they are not those of the rows.
    """

    location: Location
    rules: Rules
    files: FileSettings = field(default_factory=FileSettings)
    creates_table: bool = False
    merges_schema: bool = False
    replaces_schema: bool = False
    compaction: CompactionRules = field(default_factory=CompactionRules)
    column_types: tuple[tuple[str, Vector], ...] = ()


@dataclass(frozen=True, slots=True)
class Limit:
    """How much one trigger may read; None for no limit.

    Attributes:
        files: Fragments, or parts of fragments.
        rows: Rows.
        bytes: Bytes of data files. A fragment is not cut by this limit, and at least one is read.
    """

    files: int | None = None
    rows: int | None = None
    bytes: int | None = None


NO_LIMIT = Limit()


@dataclass(frozen=True, slots=True)
class FeedRules:
    """The options of a streaming read.

    Attributes:
        start: Where a new query starts. ``earliest`` reads the rows that are in the table, then new ones; ``latest``
            reads only new ones. A number starts with that version; a time with the first version created then or
            later.
        skips_changes: Whether to skip versions that change rows instead of failing.
        fails_on_loss: Whether to fail when versions were removed before they were read.
        with_updates: Whether to read updated rows too, in their new state.
        limit: How much one trigger may read.
    """

    start: Literal["earliest", "latest"] | int | datetime = "earliest"
    skips_changes: bool = False
    fails_on_loss: bool = True
    with_updates: bool = False
    limit: Limit = NO_LIMIT


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """All settings of a reader; they pickle, and print no secret.

    Attributes:
        location: The table.
        columns: The columns to read; empty for all.
        filter: A filter in Lance's SQL; empty for none.
        version: The version or tag to read; None for the newest.
        timestamp: Read the newest version created at this time or before; None for the newest.
        pushes_filters: Whether Spark pushes its filters down to the scan.
        feed: The options of a streaming read.
    """

    location: Location
    columns: tuple[str, ...] = ()
    filter: str = ""
    version: int | str | None = None
    timestamp: datetime | None = None
    pushes_filters: bool = False
    feed: FeedRules = field(default_factory=FeedRules)
