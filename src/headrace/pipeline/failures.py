"""Why a query failed: the innermost error of ours or of Python, or what Spark's JVM said, as an error with a hint.

Spark passes an exception of a task on as text: the traceback of the Python worker, in the message of a JVM exception.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from headrace import errors
from headrace.errors import (
    AccessDeniedError,
    CommitConflictError,
    CommitUnknownError,
    ConfigurationError,
    ExecutionError,
    FencedError,
    HeadraceError,
    LandingError,
    MissingExtraError,
    PlanError,
    ReadingError,
    SchemaMismatchError,
    StorageError,
    StorageFullError,
)
from headrace.pipeline.reasons import reason_of

# The kinds of failure, as the metrics count them, by the error's class; the first that fits.
_KINDS: tuple[tuple[type[HeadraceError], str], ...] = (
    (AccessDeniedError, "access"),
    (StorageFullError, "disk"),
    (StorageError, "storage"),
    (CommitUnknownError, "storage"),
    (CommitConflictError, "conflict"),
    (FencedError, "fenced"),
    (SchemaMismatchError, "schema"),
    (LandingError, "landing"),
    (ReadingError, "source"),
    (PlanError, "configuration"),
    (ConfigurationError, "configuration"),
    (MissingExtraError, "environment"),
)

# Failures of these kinds may pass without a change by people.
_MAY_PASS = {"access", "disk", "storage", "conflict", "executor", "broker"}


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of a query.

    Attributes:
        error: What to raise, or to show.
        kind: What failed, in a word, such as ``storage`` or ``executor``.
    """

    error: HeadraceError
    kind: str

    @property
    def may_pass(self) -> bool:
        """Whether the query may succeed when it is started again without a change."""
        return self.kind in _MAY_PASS


def drop_origin(error: BaseException) -> None:
    """Separate an exception from all that led to it, and each of these from its frames and what they refer to.

    Spark keeps the exception of a failed epoch until the JVM collects garbage, which it does every half hour.
    """
    left: list[BaseException | None] = [error]
    while left:
        found = left.pop()
        if found is not None:
            left += [found.__cause__, found.__context__]
            found.__traceback__ = found.__cause__ = found.__context__ = None


def explain(error: BaseException, checkpoint: str = "") -> Failure:
    """Return the failure that an exception of a query reports.

    Args:
        error: What `foreachBatch` or Spark raised.
        checkpoint: The query's checkpoint, for messages.
    """
    if isinstance(error, HeadraceError):
        return _of_kind(error)
    text = str(error)
    ours = _error_in(text)
    if ours is not None:
        return _of_kind(ours)
    if "Traceback (most recent call last):" in text:
        return _of_python(text)
    for pattern, made in _KNOWN:
        if pattern.search(text):
            return made(text, checkpoint)
    if type(error).__name__ in ("AnalysisException", "IllegalArgumentException"):
        return _of_kind(PlanError(f"The pipeline cannot be planned: {reason_of(text)}"))
    return Failure(ExecutionError(f"The query failed: {reason_of(text)}"), "query")


def _of_kind(error: HeadraceError) -> Failure:
    return Failure(error, next((kind for cls, kind in _KINDS if isinstance(error, cls)), "query"))


# -- exceptions of Python workers -----------------------------------------------------------------------

# A line of a traceback that has an exception: its class and message. The message may have more lines.
_RAISED = re.compile(r"^(?P<name>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$", re.MULTILINE)
_OURS = re.compile(r"^headrace\.errors\.(?P<name>\w+): (?P<message>.*)$", re.MULTILINE)

# What follows the text of a Python exception in the message of a JVM exception.
_END = re.compile(
    r"\n(?:\s*at |\s*=== |Driver stacktrace|During handling|The above exception|Caused by|\n)| SQLSTATE: \w+"
)


def _error_in(text: str) -> HeadraceError | None:
    """Return the innermost error of headrace in a worker's traceback; None if there is none."""
    found = list(_OURS.finditer(text))
    if not found:
        return None
    name, message = found[-1]["name"], _rest(text, found[-1].start("message"))
    said, _, hint = message.partition(" Hint: ")
    cls = getattr(errors, name, None)
    if not (isinstance(cls, type) and issubclass(cls, HeadraceError)):
        cls = HeadraceError
    return cls(said, hint=hint or None)


def _of_python(text: str) -> Failure:
    """Return the failure for a Python exception that is not ours."""
    last = text.rpartition("Traceback (most recent call last):")[2]
    found = _RAISED.search(last)
    if found is None:
        return Failure(ExecutionError(f"A Python worker of Spark failed: {reason_of(last)}"), "query")
    name = found["name"].rpartition(".")[2]
    message = _rest(last, found.start("message")) if found["message"] else "no message"
    if name == "ModuleNotFoundError":
        return _of_kind(
            MissingExtraError(
                f"The Python of the executors lacks a module: {message}.",
                hint="install headrace[spark] there, in the versions that the driver has, and let PYSPARK_PYTHON name "
                "that Python on every node; headrace doctor --master URL tests it.",
            )
        )
    if "No space left on device" in message:
        return _disk_full(text, "")
    return Failure(ExecutionError(f"A Python worker of Spark failed: {name}: {message}"), "query")


def _rest(text: str, start: int) -> str:
    """Return a message from its start to where the JVM's text continues."""
    end = _END.search(text, start)
    return " ".join(text[start : end.start() if end else None].split())


# -- exceptions of the JVM ------------------------------------------------------------------------------


def _disk_full(text: str, checkpoint: str) -> Failure:
    where = f"the checkpoint {checkpoint}" if checkpoint else "the checkpoint"
    return _of_kind(
        StorageFullError(
            f"A disk that Spark writes to is full: {where}, or the folder of spark.local.dir (by default /tmp).",
            hint="free space; the next run continues where this one stopped, and nothing is lost.",
        )
    )


def _other_checkpoint(text: str, checkpoint: str) -> Failure:
    return _of_kind(
        ConfigurationError(
            f"The checkpoint {checkpoint or 'of the query'} was written by a query with another source: its offsets do "
            "not fit this one.",
            hint="give the pipeline a checkpoint folder that no other query has, or restore the source.",
        )
    )


def _executor_lost(text: str, _: str) -> Failure:
    return Failure(
        ExecutionError(
            f"An executor or a Python worker was lost: {reason_of(text)}",
            hint="look for a process that ran out of memory or a node that went away.",
        ),
        "executor",
    )


def _driver_lost(text: str, _: str) -> Failure:
    return Failure(
        ExecutionError(
            "Spark's JVM in this process has ended.",
            hint="look for its reason in the log, such as too little memory; the next run continues where this one "
            "stopped.",
        ),
        "driver",
    )


def _source_unreached(text: str, _: str) -> Failure:
    return Failure(
        ExecutionError(
            f"The source or another server of the query cannot be reached: {reason_of(text)}",
            hint="check that it runs, and its address in [source.options].",
        ),
        "broker",
    )


_FILE = re.compile(r"\[FAILED_READ_FILE[^\]]*\] Encountered error while reading file (\S+?)\.?(?:\s|$)")


def _file_unreadable(text: str, _: str) -> Failure:
    file = _FILE.search(text)
    hint = "repair the file, or move it away."
    if "MALFORMED_RECORD" in text:
        hint = 'repair the file; or set mode = "PERMISSIVE" in [source.options], which reads such lines as null rows.'
    which = file[1] if file else "of the source"
    return Failure(ExecutionError(f"The file {which} cannot be read: {reason_of(text)}", hint=hint), "source")


_KNOWN: tuple[tuple[re.Pattern[str], Callable[[str, str], Failure]], ...] = (
    (re.compile(r"No space left on device|Disk quota exceeded"), _disk_full),
    (re.compile(r"No usable value for \w*[oO]ffset"), _other_checkpoint),
    (
        re.compile(
            r"ExecutorLostFailure|Lost executor|Python worker exited unexpectedly|Python worker failed to connect back"
            r"|Could not find block|FetchFailed|Executor heartbeat timed out"
        ),
        _executor_lost,
    ),
    (
        re.compile(
            r"SparkContext was shut down|Cannot call methods on a stopped SparkContext|Answer from Java side is empty"
            r"|Error while sending or receiving|JAVA_GATEWAY_EXITED|^\[Errno 111\] Connection refused$"
        ),
        _driver_lost,
    ),
    (
        re.compile(
            r"org\.apache\.kafka\.[\w.]*(?:Timeout|Disconnect|NetworkException|NotAvailable|Retriable)\w*"
            r"|java\.net\.(?:Connect|SocketTimeout|UnknownHost|NoRouteToHost|Socket)Exception"
            r"|java\.util\.concurrent\.TimeoutException|Connection reset by peer"
        ),
        _source_unreached,
    ),
    (_FILE, _file_unreadable),
)
