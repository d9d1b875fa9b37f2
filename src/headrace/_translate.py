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
    text = _NOISE.sub("", str(error)).strip() or type(error).__name__
    kind, hint = _classify(error, str(error), planning)
    ours = kind(text if text.endswith(".") else f"{text}.", hint=hint)
    ours.__cause__ = error
    return ours


def translate_scan(failure: ScanFailure) -> BaseException:
    """What a table's own code raised, as the query's error; errors that are ours already stay what they are."""
    error = failure.error
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        return error
    if isinstance(error, HeadraceError) and error.__traceback__ is not None and _is_about_the_call(error):
        return error
    message = str(error).strip() or "<no message>"
    ours = TableError(f"Table {failure.table!r} failed: {type(error).__name__}: {message}", table=failure.table)
    ours.__cause__ = error
    return ours


def _is_about_the_call(error: HeadraceError) -> bool:
    from headrace._errors import ConsumedError, ResourcesExhaustedError

    return isinstance(error, (ConsumedError, ResourcesExhaustedError))


def _classify(error: BaseException, text: str, planning: bool) -> tuple[type[HeadraceError], str | None]:
    if not isinstance(error, Exception):
        return EngineError, None
    found = _KIND.search(text)
    if found:
        return next((kind, hint) for prefix, kind, hint in _KINDS if prefix == found.group())
    return (PlanError if planning else ExecutionError), None
