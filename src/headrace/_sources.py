"""Tables of other libraries: Lance, files, and Arrow data held by anything in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace._errors import InvalidArgumentError, MissingExtraError, StorageError
from headrace._provider import ScanRequest, TableProvider

if TYPE_CHECKING:
    import datafusion

Register = Callable[["datafusion.SessionContext", str], None]


def lance_table(name: str, uri: str, storage_options: Mapping[str, str] | None, version: int | str | None) -> Register:
    """Lance's own table provider, which takes filters and projections down into the scan.

    Raises:
        StorageError: There is no table, or no such version of it. Storage options are never in the message.
    """
    try:
        import lance
    except ImportError as error:
        raise MissingExtraError(
            "register_lance needs the package pylance, which is not installed.", hint="pip install pylance."
        ) from error
    try:
        dataset = lance.dataset(uri, version=version, storage_options=dict(storage_options or {}) or None)
    except (ValueError, OSError) as error:
        which = "" if version is None else f" at version {version!r}"
        raise StorageError(
            f"Table {name!r}: no Lance table could be opened at {uri!r}{which}: {_first_line(error)}",
            hint="check the location, the version and the storage options.",
        ) from error
    provider = lance.FFILanceTableProvider(dataset)
    return lambda context, quoted: context.register_table(quoted, provider)


def file_table(name: str, location: str | Path, method: str, options: Mapping[str, Any]) -> Register:
    """A file, or a folder of files, read by DataFusion itself.

    Raises:
        StorageError: A local path does not exist.
    """
    path = require_location(name, location)
    given = {key: value for key, value in options.items() if value is not None}
    return lambda context, quoted: getattr(context, method)(quoted, path, **given)


def require_location(name: str, location: object) -> str:
    """Check that a local path exists; an object store's is checked when it is opened."""
    if not isinstance(location, (str, Path)) or not str(location).strip():
        raise InvalidArgumentError(f"Table {name!r}: the location must be a path or a URL, not {location!r}.")
    text = str(location)
    if "://" not in text and not any(mark in text for mark in "*?[") and not Path(text).exists():
        raise StorageError(f"Table {name!r}: there is nothing at {text!r}.", hint="check the path.")
    return text


def memory_table(data: pa.Table | pa.RecordBatch) -> Register:
    """Batches in memory, as a table of DataFusion's own."""
    batches = data.to_batches() if isinstance(data, pa.Table) else [data]
    batches = batches or [pa.RecordBatch.from_pylist([], schema=data.schema)]
    return lambda context, quoted: context.register_record_batches(quoted, [batches])


class ArrowData(TableProvider):
    """Anything with ``__arrow_c_stream__`` that gives a new stream each time it is asked."""

    def __init__(self, name: str, data: Any) -> None:
        if not hasattr(data, "__arrow_c_stream__") or callable(getattr(data, "read_next_batch", None)):
            raise InvalidArgumentError(
                f"Table {name!r}: register_arrow needs data that can be scanned again, not a "
                f"{type(data).__qualname__}.",
                hint="for a reader, which can be read once, write it to a register_streaming_table sink.",
            )
        self._data = data

    def schema(self) -> pa.Schema:
        """The schema of the stream the data exports."""
        return pa.RecordBatchReader.from_stream(self._data).schema

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
        columns = list(request.columns)
        try:
            return self._dataset.scanner(columns=columns, filter=request.filter).to_reader()
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            return self._dataset.scanner(columns=columns).to_reader()


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
