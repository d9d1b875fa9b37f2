"""The rows of an epoch: rows to append, a result that replaces the table's, or rows to merge by key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from headrace.errors import LandingError, SchemaMismatchError
from headrace.tables.commit.message import TaskMessage, one_per_partition
from headrace.tables.store import Append, Column, Merge, Operation, Replace, Snapshot, Store


class Payload(Protocol):
    """The rows of an epoch, and the one operation that commits them."""

    @property
    def mode(self) -> str:
        """The name of the mode in the history."""

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to commit."""

    @property
    def is_fenced(self) -> bool:
        """Whether the run must commit a fence first; a replacement needs none, since it conflicts with any other."""

    @property
    def may_rebase(self) -> bool:
        """Whether the commit can be based on a version older than the newest."""

    @property
    def rows(self) -> int:
        """The number of rows in the epoch."""

    @property
    def null_rows(self) -> int:
        """The number of rows that are null in every column."""

    @property
    def files(self) -> tuple[str, ...] | None:
        """The data files to commit; None for a merge, which writes its files later."""

    def operation(self, snapshot: Snapshot, store: Store) -> Operation:
        """Check the rows against ``snapshot`` and return the operation to publish.

        Raises:
            LandingError, SchemaMismatchError: The rows cannot be committed.
        """

    def require_fit(self, snapshot: Snapshot) -> None:
        """Check, after the commit, that concurrent commits have not changed the columns.

        Raises:
            SchemaMismatchError: A column was changed.
        """


@dataclass(frozen=True)
class _Written:
    """Data files written by tasks."""

    messages: Sequence[TaskMessage]

    @property
    def rows(self) -> int:
        return sum(message.rows for message in self.messages)

    @property
    def null_rows(self) -> int:
        return sum(message.null_rows for message in self.messages)

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(file for message in self.messages for file in message.files)

    @property
    def fragments(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(fragment for message in self.messages for fragment in message.fragments)

    def _require(self, store: Store, columns: Mapping[int, Column]) -> None:
        """Check what Lance does not: one message per partition, files that exist, columns that fit."""
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
        """Return an append of the rows."""
        self._require(store, snapshot.columns())
        return Append(self.fragments)

    def require_fit(self, snapshot: Snapshot) -> None:
        """Check that the columns have not changed."""
        for message in self.messages:
            require_columns_fit(message.columns or {}, snapshot.columns(), has_rows=bool(message.rows))


@dataclass(frozen=True)
class OverwritePayload(_Written):
    """A complete result, which replaces the table's rows even if it is empty.

    Attributes:
        schema: The new schema of the table; None keeps the current one.
    """

    schema: pa.Schema | None = None

    mode = "complete"
    is_nothing = False
    is_fenced = False
    may_rebase = False

    def operation(self, snapshot: Snapshot, store: Store) -> Replace:
        """Return a replacement of the table's rows."""
        schema = self.schema or snapshot.schema
        self._require(store, snapshot.columns_of_new(schema))
        return Replace(schema, self.fragments)

    def require_fit(self, snapshot: Snapshot) -> None:
        """Do nothing: a replacement conflicts with every concurrent commit."""


@dataclass(frozen=True)
class UpsertPayload:
    """Rows to merge by key; the merge is computed against the version it is based on.

    Attributes:
        rows: The number of rows in the epoch.
        merge: Computes the merge against a snapshot.
    """

    rows: int
    merge: Callable[[Snapshot], Merge]

    mode = "upsert"
    is_fenced = True
    may_rebase = False
    files = None
    # A key may not be null.
    null_rows = 0

    @property
    def is_nothing(self) -> bool:
        """Whether the epoch has no rows."""
        return not self.rows

    def operation(self, snapshot: Snapshot, store: Store) -> Merge:
        """Compute the merge."""
        return self.merge(snapshot)

    def require_fit(self, snapshot: Snapshot) -> None:
        """Do nothing: a merge conflicts with a change of columns."""


def require_columns_fit(written: Mapping[int, Column], table: Mapping[int, Column], *, has_rows: bool) -> None:
    """Check that files with the columns ``written`` can become part of a table with the columns ``table``.

    Raises:
        SchemaMismatchError: A column was changed; the error names it.
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
