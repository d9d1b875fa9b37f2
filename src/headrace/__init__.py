"""Arrow streams between Spark, Lance and DataFusion: pushed, pulled, streamed out, and landed exactly once."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace._errors import (
    CancelledError,
    ChangeCommitError,
    CheckpointResetError,
    ClosedError,
    CommitConflictError,
    CommitUnknownError,
    ConfigurationError,
    ConsumedError,
    ConsumerGoneError,
    DataLossError,
    EngineError,
    ExecutionError,
    FencedError,
    ForkedError,
    HeadraceError,
    HistoryGapError,
    InvalidArgumentError,
    LandingError,
    MissingExtraError,
    PlanError,
    ReadingError,
    ResourcesExhaustedError,
    SchemaMismatchError,
    StateError,
    StorageError,
    TableError,
    TableExistsError,
    TableNotFoundError,
    TableReplacedError,
    WriteTimeoutError,
)
from headrace._version import __version__

if TYPE_CHECKING:
    from headrace._channel import SinkStatistics
    from headrace._dataframe import DataFrame
    from headrace._provider import ScanRequest, SimpleTableProvider, TableProvider
    from headrace._reader import RecordBatchReader
    from headrace._session import SessionContext
    from headrace._sink import TableSink

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
    "DataFrame",
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
    "RecordBatchReader",
    "ResourcesExhaustedError",
    "ScanRequest",
    "SchemaMismatchError",
    "SessionContext",
    "SimpleTableProvider",
    "SinkStatistics",
    "StateError",
    "StorageError",
    "TableError",
    "TableExistsError",
    "TableNotFoundError",
    "TableProvider",
    "TableReplacedError",
    "TableSink",
    "WriteTimeoutError",
    "__version__",
]

# These load Arrow, which takes longer than a command has to show its help; so they are loaded when they are asked for.
_HOMES = {
    "DataFrame": "_dataframe",
    "RecordBatchReader": "_reader",
    "ScanRequest": "_provider",
    "SessionContext": "_session",
    "SimpleTableProvider": "_provider",
    "SinkStatistics": "_channel",
    "TableProvider": "_provider",
    "TableSink": "_sink",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, getattr(import_module(f"{__name__}.{_HOMES[name]}"), name))


def __dir__() -> list[str]:
    return sorted(globals() | _HOMES)
