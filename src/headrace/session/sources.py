"""Tables of other libraries: Lance, files, and Arrow data held by anything in Python."""

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
    """Lance's own table provider, which takes filters and projections down into the scan.

    Raises:
        StorageError: There is no table, or no such version of it. Storage options are never in the message.
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
        # Lance quotes option values in its own words; those must reach no log, and no traceback either.
        detail = "" if options else f": {_first_line(error)}"
        raise StorageError(
            f"Table {name!r}: no Lance table could be opened at {uri!r}{which}{detail}.",
            hint="check the location, the version and the storage options.",
        ) from (None if options else error)
    provider = lance.FFILanceTableProvider(dataset)
    return lambda context, quoted: context.register_table(quoted, provider)


def file_table(name: str, location: str | Path, method: str, options: Mapping[str, Any]) -> Register:
    """A file, or a folder of files, read by DataFusion itself.

    Raises:
        InvalidArgumentError: An option has a value it cannot have.
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
                f"Table {name!r}: what is at {str(location)!r} cannot be read: {reason}",
                hint="check the file, its format and its extension; of object stores, only Lance tables are read.",
            ) from error

    return register


def require_location(name: str, location: object) -> Path | None:
    """Check where a table is; an object store's place is checked when it is opened.

    Returns:
        The path, where it is local and no pattern.

    Raises:
        InvalidArgumentError: It is neither a path nor a URL.
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
    """Batches in memory, as a table of DataFusion's own."""
    batches = data.to_batches() if isinstance(data, pa.Table) else [data]
    # Some of the engine's functions fail on a batch without rows.
    batches = [importable(batch) for batch in batches if batch.num_rows]
    batches = batches or [pa.RecordBatch.from_pylist([], schema=data.schema)]
    return lambda context, quoted: context.register_record_batches(quoted, [batches])


def require_storage_options(name: str, options: object) -> dict[str, str]:
    """Storage options, checked; none if there are none.

    Raises:
        InvalidArgumentError: They are not a mapping of text to text.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not all(isinstance(text, str) for pair in options.items() for text in pair):
        raise InvalidArgumentError(f"Table {name!r}: storage_options must be a mapping of text to text.")
    return dict(options)


class ArrowData(TableProvider):
    """Anything with ``__arrow_c_stream__`` that gives a new stream each time it is asked."""

    def __init__(self, name: str, data: Any) -> None:
        refusal = InvalidArgumentError(
            f"Table {name!r}: register_arrow needs a table that can be scanned again, not a {type(data).__qualname__}.",
            hint="write a reader, or what else can be read once, to a register_streaming_table sink.",
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
        """The schema of the stream the data exports."""
        return self._schema

    def scan(self) -> Any:
        """A new export of the data."""
        return pa.RecordBatchReader.from_stream(self._data)


class ArrowDataset(TableProvider):
    """A pyarrow Dataset; it reads only the columns asked for, and what its own statistics let it skip."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def schema(self) -> pa.Schema:
        """The dataset's schema."""
        return self._dataset.schema

    def scan(self) -> Any:
        """Every row."""
        return self._dataset.scanner().to_reader()

    def scan_with(self, request: ScanRequest) -> Any:
        """The columns asked for, and the filter where pyarrow can apply it."""
        # pyarrow cannot pick rows of views, whichever column it is that decides.
        can_filter = not any("view" in str(kind) or "run_end" in str(kind) for kind in self._dataset.schema.types)
        return self._dataset.scanner(
            columns=list(request.columns), filter=request.filter if can_filter else None
        ).to_reader()


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
