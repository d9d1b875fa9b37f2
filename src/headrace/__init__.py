"""Arrow streams between Spark, Lance and DataFusion: pushed, pulled, streamed out, and landed exactly once."""

from headrace._channel import SinkStatistics
from headrace._dataframe import DataFrame
from headrace._errors import (
    CancelledError,
    ClosedError,
    ConfigurationError,
    ConsumedError,
    ConsumerGoneError,
    EngineError,
    ExecutionError,
    ForkedError,
    HeadraceError,
    InvalidArgumentError,
    MissingExtraError,
    PlanError,
    ResourcesExhaustedError,
    SchemaMismatchError,
    StateError,
    StorageError,
    TableError,
    TableExistsError,
    WriteTimeoutError,
)
from headrace._provider import ScanRequest, SimpleTableProvider, TableProvider
from headrace._reader import RecordBatchReader
from headrace._session import SessionContext
from headrace._sink import TableSink
from headrace._version import __version__

__all__ = [
    "CancelledError",
    "ClosedError",
    "ConfigurationError",
    "ConsumedError",
    "ConsumerGoneError",
    "DataFrame",
    "EngineError",
    "ExecutionError",
    "ForkedError",
    "HeadraceError",
    "InvalidArgumentError",
    "MissingExtraError",
    "PlanError",
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
    "TableProvider",
    "TableSink",
    "WriteTimeoutError",
    "__version__",
]
