"""Tables from other libraries: Lance tables, files, and Arrow data in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.arrow.layout import importable
from headrace.engine.errors import translate
from headrace.engine.tables import ScanRequest
from headrace.errors import InvalidArgumentError, MissingExtraError, StorageError
from headrace.session.provider import TableProvider

if TYPE_CHECKING:
    from headrace.engine.engine import Register

_FILE_OPTIONS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "schema": (lambda value: isinstance(value, pa.Schema), "a pyarrow.Schema"),
    "file_extension": (lambda value: isinstance(value, str), "text such as '.parquet'"),
    "delimiter": (lambda value: isinstance(value, str) and len(value.encode()) == 1, "one ASCII character"),
    "has_header": (lambda value: isinstance(value, bool), "True or False"),
}


def lance_table(name: str, uri: str, storage_options: Mapping[str, str] | None, version: int | str | None) -> Register:
    """Return a registration of Lance's native table provider, which pushes filters and projections into the scan.

    Raises:
        InvalidArgumentError: ``version`` or ``storage_options`` is invalid.
        MissingExtraError: pylance is not installed.
        StorageError: The table or the version does not exist. The message never contains storage options.
    """
    options = require_storage_options(name, storage_options)
    is_number = isinstance(version, int) and not isinstance(version, bool) and version >= 0
    if version is not None and not is_number and not isinstance(version, str):
        raise InvalidArgumentError(f"Table {name!r}: version must be a number or a tag, not {version!r}.")
    try:
        import lance
    except ImportError as error:
        raise MissingExtraError(
            "register_lance needs the package pylance, which is not installed.", hint="pip install pylance."
        ) from error
    try:
        dataset = lance.dataset(uri, version=version, storage_options=options or None)
    except (ValueError, OSError, RuntimeError) as error:
        which = "" if version is None else f" at version {version!r}"
        # Lance's errors may contain option values, which must not reach a log or a traceback.
        detail = "" if options else f": {_first_line(error)}"
        raise StorageError(
            f"Table {name!r}: no Lance table could be opened at {uri!r}{which}{detail}.",
            hint="check the location, the version and the storage options.",
        ) from (None if options else error)
    provider = lance.FFILanceTableProvider(dataset)
    return lambda context, quoted: context.register_table(quoted, provider)


def file_table(name: str, location: str | Path, method: str, options: Mapping[str, Any]) -> Register:
    """Return a registration of a file, or a folder of files, that DataFusion reads.

    Raises:
        InvalidArgumentError: An option has an invalid value.
    """
    for option, (allowed, words) in _FILE_OPTIONS.items():
        if options.get(option) is not None and not allowed(options[option]):
            raise InvalidArgumentError(f"Table {name!r}: {option} must be {words}, not {options[option]!r}.")
    given = {key: value for key, value in options.items() if value is not None}

    def register(context: Any, quoted: str) -> None:
        try:
            getattr(context, method)(quoted, str(location), **given)
        except Exception as error:
            reason = str(translate(error)).splitlines()[0]
            raise StorageError(
                f"Table {name!r}: {str(location)!r} cannot be read: {reason}",
                hint="check the file, its format and its extension; from object stores, only Lance tables can be read.",
            ) from error

    return register


def require_location(name: str, location: object) -> Path | None:
    """Check the location of a table; a URL is checked when the table is opened.

    Returns:
        The path, or None if the location is a URL or a glob pattern.

    Raises:
        InvalidArgumentError: The location is neither a path nor a URL.
        StorageError: A local path does not exist.
    """
    if not isinstance(location, (str, Path)) or not str(location).strip():
        raise InvalidArgumentError(f"Table {name!r}: the location must be a path or a URL, not {location!r}.")
    if "://" in str(location) or any(mark in str(location) for mark in "*?["):
        return None
    path = Path(location).absolute()
    if not path.exists():
        raise StorageError(f"Table {name!r}: there is nothing at {str(location)!r}.", hint="check the path.")
    return path


def memory_table(data: pa.Table | pa.RecordBatch) -> Register:
    """Return a registration of batches in memory, which DataFusion reads."""
    batches = data.to_batches() if isinstance(data, pa.Table) else [data]
    # Some functions of the engine fail on a batch without rows.
    batches = [importable(batch) for batch in batches if batch.num_rows]
    batches = batches or [pa.RecordBatch.from_pylist([], schema=data.schema)]
    return lambda context, quoted: context.register_record_batches(quoted, [batches])


def require_storage_options(name: str, options: object) -> dict[str, str]:
    """Return the storage options as a dict; empty if ``options`` is None.

    Raises:
        InvalidArgumentError: ``options`` is not a mapping of text to text.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not all(isinstance(text, str) for pair in options.items() for text in pair):
        raise InvalidArgumentError(f"Table {name!r}: storage_options must be a mapping of text to text.")
    return dict(options)


class ArrowData(TableProvider):
    """An object whose ``__arrow_c_stream__`` returns a new stream on every call."""

    def __init__(self, name: str, data: Any) -> None:
        refusal = InvalidArgumentError(
            f"Table {name!r}: register_arrow needs data that can be scanned again, not a {type(data).__qualname__}.",
            hint="write data that can be read only once to the sink of register_streaming_table.",
        )
        once = callable(getattr(data, "read_next_batch", None)) or callable(getattr(data, "execute_stream", None))
        if once or not hasattr(data, "__arrow_c_stream__"):
            raise refusal
        try:
            self._schema: pa.Schema = pa.RecordBatchReader.from_stream(data).schema
        except (pa.ArrowException, TypeError) as error:
            raise refusal from error
        self._data = data

    def schema(self) -> pa.Schema:
        """Return the schema of the stream that the data exports."""
        return self._schema

    def scan(self) -> pa.RecordBatchReader:
        """Return a new export of the data."""
        return pa.RecordBatchReader.from_stream(self._data)


class ArrowDataset(TableProvider):
    """A pyarrow Dataset; its scans read only the requested columns, and skip files by their statistics."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def schema(self) -> pa.Schema:
        """Return the dataset's schema."""
        return self._dataset.schema

    def scan(self) -> pa.RecordBatchReader:
        """Read every row."""
        return self._dataset.scanner().to_reader()

    def scan_with(self, request: ScanRequest) -> pa.RecordBatchReader:
        """Read the requested columns, with the filter if pyarrow can apply it."""
        # pyarrow cannot filter batches that have a view or run-end encoded column, whatever the filter reads.
        can_filter = not any("view" in str(kind) or "run_end" in str(kind) for kind in self._dataset.schema.types)
        return self._dataset.scanner(
            columns=list(request.columns), filter=request.filter if can_filter else None
        ).to_reader()


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
