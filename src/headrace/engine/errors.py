"""Translation of the engine's exceptions into headrace errors; no other module does it.

DataFusion's Python exceptions carry their kind only as a prefix of the message. A test provokes each prefix, so an
upgrade that changes one fails the test.
"""

from __future__ import annotations

import re

from headrace.engine.execution import Execution, ScanFailure
from headrace.errors import (
    EngineError,
    ExecutionError,
    HeadraceError,
    PlanError,
    ResourcesExhaustedError,
    StorageError,
    TableError,
)

_KINDS: tuple[tuple[str, type[HeadraceError], str | None], ...] = (
    ("Resources exhausted", ResourcesExhaustedError, "raise memory_limit, allow spill, or read less at once."),
    ("Object Store error", StorageError, None),
    ("IO error", StorageError, None),
    ("LanceError(IO)", StorageError, None),
    ("Parquet error", StorageError, None),
    ("ParquetError", StorageError, None),
    ("SQL error", PlanError, None),
    ("Error during planning", PlanError, None),
    ("Schema error", PlanError, None),
    ("This feature is not implemented", PlanError, None),
    ("Invalid or Unsupported Configuration", PlanError, None),
    ("Substrait error", PlanError, None),
    ("Internal error", EngineError, None),
    ("Join Error", EngineError, None),
)
# Prefixes that wrap the actual error. Matched only at the start, since data in a message may contain any text.
_WRAPPER = re.compile(
    r"(DataFusion error: |External error: |FFI error: |Optimizer rule '[^']*' failed\s+caused by\s+"
    r"|[a-z_]+\s+caused by\s+)"
)
_ARROW = "Arrow error: "
_PANIC_HINT = "this is a bug in DataFusion or in headrace; report it with the query and the schemas of the tables."
# The engine's text for a KeyboardInterrupt that was raised while it called Python.
_INTERRUPT = "type: <class 'KeyboardInterrupt'>"
_INNER = re.compile(r"\s*\n\s*caused by\s*\n\s*(?:External error: |Arrow error: )*")


def translate(error: BaseException, execution: Execution | None = None, *, planning: bool = False) -> BaseException:
    """Translate an exception of the engine into a headrace error.

    Args:
        error: The exception that the engine raised.
        execution: The execution that raised it. If one of its scans failed, that failure is returned instead.
        planning: Whether the query was being planned, not executed.

    Returns:
        The error to raise, with the original as its ``__cause__``. A headrace error or an interrupt is returned
        unchanged.
    """
    if execution is not None and execution.failure is not None:
        return translate_scan(execution.failure)
    if isinstance(error, (HeadraceError, KeyboardInterrupt, SystemExit, GeneratorExit)):
        return error
    text = message_of(error)
    if _INTERRUPT in text:
        return KeyboardInterrupt()
    while wrapper := _WRAPPER.match(text):
        text = text[wrapper.end() :]
    kind, hint = _classify(error, text, planning)
    text = unwrapped(text.removeprefix(_ARROW))
    if not isinstance(error, Exception):
        text, hint = f"The engine panicked{_while_reading(execution)}: {text}", _PANIC_HINT
    ours = kind(text if text.endswith(".") else f"{text}.", hint=hint)
    ours.__cause__ = error
    return ours


def _while_reading(execution: Execution | None) -> str:
    """Name the Python tables, and their columns, that the execution was reading."""
    scans = {} if execution is None else execution.scanned
    tables = [f"table {table!r} ({', '.join(columns)})" for table, columns in scans.items()]
    return f" while the query read {' and '.join(tables)}" if tables else ""


def translate_scan(failure: ScanFailure) -> BaseException:
    """Return the error to raise for a failed scan: a TableError, or the exception itself if ``raise_as_is``."""
    error = failure.error
    if failure.raise_as_is:
        return error
    ours = TableError(
        f"Table {failure.table!r} failed: {type(error).__name__}: {message_of(error)}", table=failure.table
    )
    ours.__cause__ = error
    return ours


def unwrapped(text: str) -> str:
    """Return an engine message in one line, without the names of the layers it passed through."""
    return _INNER.sub(": ", text).replace("Parquet error: External: ", "Parquet error: ")


def message_of(error: BaseException) -> str:
    """Return the message of an exception; never raises."""
    try:
        # Not str(): that of a KeyError is the repr of its key, with quotes around a message.
        text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
        return "<no message: its __str__ raised>"
    return text.strip() or "<no message>"


def _classify(error: BaseException, text: str, planning: bool) -> tuple[type[HeadraceError], str | None]:
    if not isinstance(error, Exception):
        return EngineError, None
    for layer in _INNER.split(text.removeprefix(_ARROW)):
        for prefix, kind, hint in _KINDS:
            if layer.startswith(prefix):
                return kind, hint
    # Constant folding raises the same Arrow errors as execution: both are an ExecutionError.
    return (PlanError if planning and not text.startswith(_ARROW) else ExecutionError), None
