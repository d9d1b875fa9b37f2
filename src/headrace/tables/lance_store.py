"""The real store: a Lance table. The one place where Lance's errors become ours."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import lance
import pyarrow as pa
from lance.commit import CommitConflictError as LanceConflict
from lance.dataset import LanceDataset, LanceOperation, Transaction
from lance.file import LanceFileSession
from lance.fragment import FragmentMetadata
from lance.schema import LanceSchema

from headrace.errors import (
    CommitConflictError,
    CommitUnknownError,
    HeadraceError,
    LandingError,
    StorageError,
    TableNotFoundError,
)
from headrace.tables.location import Location
from headrace.tables.store import Append, Column, Entry, Fence, Kind, Merge, Operation, Published, Replace

_log = logging.getLogger("headrace.tables")


_KINDS = {
    LanceOperation.Append: Kind.APPEND,
    LanceOperation.Overwrite: Kind.REPLACE,
    LanceOperation.Restore: Kind.RESTORE,
    LanceOperation.Project: Kind.PROJECT,
}

# Lance may try again by itself where that cannot hide a rival: an append or merge meets a rival's fence.
_RETRIES = 20
_STRICT = 0

# Notes have one size, so that one ranged read gets them whole.
_NOTE_BYTES = 8192
_NOTES = "_headrace/notes"

_REQUESTS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class _Untold:
    """The transaction of a version that was written without one, or with one that pylance cannot show."""

    uuid: str = ""
    operation: LanceOperation.BaseOperation | None = None
    transaction_properties: Mapping[str, str] = field(default_factory=dict)


class LanceSnapshot:
    """A Lance table as it was when it was opened."""

    def __init__(self, dataset: LanceDataset, location: Location, files: LanceFileSession) -> None:
        self.dataset = dataset
        self.location = location
        self._files = files

    @property
    def version(self) -> int:
        """The newest version."""
        return int(self.dataset.version)

    @property
    def schema(self) -> pa.Schema:
        """The table's schema, with metadata."""
        return self.dataset.schema

    def columns(self) -> dict[int, Column]:
        """The columns, nested ones too, by field id."""
        return columns_of(self.dataset.lance_schema)

    def columns_of_new(self, schema: pa.Schema) -> dict[int, Column]:
        """The columns the table would have if it were made anew of ``schema``, by field id."""
        return columns_of(LanceSchema.from_pyarrow(schema))

    def entry(self, version: int) -> Entry | None:
        """One version of the history, or None if it is no longer kept."""
        transaction = self.transaction(version)
        if transaction is None:
            return None
        kind = _KINDS.get(type(transaction.operation), Kind.OTHER)  # type: ignore[arg-type]
        operation, properties = transaction.operation, dict(transaction.transaction_properties or {})
        restored = int(operation.version) if isinstance(operation, LanceOperation.Restore) else None
        return Entry(version, transaction.uuid, kind, properties, restored)

    def transaction(self, version: int) -> Transaction | _Untold | None:
        """What made a version, or None if it is no longer kept."""
        with translated(self.location, f"reading version {version}"):
            try:
                return self.dataset.read_transaction(version) or _Untold()
            except OSError as error:
                if _is_missing(error):
                    return None
                raise
            except TypeError as error:
                # pylance 14 cannot put the compaction of an indexed table into its own classes.
                if "RewrittenIndex" not in str(error):
                    raise
                return _Untold(operation=LanceOperation.Rewrite([], []))

    def dates(self) -> dict[int, datetime]:
        """When each version that is kept was made."""
        with translated(self.location, "listing the versions"):
            versions = self.dataset.versions()
        dates: dict[int, Any] = {int(version["version"]): version["timestamp"] for version in versions}
        return {version: date.astimezone(UTC) for version, date in dates.items()}

    def kept_versions(self, above: int) -> list[int]:
        """The versions that are still kept, down to but without ``above``, newest first."""
        with translated(self.location, "listing the versions"):
            names = self._files.list("_versions")
        found = (_version_of(name.rpartition("/")[2]) for name in names)
        return sorted((version for version in found if above < version <= self.version), reverse=True)

    def tagged(self) -> set[int]:
        """The versions that have a tag now, which cleanup leaves."""
        with translated(self.location, "listing the tags"):
            return {int(tag["version"]) for tag in self.dataset.tags.list().values()}

    def latest(self) -> int:
        """The newest version now, which may be newer than this one."""
        with translated(self.location, "looking for the newest version"):
            return int(self.dataset.latest_version)

    def data_files(self, version: int) -> set[str]:
        """The data files of a version as it is now; none if it is no longer kept."""
        try:
            # Opened anew: what the dataset remembers may be of a version that was there before.
            fragments = LanceStore(self.location).open(version=version).dataset.get_fragments()
        except TableNotFoundError:
            return set()
        return {file.path for fragment in fragments for file in fragment.data_files()}


class LanceStore:
    """A Lance table that can be read and changed; it holds no handle from one call to the next."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self._uri = location.uri
        self._schema: tuple[int, Any] = (0, None)
        self._vended: dict[str, str] | None = None

    def open(self, *, version: int | str | None = None) -> LanceSnapshot:
        """Open the newest version afresh, or the one that is named, by its number or a tag."""
        with translated(self.location, "opening the table"):
            arguments = self.location.lance_arguments()
            try:
                dataset = lance.dataset(self.location.uri or None, version=version, **arguments)
            except lance_errors() as error:
                if not _is_no_table(error):
                    raise
                raise TableNotFoundError(
                    f"There is no Lance table at {self.location}.",
                    hint="create it first, or set createTable=true.",
                ) from None
        self._uri = dataset.uri
        if self.location.namespace:
            self._vended = dataset.latest_storage_options()
        self._schema = (int(dataset.version), dataset.lance_schema)
        return LanceSnapshot(dataset, self.location, self._files())

    def publish(self, operation: Operation, *, read_version: int, properties: Mapping[str, str]) -> Published:
        """Make one new version, and find out what became of it if the answer does not come."""
        transaction = self._transaction(operation, read_version, dict(properties))
        try:
            dataset = LanceDataset.commit(
                self._uri,
                transaction,
                max_retries=_STRICT if isinstance(operation, Replace) else _RETRIES,
                **self._arguments(),
            )
        except LanceConflict as error:
            raise CommitConflictError(
                f"The commit to {self.location} met a concurrent change: {self._said(error)}",
                retryable=bool(error.retryable) or isinstance(operation, Replace),
                hint="the epoch has not landed; restart the query, which sends it again.",
            ) from self.location.cause(error)
        except lance_errors() as error:
            return self._find_out(transaction.uuid, read_version, error)
        return Published(int(dataset.version), transaction.uuid)

    def _transaction(self, operation: Operation, read_version: int, properties: dict[str, str]) -> Transaction:
        if isinstance(operation, Merge):
            merge: Transaction = operation.transaction
            return Transaction(merge.read_version, merge.operation, merge.uuid, properties)
        if isinstance(operation, Fence):
            lance_operation: Any = LanceOperation.Project(self._schema_at(read_version))
        elif isinstance(operation, Append):
            lance_operation = LanceOperation.Append(_fragments(operation.fragments))
        else:
            lance_operation = LanceOperation.Overwrite(operation.schema, _fragments(operation.fragments))
        return Transaction(read_version, lance_operation, transaction_properties=properties)

    def _schema_at(self, version: int) -> Any:
        """The schema of a version, which is nearly always the one that was opened last."""
        if self._schema[0] == version:
            return self._schema[1]
        try:
            return self.open(version=version).dataset.lance_schema
        except TableNotFoundError:
            if self.open().version > version:
                raise self._cleaned(version) from None
            raise

    def _cleaned(self, version: int) -> CommitConflictError:
        return CommitConflictError(
            f"Version {version} of {self.location} was cleaned up during a commit.", retryable=True
        )

    def _find_out(self, uuid: str, read_version: int, error: Exception) -> Published:
        try:
            snapshot = self.open()
            for version in range(snapshot.version, read_version, -1):
                entry = snapshot.entry(version)
                if entry is not None and entry.uuid == uuid:
                    _log.warning("A commit to %s landed as version %d although it failed.", self.location, version)
                    return Published(version, uuid)
        except HeadraceError as second:
            raise CommitUnknownError(
                f"A commit to {self.location} failed and it is not known whether it landed: {self._said(error)}; "
                f"and then: {second}",
                hint="restart the query, which looks before it commits.",
            ) from self.location.cause(error)
        if _is_missing(error) and snapshot.version > read_version:
            raise self._cleaned(read_version) from None
        raise StorageError(
            f"A commit to {self.location} failed, and the table shows no trace of it: {self._said(error)}",
            hint="see to the cause and restart the query, which sends the epoch again.",
        ) from self.location.cause(error)

    def missing_files(self, files: Sequence[str]) -> list[str]:
        """Those of the data files that are not there."""
        with translated(self.location, "looking for data files"):
            session = self._files()
            return [
                file for file, is_there in _each(lambda file: session.contains(f"data/{file}"), files) if not is_there
            ]

    def delete_files(self, files: Sequence[str]) -> None:
        """Remove data files, as far as possible."""
        with translated(self.location, "looking for data files"):
            session = self._files()

        def delete(file: str) -> None:
            with contextlib.suppress(*lance_errors()):
                session.delete_file(f"data/{file}")

        _each(delete, files)

    def list_notes(self) -> list[str]:
        """Names of the notes kept beside the table."""
        with translated(self.location, "listing the notes"):
            return sorted(path.rpartition("/")[2] for path in self._files().list(_NOTES))

    def read_note(self, name: str) -> str | None:
        """A small text kept beside the table, or None."""
        with translated(self.location, "reading a note"):
            try:
                content = self._files().read_range(f"{_NOTES}/{name}", 0, _NOTE_BYTES)
            except OSError as error:
                if _is_missing(error):
                    return None
                raise
        return bytes(content).decode().rstrip()

    def write_note(self, name: str, text: str) -> None:
        """Keep a small text beside the table, where cleanup does not reach it."""
        content = text.encode()
        if len(content) > _NOTE_BYTES:
            raise LandingError(f"A note of {len(content)} bytes is larger than {_NOTE_BYTES}.")
        with translated(self.location, "writing a note"), tempfile.NamedTemporaryFile() as file:
            file.write(content.ljust(_NOTE_BYTES))
            file.flush()
            self._files().upload_file(file.name, f"{_NOTES}/{name}")

    def delete_note(self, name: str) -> None:
        """Remove a note, as far as possible."""
        with contextlib.suppress(*lance_errors()):
            self._files().delete_file(f"{_NOTES}/{name}")

    def _arguments(self) -> dict[str, Any]:
        """How to reach the table's files. Lance asks a namespace for later credentials by itself, not for the first."""
        arguments = self.location.lance_arguments()
        return arguments | ({"storage_options": self._vended} if self._vended else {})

    def _files(self) -> LanceFileSession:
        return LanceFileSession(self._uri, **self._arguments())

    def _said(self, error: BaseException) -> str:
        return _without_source_lines(self.location.redact(str(error)))


def lance_errors() -> tuple[type[Exception], ...]:
    """What Lance raises when something is wrong with a table, its files or its namespace.

    Asked when something was raised: namespaces take a second to load, and most tables have none.
    """
    namespaces = sys.modules.get("lance_namespace.errors")
    return (OSError, ValueError, RuntimeError, *([namespaces.LanceNamespaceError] if namespaces else []))


def _is_no_table(error: Exception) -> bool:
    if isinstance(error, ValueError):
        return _is_missing(error)
    return type(error).__name__ in ("TableNotFoundError", "NamespaceNotFoundError")


def columns_of(schema: Any) -> dict[int, Column]:
    """The columns of a Lance schema, nested ones too, by field id."""
    columns: dict[int, Column] = {}

    def walk(field: Any, path: str) -> None:
        name, children, arrow = f"{path}{field.name()}", field.children(), field.to_arrow()
        kind = str(arrow.type) if not children else type(arrow.type).__name__
        columns[field.id()] = Column(name, kind, bool(arrow.nullable))
        for child in children:
            walk(child, f"{name}.")

    for column in schema.fields():
        walk(column, "")
    return columns


def _fragments(values: Sequence[Mapping[str, Any]]) -> list[FragmentMetadata]:
    return [FragmentMetadata.from_json(json.dumps(value)) for value in values]


def _each(call: Any, files: Sequence[str]) -> list[tuple[str, Any]]:
    if len(files) <= 1:
        return [(file, call(file)) for file in files]
    with ThreadPoolExecutor(min(_REQUESTS_AT_ONCE, len(files))) as pool:
        return list(zip(files, pool.map(call, files), strict=True))


def _version_of(name: str) -> int:
    """The version a manifest's file name stands for: counted up, or down from the largest 64-bit number."""
    stem, _, suffix = name.partition(".")
    if suffix != "manifest" or not stem.isdecimal():
        return 0
    number = int(stem)
    return 2**64 - 1 - number if number >= 2**63 else number


def _is_missing(error: BaseException) -> bool:
    text = str(error)
    return "was not found" in text or "Not found" in text


def _without_source_lines(text: str) -> str:
    """Lance's message without the places in its source where it came by."""
    return ", ".join(part for part in text.split(", ") if ".rs:" not in part)


@contextlib.contextmanager
def translated(location: Location, doing: str) -> Iterator[None]:
    """Turn what Lance raises inside into our errors."""
    try:
        yield
    except HeadraceError:
        raise
    except lance_errors() as error:
        said = _without_source_lines(location.redact(str(error)))
        raise StorageError(f"{doing[:1].upper()}{doing[1:]} of {location} failed: {said}") from location.cause(error)
