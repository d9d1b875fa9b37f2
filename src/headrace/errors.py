"""Every error headrace raises; the class tells the caller what to do next.

HeadraceError
├── InvalidArgumentError      (ValueError)   the call is wrong: correct the argument
│   ├── ConfigurationError                   ... a setting of the session, an option of a table
│   ├── SchemaMismatchError                  ... a batch or reader that is not of the table's schema
│   └── TableExistsError                     ... a name that is taken
├── PlanError                                the query cannot be planned: correct the SQL, register the table
├── ExecutionError                           the query failed while it ran
│   ├── TableError                           ... in a table's own code: look at __cause__
│   ├── StorageError                         ... reading or writing a file or object: check it, then run again
│   ├── ResourcesExhaustedError              ... for lack of memory or workers: raise the limit that is named
│   └── EngineError                          ... inside the engine: report it
├── LandingError                             rows were not landed; the table is as it was
│   ├── TableNotFoundError                   ... there is no table: create it
│   ├── CommitConflictError                  ... another writer's change is in the way: restart, which is safe
│   ├── CommitUnknownError                   ... or were: the answer was lost: restart, which finds out
│   ├── FencedError                          ... another run of the query took over: leave it to that one
│   ├── CheckpointResetError                 ... the checkpoint is a new one: choose a new id, or accept it
│   ├── TableReplacedError                   ... the table was replaced since: put it back, or accept that
│   └── HistoryGapError                      ... history that matters was removed: decide, then restart
├── ReadingError                             a table's history cannot be read on from here
│   ├── ChangeCommitError                    ... rows that were read are changed: skip the change, or start anew
│   └── DataLossError                        ... versions went before they were read: accept that, or start anew
├── StateError                               the right call at the wrong moment
│   ├── ClosedError                          ... on something that this side has closed
│   ├── ConsumedError                        ... on a frame or push table that can be read once and was
│   └── ForkedError                          ... in a forked child: use the "spawn" start method
├── ConsumerGoneError                        nobody will read what is written: stop producing
├── CancelledError                           somebody cancelled the stream: stop reading
├── WriteTimeoutError         (TimeoutError) the channel stayed full: write again later
└── MissingExtraError         (ImportError)  an optional dependency is not installed: install the extra
"""

from __future__ import annotations

import pickle
from typing import Any

__all__ = [
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
    """

    def __init__(self, message: str = "", *, hint: str | None = None) -> None:
        super().__init__(f"{message} Hint: {hint}" if hint else message)
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions lose their cause when pickled; ours keep it wherever the cause itself pickles.
        state = {**self.__dict__, "__cause__": self.__cause__ if _pickles(self.__cause__) else None}
        return (_rebuild, (type(self), self.args), state)

    def __setstate__(self, state: dict[str, Any] | None) -> None:
        state = dict(state or {})
        self.__cause__ = state.pop("__cause__", None)
        self.__dict__.update(state)


class InvalidArgumentError(HeadraceError, ValueError):
    """An argument is refused before anything is changed."""


class ConfigurationError(InvalidArgumentError):
    """A setting of the session, or an option of a table, is unknown or has a value it cannot have."""


class SchemaMismatchError(InvalidArgumentError):
    """A batch, or a reader, does not have the fields of the table it is meant for."""


class TableExistsError(InvalidArgumentError):
    """The name is taken; the table that has it is unharmed."""


class PlanError(HeadraceError):
    """The query cannot be planned: bad SQL, an unknown table or column, a type that does not fit."""


class ExecutionError(HeadraceError):
    """The query failed while it ran."""


class TableError(ExecutionError):
    """A table's own code failed: a provider raised, or a producer failed its sink.

    ``table`` is the table's name and ``__cause__`` the original exception object.
    """

    def __init__(self, message: str = "", *, table: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.table = table


class StorageError(ExecutionError):
    """A file or an object could not be read or written."""


class ResourcesExhaustedError(ExecutionError):
    """A limit on memory, disk or worker threads was reached; the message names the setting."""


class EngineError(ExecutionError):
    """The engine itself broke; nothing the caller did explains it."""


class LandingError(HeadraceError):
    """An epoch, or a batch write, was not landed; nothing of it is visible in the table."""


class TableNotFoundError(LandingError):
    """There is no Lance table at the address."""


class CommitConflictError(LandingError):
    """A concurrent change to the table makes the commit impossible; it definitely did not land.

    ``retryable`` says whether the same rows can be committed on top of that change.
    """

    def __init__(self, message: str = "", *, retryable: bool = False, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retryable = retryable


class CommitUnknownError(LandingError):
    """A commit was sent and nobody can say whether it landed; its files must be left alone."""


class FencedError(LandingError):
    """Another run of the same query has taken over; nothing this run does can land any more."""


class CheckpointResetError(LandingError):
    """The query's epochs come from another checkpoint than those that have landed under its id."""


class TableReplacedError(LandingError):
    """The table was overwritten, restored, or dropped and recreated, and may not have what the query landed in it."""


class HistoryGapError(LandingError):
    """Versions that could tell whether the epoch has landed were removed from the table's history."""


class ReadingError(HeadraceError):
    """A streaming reader cannot go on from where it is in a table's history."""


class ChangeCommitError(ReadingError):
    """A version changed or removed rows, which a stream of appended rows cannot tell."""


class DataLossError(ReadingError):
    """Versions that were not read yet are gone."""


class StateError(HeadraceError):
    """The object is not in a state that allows the call."""


class ClosedError(StateError):
    """The object was closed, on this side of it."""


class ConsumedError(StateError):
    """A frame was executed before, or a push table was scanned before; each can be read once."""


class ForkedError(StateError):
    """The object was made before a fork and is used in the child, where its threads do not exist."""


class ConsumerGoneError(HeadraceError):
    """The reading side has left: whatever is written now would be read by nobody."""


class CancelledError(HeadraceError):
    """The stream was cancelled; it is not whole."""


class WriteTimeoutError(HeadraceError, TimeoutError):
    """The channel stayed full for the whole timeout.

    ``batches_written`` counts the batches of the same call that were accepted before.
    """

    def __init__(self, message: str = "", *, batches_written: int = 0, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.batches_written = batches_written


class MissingExtraError(HeadraceError, ImportError):
    """A part of headrace needs a package that is not installed."""


def _rebuild(cls: type[HeadraceError], args: tuple[Any, ...]) -> HeadraceError:
    error = cls.__new__(cls, *args)
    error.args = args
    return error


def _pickles(value: object) -> bool:
    try:
        pickle.loads(pickle.dumps(value))
    except Exception:  # noqa: BLE001 - anything at all may come out of a foreign __reduce__
        return False
    return True
