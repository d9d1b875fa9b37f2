"""The one place where errors of the engine become errors of ours.

DataFusion's Python errors carry their kind only in their text. The prefixes are DataFusion's own; a test
provokes each of them, so that an upgrade that rewords one is noticed.
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
# What stands around the error that counts; only at the beginning, for data may contain any words.
_WRAPPER = re.compile(
    r"(DataFusion error: |External error: |FFI error: |Optimizer rule '[^']*' failed\s+caused by\s+"
    r"|[a-z_]+\s+caused by\s+)"
)
_ARROW = "Arrow error: "
_PANIC_HINT = "this is a defect of DataFusion, or of how it is handed tables; report it with the query and the schemas."
# How the engine words a Ctrl-C that arrived while it was asking Python for something.
_INTERRUPT = "type: <class 'KeyboardInterrupt'>"
_INNER = re.compile(r"\s*\n\s*caused by\s*\n\s*(?:External error: |Arrow error: )*")


def translate(error: BaseException, execution: Execution | None = None, *, planning: bool = False) -> BaseException:
    """Make an error of ours from what the engine raised.

    Args:
        error: What came out of the engine.
        execution: The run it came out of. If a scan of it failed, then that is what happened.
        planning: Whether the query was only being planned.

    Returns:
        An error to raise, with the original as its ``__cause__``; ours and KeyboardInterrupt as they are.
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
    """Which tables, and which of their columns, the run was reading, as far as they are tables of Python."""
    scans = {} if execution is None else execution.scanned
    tables = [f"table {table!r} ({', '.join(columns)})" for table, columns in scans.items()]
    return f" while the query read {' and '.join(tables)}" if tables else ""


def translate_scan(failure: ScanFailure) -> BaseException:
    """Refusals and interrupts are raised as they are; what else a table's own code raised is a TableError."""
    error = failure.error
    if failure.as_itself:
        return error
    ours = TableError(
        f"Table {failure.table!r} failed: {type(error).__name__}: {message_of(error)}", table=failure.table
    )
    ours.__cause__ = error
    return ours


def unwrapped(text: str) -> str:
    """An engine's message on one line, without the names of the layers it came through."""
    return _INNER.sub(": ", text).replace("Parquet error: External: ", "Parquet error: ")


def message_of(error: BaseException) -> str:
    """What an exception says, whatever it is made of."""
    try:
        # A KeyError says its key, in quotes; ours to raise are sentences.
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
    # Arithmetic and casts fail alike, whether the engine tries them on constants or on rows.
    return (PlanError if planning and not text.startswith(_ARROW) else ExecutionError), None
