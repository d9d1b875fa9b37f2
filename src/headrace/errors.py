"""Every error that headrace raises; the class says what the caller does next.

HeadraceError
├── InvalidArgumentError      (ValueError)   an argument is wrong: correct it
│   ├── ConfigurationError                   ... a session setting or a table option
│   ├── SchemaMismatchError                  ... a batch or reader that does not have the table's schema
│   └── TableExistsError                     ... the name of a table that exists
├── PlanError                                the query cannot be planned: correct the SQL or register the table
├── ExecutionError                           the query failed during execution
│   ├── TableError                           ... in a provider or producer: see __cause__
│   ├── StorageError                         ... in reading or writing a file or object: check it, then retry
│   │   ├── AccessDeniedError                ... the store refuses the credentials: renew or extend them
│   │   └── StorageFullError                 ... no space is left: free some
│   ├── ResourcesExhaustedError              ... out of memory or worker threads: raise the limit named in it
│   └── EngineError                          ... in the engine: report it
├── LandingError                             rows were not committed; the table is unchanged
│   ├── TableNotFoundError                   ... the table does not exist: create it
│   ├── CommitConflictError                  ... a concurrent commit conflicts: restart, which is safe
│   ├── CommitUnknownError                   ... or were; the response was lost: restart, which finds out
│   ├── FencedError                          ... another run of the query took over: stop this one
│   ├── CheckpointResetError                 ... the checkpoint is new: choose a new id, or accept it
│   ├── TableReplacedError                   ... the table was replaced: restore it, or accept that
│   └── HistoryGapError                      ... needed versions were removed: decide, then restart
├── ReadingError                             a stream cannot continue at its position in a table's history
│   ├── ChangeCommitError                    ... a version changed existing rows: skip it, or start over
│   └── DataLossError                        ... unread versions were removed: accept that, or start over
├── StateError                               the object is in a state that does not allow the call
│   ├── ClosedError                          ... it was closed
│   ├── ConsumedError                        ... it is a frame or push table that was already read
│   └── ForkedError                          ... it was made before a fork: use the "spawn" start method
├── ConsumerGoneError                        no query reads the table any more: stop producing
├── CancelledError                           the stream was cancelled: stop reading
├── WriteTimeoutError         (TimeoutError) the channel stayed full: retry the write
└── MissingExtraError         (ImportError)  an optional dependency is not installed: install the extra
"""

from __future__ import annotations

import pickle
from typing import Any

__all__ = [
    "AccessDeniedError",
    "CancelledError",
    "ChangeCommitError",
    "CheckpointResetError",
    "ClosedError",
    "CommitConflictError",
    "CommitUnknownError",
    "ConfigurationError",
    "ConsumedError",
    "ConsumerGoneError",
    "DataLossError",
    "EngineError",
    "ExecutionError",
    "FencedError",
    "ForkedError",
    "HeadraceError",
    "HistoryGapError",
    "InvalidArgumentError",
    "LandingError",
    "MissingExtraError",
    "PlanError",
    "ReadingError",
    "ResourcesExhaustedError",
    "SchemaMismatchError",
    "StateError",
    "StorageError",
    "StorageFullError",
    "TableError",
    "TableExistsError",
    "TableNotFoundError",
    "TableReplacedError",
    "WriteTimeoutError",
]


class HeadraceError(Exception):
    """Root of all errors of this package.

    Args:
        message: What went wrong, and where.
        hint: What to do about it; appended to the message after ``Hint:``.

    Attributes:
        hint: The hint, or None.

    Example:
        >>> try:
        ...     ctx.table("orders")
        ... except headrace.HeadraceError as error:
        ...     print(type(error).__name__)
        PlanError
    """

    def __init__(self, message: str = "", *, hint: str | None = None) -> None:
        super().__init__(f"{message} Hint: {hint}" if hint else message)
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickle drops an exception's cause. Keep it if the cause itself can be pickled.
        state = {**self.__dict__, "__cause__": self.__cause__ if _pickles(self.__cause__) else None}
        return (_rebuild, (type(self), self.args), state)

    def __setstate__(self, state: dict[str, Any] | None) -> None:
        state = dict(state or {})
        self.__cause__ = state.pop("__cause__", None)
        self.__dict__.update(state)


class InvalidArgumentError(HeadraceError, ValueError):
    """An argument is wrong; the call changed nothing."""


class ConfigurationError(InvalidArgumentError):
    """A session setting or a table option is unknown or has an invalid value."""


class SchemaMismatchError(InvalidArgumentError):
    """A batch or a reader does not have the table's fields."""


class TableExistsError(InvalidArgumentError):
    """A table with this name is registered already; it is unchanged."""


class PlanError(HeadraceError):
    """The query cannot be planned: invalid SQL, an unknown table or column, or a type mismatch."""


class ExecutionError(HeadraceError):
    """The query failed during execution."""


class TableError(ExecutionError):
    """A provider raised, or a producer failed its sink.

    Attributes:
        table: The table's name. ``__cause__`` is the original exception object.
    """

    def __init__(self, message: str = "", *, table: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.table = table


class StorageError(ExecutionError):
    """A file or an object in an object store could not be read or written."""


class AccessDeniedError(StorageError):
    """The store refused access: the credentials are wrong, have expired, or lack a right."""


class StorageFullError(StorageError):
    """There is no space left on a disk, or a quota is used up."""


class ResourcesExhaustedError(ExecutionError):
    """A limit on memory, disk or worker threads was reached; the message names the setting."""


class EngineError(ExecutionError):
    """The engine failed with an internal error; the caller's input does not explain it."""


class LandingError(HeadraceError):
    """An epoch or a batch write was not committed; none of its rows are visible in the table."""


class TableNotFoundError(LandingError):
    """No Lance table exists at the URI."""


class CommitConflictError(LandingError):
    """A concurrent commit conflicts with this one; this one did not land.

    Attributes:
        retryable: Whether the same rows can be committed on top of the concurrent commit.
    """

    def __init__(self, message: str = "", *, retryable: bool = False, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retryable = retryable


class CommitUnknownError(LandingError):
    """A commit was sent, and it is unknown whether it landed; its data files must not be deleted."""


class FencedError(LandingError):
    """Another run of the same query has taken over; this run can commit nothing more."""


class CheckpointResetError(LandingError):
    """The query's epochs come from a different checkpoint than the epochs that landed under its id."""


class TableReplacedError(LandingError):
    """The table was overwritten, restored, or dropped and recreated, and may lack rows that the query landed."""


class HistoryGapError(LandingError):
    """Versions that show whether the epoch landed were removed from the table's history."""


class ReadingError(HeadraceError):
    """A streaming reader cannot continue at its position in a table's history."""


class ChangeCommitError(ReadingError):
    """A version updated or deleted rows; a stream of appended rows cannot express that."""


class DataLossError(ReadingError):
    """Versions that the stream has not read yet were removed."""


class StateError(HeadraceError):
    """The object is in a state that does not allow the call."""


class ClosedError(StateError):
    """The caller's side closed the object."""


class ConsumedError(StateError):
    """A frame was already executed, or a push table was already scanned; each can be read once."""


class ForkedError(StateError):
    """The object was made before a fork and is used in the child process, where its threads do not exist."""


class ConsumerGoneError(HeadraceError):
    """The reading side has gone away; no query would read the batch."""


class CancelledError(HeadraceError):
    """The stream was cancelled; the batches read so far are not the complete result."""


class WriteTimeoutError(HeadraceError, TimeoutError):
    """The channel stayed full for the whole timeout.

    Attributes:
        batches_written: How many batches of the same call were queued before the timeout.
    """

    def __init__(self, message: str = "", *, batches_written: int = 0, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.batches_written = batches_written


class MissingExtraError(HeadraceError, ImportError):
    """A feature needs a package that is not installed."""


def _rebuild(cls: type[HeadraceError], args: tuple[Any, ...]) -> HeadraceError:
    error = cls.__new__(cls, *args)
    error.args = args
    return error


def _pickles(value: object) -> bool:
    try:
        pickle.loads(pickle.dumps(value))
    except Exception:  # noqa: BLE001 - a foreign __reduce__ may raise anything
        return False
    return True
