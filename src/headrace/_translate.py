"""The one place where errors of the engine become errors of ours.

DataFusion's Python errors carry their kind only in their text. The prefixes are DataFusion's own; a test
provokes each of them, so that an upgrade that rewords one is noticed.
"""

from __future__ import annotations

import re

from headrace._errors import (
    EngineError,
    ExecutionError,
    HeadraceError,
    PlanError,
    ResourcesExhaustedError,
    StorageError,
    TableError,
)
from headrace._execution import ScanFailure

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
)
_KIND = re.compile("|".join(re.escape(prefix) for prefix, _, _ in _KINDS))
_NOISE = re.compile(r"^(DataFusion error: |External error: |Arrow error: )+")


def translate(error: BaseException, failure: ScanFailure | None = None, *, planning: bool = False) -> BaseException:
    """Make an error of ours from what the engine raised.

    Args:
        error: What came out of the engine.
        failure: What a scan of the query raised, if one did; then that is what happened.
        planning: Whether the query was only being planned.

    Returns:
        An error to raise, with the original as its ``__cause__``; ours and KeyboardInterrupt as they are.
    """
    if failure is not None:
        return translate_scan(failure)
    if isinstance(error, (HeadraceError, KeyboardInterrupt, SystemExit, GeneratorExit)):
        return error
    text = message_of(error)
    kind, hint = _classify(error, text, planning)
    text = _NOISE.sub("", text)
    ours = kind(text if text.endswith(".") else f"{text}.", hint=hint)
    ours.__cause__ = error
    return ours


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


def message_of(error: BaseException) -> str:
    """What an exception says, whatever it is made of."""
    try:
        return str(error).strip() or "<no message>"
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
        return "<no message: its __str__ raised>"


def _classify(error: BaseException, text: str, planning: bool) -> tuple[type[HeadraceError], str | None]:
    if not isinstance(error, Exception):
        return EngineError, None
    found = _KIND.search(text)
    if found:
        return next((kind, hint) for prefix, kind, hint in _KINDS if prefix == found.group())
    return (PlanError if planning else ExecutionError), None
