"""Arrow streams between Spark, Lance and DataFusion: pushed, pulled, streamed out, and landed exactly once."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace._version import __version__
from headrace.errors import (
    AccessDeniedError,
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
    StorageFullError,
    TableError,
    TableExistsError,
    TableNotFoundError,
    TableReplacedError,
    WriteTimeoutError,
)

if TYPE_CHECKING:
    from headrace.channel.statistics import SinkStatistics
    from headrace.engine.runner import SessionStatistics
    from headrace.engine.tables import ScanRequest
    from headrace.session.context import SessionContext
    from headrace.session.dataframe import DataFrame
    from headrace.session.provider import SimpleTableProvider, TableProvider
    from headrace.session.reader import RecordBatchReader
    from headrace.session.sink import TableSink
    from headrace.tables.commit.landed import Landed

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
    "DataFrame",
    "DataLossError",
    "EngineError",
    "ExecutionError",
    "FencedError",
    "ForkedError",
    "HeadraceError",
    "HistoryGapError",
    "InvalidArgumentError",
    "Landed",
    "LandingError",
    "MissingExtraError",
    "PlanError",
    "ReadingError",
    "RecordBatchReader",
    "ResourcesExhaustedError",
    "ScanRequest",
    "SchemaMismatchError",
    "SessionContext",
    "SessionStatistics",
    "SimpleTableProvider",
    "SinkStatistics",
    "StateError",
    "StorageError",
    "StorageFullError",
    "TableError",
    "TableExistsError",
    "TableNotFoundError",
    "TableProvider",
    "TableReplacedError",
    "TableSink",
    "WriteTimeoutError",
    "__version__",
]

# These modules import pyarrow, which is too slow for `headrace --help`: __getattr__ imports them on first use.
_HOMES = {
    "DataFrame": "session.dataframe",
    "Landed": "tables.commit.landed",
    "RecordBatchReader": "session.reader",
    "ScanRequest": "engine.tables",
    "SessionContext": "session.context",
    "SessionStatistics": "engine.runner",
    "SimpleTableProvider": "session.provider",
    "SinkStatistics": "channel.statistics",
    "TableProvider": "session.provider",
    "TableSink": "session.sink",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, getattr(import_module(f"{__name__}.{_HOMES[name]}"), name))


def __dir__() -> list[str]:
    return sorted(globals() | _HOMES)
