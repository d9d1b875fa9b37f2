"""Why a query failed, from what Spark raises: texts as Spark 4.3 gave them, shortened."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

from headrace import (
    AccessDeniedError,
    CommitConflictError,
    ConfigurationError,
    ExecutionError,
    FencedError,
    MissingExtraError,
    PlanError,
    ReadingError,
    SchemaMismatchError,
    StorageError,
    StorageFullError,
    TableNotFoundError,
)
from headrace.pipeline.failures import drop_origin, explain

WORKER = "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
FRAME = '  File "/x/data_files.py", line 64, in write_rows\n    fragments = write()\n                ^^^^^\n'
STREAM = "[STREAM_FAILED] Query [id = a, runId = b] terminated with exception: "
REST = " SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: q [id = a, runId = b]\nCurrent State: ACTIVE\n"

MISFIT = (
    f"{WORKER}{FRAME}headrace.errors.SchemaMismatchError: Column 'v' is double in the rows and float in the table, and "
    "1e+300 does not fit. Hint: change or drop such rows.\n"
)
CHAINED = (
    f"{STREAM}[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform "
    "latestOffset: Traceback (most recent call last):\n"
    f"{FRAME}KeyError: 'version'\n\nThe above exception was the direct cause of the following exception:\n\n"
    f"Traceback (most recent call last):\n{FRAME}headrace.errors.ReadingError: The checkpoint has no offset of a Lance "
    f"source. Hint: use another checkpoint.{REST}"
)
LOST = (
    "Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: Lost task 0.3 in stage "
    "3.0 (TID 9) (10.0.0.7 executor 2): ExecutorLostFailure (executor 2 exited caused by one of the running tasks) "
    "Reason: Command exited with code 137\nDriver stacktrace:\n\tat org.apache.spark.scheduler.DAGScheduler"
)


@pytest.mark.parametrize(
    ("text", "kind", "word", "message", "hint"),
    [
        (MISFIT, SchemaMismatchError, "schema", "Column 'v' is double in the rows", "change or drop such rows."),
        (CHAINED, ReadingError, "source", "The checkpoint has no offset of a Lance source.", "use another checkpoint."),
        (
            f"{WORKER}{FRAME}headrace.errors.StorageFullError: Writing failed. Hint: free space.\n\tat java.lang.X",
            StorageFullError,
            "disk",
            "Writing failed.",
            "free space.",
        ),
        (
            f"{WORKER}{FRAME}headrace.errors.OfAnotherVersionError: Something. Hint: do it.",
            Exception,
            "query",
            "Something.",
            "do it.",
        ),
        (
            f"{WORKER}{FRAME}ModuleNotFoundError: No module named 'headrace'\n",
            MissingExtraError,
            "environment",
            "The Python of the executors lacks a module: No module named 'headrace'.",
            "install headrace[spark] there",
        ),
        (
            f"{WORKER}{FRAME}pkg.odd.OddError: first line\n  second line\n",
            ExecutionError,
            "query",
            "A Python worker of Spark failed: OddError: first line second line",
            None,
        ),
        (f"{WORKER}{FRAME}KeyboardInterrupt\n", ExecutionError, "query", "KeyboardInterrupt: no message", None),
        (
            f"{STREAM}java.io.IOException: No space left on device{REST}",
            StorageFullError,
            "disk",
            "A disk that Spark writes to is full: the checkpoint /cp",
            "free space",
        ),
        (
            f"{STREAM}No usable value for logOffset\nDid not find value which can be converted into long{REST}",
            ConfigurationError,
            "configuration",
            "The checkpoint /cp was written by a query with another source",
            "give the pipeline a checkpoint folder",
        ),
        (LOST, ExecutionError, "executor", "ExecutorLostFailure", "look for a process"),
        (
            f"{STREAM}org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment.{REST}",
            ExecutionError,
            "broker",
            "Timed out waiting for a node assignment",
            "check that it runs",
        ),
        ("Answer from Java side is empty", ExecutionError, "driver", "Spark's JVM in this process has ended.", "look"),
        (
            "[USER_RAISED_EXCEPTION] no such luck SQLSTATE: P0001",
            ExecutionError,
            "query",
            "The query failed: [USER_RAISED_EXCEPTION] no such luck",
            None,
        ),
        (
            f"{STREAM}Job aborted.{REST}\nCaused by: java.lang.A: outer\n\tat x\nCaused by: java.lang.B: inner\n\tat y",
            ExecutionError,
            "query",
            "The query failed: java.lang.B: inner",
            None,
        ),
        (
            "An error occurred while calling o83.collectToPython.\n: org.apache.spark.SparkException: "
            "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/0.json.  SQLSTATE: KD001\n"
            "Caused by: org.apache.spark.SparkException: [MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed\n"
            "Caused by: com.fasterxml.jackson.core.io.JsonEOFException: Unexpected end-of-input\n",
            ExecutionError,
            "source",
            "The file file:///in/0.json cannot be read: com.fasterxml.jackson.core.io.JsonEOFException: Unexpected end",
            'repair the file; or set mode = "PERMISSIVE"',
        ),
        ("", ExecutionError, "query", "The query failed: no message", None),
    ],
)
def test_the_innermost_cause_is_the_error(
    text: str, kind: type[Exception], word: str, message: str, hint: str | None
) -> None:
    """C28: of our own class, with its hint, without Spark's wrapping."""
    found = explain(Exception(text), "/cp")
    assert isinstance(found.error, kind)
    assert found.kind == word
    assert message in str(found.error)
    assert not [
        mark for mark in ("SQLSTATE", "Streaming Query", "\n", "\tat ", "Traceback") if mark in str(found.error)
    ]
    assert (found.error.hint or "").startswith(hint or "")
    assert (found.error.hint is None) == (hint is None)


def test_a_query_that_cannot_be_planned_says_so() -> None:
    """C15, C28"""

    class AnalysisException(Exception):  # noqa: N818 - Spark's name
        pass

    found = explain(AnalysisException("[TABLE_OR_VIEW_NOT_FOUND] x\nmore"))
    assert isinstance(found.error, PlanError)
    assert not found.may_pass


@pytest.mark.parametrize(
    ("error", "may_pass"),
    [
        (StorageError("503"), True),
        (StorageFullError("full"), True),
        (AccessDeniedError("403"), True),
        (CommitConflictError("overtaken"), True),
        (FencedError("a newer run"), False),
        (SchemaMismatchError("no such column"), False),
        (TableNotFoundError("nothing there"), False),
        (ConfigurationError("wrong"), False),
        (ReadingError("cleaned up"), False),
    ],
)
def test_only_what_may_pass_is_tried_again(error: Exception, may_pass: bool) -> None:
    """C29: an outage may; a fence, a schema and a setting stay as they are."""
    found = explain(error)
    assert found.error is error
    assert found.may_pass == may_pass


def test_what_led_to_a_failure_can_be_dropped_with_all_that_its_frames_refer_to() -> None:
    """C29: a run that starts again and again keeps nothing of the epochs that failed."""

    class Opened:
        """What a frame of a failed epoch refers to."""

    gone = threading.Event()

    def fail() -> None:
        opened = Opened()
        weakref.finalize(opened, gone.set)
        try:
            raise OSError("503")
        except OSError as error:
            try:
                raise ValueError("while it was handled") from None
            except ValueError:
                raise StorageError("the store is busy") from error

    with pytest.raises(StorageError) as raised:
        fail()
    kept = raised.value
    del raised
    gc.collect()
    assert not gone.is_set()
    drop_origin(kept)
    gc.collect()
    assert gone.is_set()
