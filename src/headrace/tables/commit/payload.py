"""What an epoch brings: rows to append, a result that replaces the table's, rows to merge by key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from headrace.errors import LandingError, SchemaMismatchError
from headrace.tables.commit.message import TaskMessage, one_per_partition
from headrace.tables.store import Append, Column, Merge, Operation, Replace, Snapshot, Store


class Payload(Protocol):
    """What an epoch brings, and how it becomes one change of the table."""

    @property
    def mode(self) -> str:
        """The mode's name, for the history."""

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to commit."""

    @property
    def is_fenced(self) -> bool:
        """Whether a fence must come before it, or else it would land beside a rival's; a replacement needs none."""

    @property
    def may_rebase(self) -> bool:
        """Whether it can be committed on an older version than the newest."""

    @property
    def rows(self) -> int:
        """Rows the epoch brings."""

    @property
    def files(self) -> tuple[str, ...] | None:
        """Data files that become part of the table; None where only the merge will tell."""

    def operation(self, snapshot: Snapshot, store: Store) -> Operation:
        """The change to be published on top of ``snapshot``, after checking that it can be.

        Raises:
            LandingError, SchemaMismatchError: It cannot.
        """

    def require_fit(self, snapshot: Snapshot) -> None:
        """Check, after it has landed on top of other changes, that those left the columns as they were.

        Raises:
            SchemaMismatchError: They did not.
        """


@dataclass(frozen=True)
class _Written:
    """Data files that tasks have written."""

    messages: Sequence[TaskMessage]

    @property
    def rows(self) -> int:
        return sum(message.rows for message in self.messages)

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(file for message in self.messages for file in message.files)

    @property
    def fragments(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(fragment for message in self.messages for fragment in message.fragments)

    def _require(self, store: Store, columns: Mapping[int, Column]) -> None:
        """Everything Lance does not check: one message per partition, files that exist, columns that fit."""
        one_per_partition(self.messages)
        for message in self.messages:
            require_columns_fit(message.columns or {}, columns, has_rows=bool(message.rows))
        missing = store.missing_files(self.files)
        if missing:
            raise LandingError(
                f"{len(missing)} of {len(self.files)} data files of the epoch are gone, such as {missing[0]}; "
                f"nothing was committed.",
                hint="something removed files no version knew yet: never run cleanup with delete_unverified=True "
                "beside a stream. Restart the query, which writes them again.",
            )


class AppendPayload(_Written):
    """Rows to append."""

    mode = "append"
    is_fenced = True
    may_rebase = True

    @property
    def is_nothing(self) -> bool:
        """Whether no task wrote a row."""
        return not self.fragments

    def operation(self, snapshot: Snapshot, store: Store) -> Append:
        """An append of the rows."""
        self._require(store, snapshot.columns())
        return Append(self.fragments)

    def require_fit(self, snapshot: Snapshot) -> None:
        """Check that the columns are still what they were."""
        for message in self.messages:
            require_columns_fit(message.columns or {}, snapshot.columns(), has_rows=bool(message.rows))


@dataclass(frozen=True)
class OverwritePayload(_Written):
    """A whole result, which replaces the table's rows even if it is empty.

    Attributes:
        schema: A schema that replaces the table's; None keeps it.
    """

    schema: pa.Schema | None = None

    mode = "complete"
    is_nothing = False
    is_fenced = False
    may_rebase = False

    def operation(self, snapshot: Snapshot, store: Store) -> Replace:
        """A replacement of the table's rows."""
        schema = self.schema or snapshot.schema
        self._require(store, snapshot.columns_of_new(schema))
        return Replace(schema, self.fragments)

    def require_fit(self, snapshot: Snapshot) -> None:
        """Nothing can have come between."""


@dataclass(frozen=True)
class UpsertPayload:
    """Rows to merge by key; the merge is worked out against the version it is committed on.

    Attributes:
        rows: Rows the epoch brings.
        merge: Works out the merge against a snapshot.
    """

    rows: int
    merge: Callable[[Snapshot], Merge]

    mode = "upsert"
    is_fenced = True
    may_rebase = False
    files = None

    @property
    def is_nothing(self) -> bool:
        """Whether there is no row."""
        return not self.rows

    def operation(self, snapshot: Snapshot, store: Store) -> Merge:
        """The merge."""
        return self.merge(snapshot)

    def require_fit(self, snapshot: Snapshot) -> None:
        """Lance does not merge on top of a change of columns."""


def require_columns_fit(written: Mapping[int, Column], table: Mapping[int, Column], *, has_rows: bool) -> None:
    """Check that files with the columns ``written`` can become part of a table with the columns ``table``.

    Raises:
        SchemaMismatchError: Naming the column that was changed since.
    """
    if not has_rows:
        return
    hint = "the table's schema was changed while the epoch was written; restart the query, which writes it again."
    for number, column in written.items():
        now = table.get(number)
        if now is None:
            raise SchemaMismatchError(f"Column {column.name!r} was dropped from the table.", hint=hint)
        if now.type != column.type or (column.is_nullable and not now.is_nullable):
            raise SchemaMismatchError(
                f"Column {column.name!r} was written as {column.type} and is {now.type} "
                f"{'' if now.is_nullable else 'not null '}in the table now.",
                hint=hint,
            )
    for number, column in table.items():
        if number not in written and not column.is_nullable:
            raise SchemaMismatchError(
                f"Column {column.name!r}, which may not be null, was added to the table.", hint=hint
            )
