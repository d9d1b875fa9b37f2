"""The public names: to add or remove one is a decision, and this list is where it shows."""

import headrace
from headrace import errors

NAMES = [
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


def test_the_public_names_are_exactly_these() -> None:
    """Every error is among them: a caller cannot catch what cannot be named."""
    assert sorted(headrace.__all__) == NAMES
    assert set(errors.__all__) <= set(NAMES)
    assert all(hasattr(headrace, name) for name in NAMES)
