"""The store on a Lance table. Translates Lance's errors into headrace's."""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import tempfile
from collections.abc import Mapping, Sequence
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
    TableNotFoundError,
)
from headrace.tables.lance_errors import answer_of, lance_errors, storage_error, translated
from headrace.tables.location import Location
from headrace.tables.store import Append, Column, Entry, Fence, Kind, Merge, Operation, Published, Replace

_log = logging.getLogger("headrace.tables")

_KINDS = {
    LanceOperation.Append: Kind.APPEND,
    LanceOperation.Overwrite: Kind.REPLACE,
    LanceOperation.Restore: Kind.RESTORE,
    LanceOperation.Project: Kind.PROJECT,
}

# Lance may retry an append or a merge by itself: a concurrent fence still makes it fail. It may not retry an overwrite.
_RETRIES = 20
_STRICT = 0

# All notes have the same size, so that one ranged read returns a whole note.
_NOTE_BYTES = 8192
_NOTES = "_headrace/notes"

_MAX_REQUESTS = 8


@dataclass(frozen=True, slots=True)
class _NoTransaction:
    """Stands in for a transaction that was not written, or that pylance cannot decode."""

    uuid: str = ""
    operation: LanceOperation.BaseOperation | None = None
    transaction_properties: Mapping[str, str] = field(default_factory=dict)


class LanceSnapshot:
    """A Lance table as it was when it was opened."""

    def __init__(self, dataset: LanceDataset, location: Location, files: LanceFileSession) -> None:
        self.dataset = dataset
        self.location = location
        self._files = files

    def copy(self) -> LanceSnapshot:
        """Return the same snapshot for another thread: Lance refuses to read two transactions with one handle."""
        return LanceSnapshot(copy.copy(self.dataset), self.location, self._files)

    @property
    def version(self) -> int:
        """The version that was opened."""
        return int(self.dataset.version)

    @property
    def schema(self) -> pa.Schema:
        """The table's schema, with metadata."""
        return self.dataset.schema

    def columns(self) -> dict[int, Column]:
        """Return the columns by field id, nested ones included."""
        return columns_of(self.dataset.lance_schema)

    def columns_of_new(self, schema: pa.Schema) -> dict[int, Column]:
        """Return the columns, by field id, of a table newly created with ``schema``."""
        return columns_of(LanceSchema.from_pyarrow(schema))

    def entry(self, version: int) -> Entry | None:
        """Return one version of the history; None if cleanup has removed it."""
        transaction = self.transaction(version)
        if transaction is None:
            return None
        kind = _KINDS.get(type(transaction.operation), Kind.OTHER)  # type: ignore[arg-type]
        operation, properties = transaction.operation, dict(transaction.transaction_properties or {})
        restored = int(operation.version) if isinstance(operation, LanceOperation.Restore) else None
        return Entry(version, transaction.uuid, kind, properties, restored)

    def transaction(self, version: int) -> Transaction | _NoTransaction | None:
        """Return the transaction of a version; None if cleanup has removed the version."""
        with translated(self.location, f"reading version {version}"):
            try:
                return self.dataset.read_transaction(version) or _NoTransaction()
            except OSError as error:
                if _is_missing(error):
                    return None
                raise
            except TypeError as error:
                # pylance 14 cannot decode the compaction of an indexed table.
                if "RewrittenIndex" not in str(error):
                    raise
                return _NoTransaction(operation=LanceOperation.Rewrite([], []))

    def dates(self) -> dict[int, datetime]:
        """Return when each kept version was committed, in UTC."""
        with translated(self.location, "listing the versions"):
            versions = self.dataset.versions()
        dates: dict[int, Any] = {int(version["version"]): version["timestamp"] for version in versions}
        return {version: date.astimezone(UTC) for version, date in dates.items()}

    def kept_versions(self, above: int) -> list[int]:
        """Return the kept versions greater than ``above``, newest first."""
        with translated(self.location, "listing the versions"):
            names = self._files.list("_versions")
        found = (_version_of(name.rpartition("/")[2]) for name in names)
        return sorted((version for version in found if above < version <= self.version), reverse=True)

    def tagged(self) -> set[int]:
        """Return the versions that have a tag now; cleanup keeps them."""
        with translated(self.location, "listing the tags"):
            return {int(tag["version"]) for tag in self.dataset.tags.list().values()}

    def latest(self) -> int:
        """Return the table's newest version now, which may be newer than this one."""
        with translated(self.location, "looking for the newest version"):
            return int(self.dataset.latest_version)

    def data_files(self, version: int) -> set[str]:
        """Return the data files that a version has now; empty if cleanup has removed it."""
        try:
            # Open again: this dataset may have cached an earlier version with the same number.
            fragments = LanceStore(self.location).open(version=version).dataset.get_fragments()
        except TableNotFoundError:
            return set()
        return {file.path for fragment in fragments for file in fragment.data_files()}


class LanceStore:
    """A Lance table that can be read and changed. It keeps no handle open between calls."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self._uri = location.uri
        self._schema: tuple[int, Any] = (0, None)
        self._vended: dict[str, str] | None = None

    def open(self, *, version: int | str | None = None) -> LanceSnapshot:
        """Open the newest version without a cache, or the given version or tag.

        Raises:
            TableNotFoundError: The table does not exist, or has no such version.
            StorageError: The table cannot be read.
        """
        with translated(self.location, "opening the table"):
            arguments = self.location.lance_arguments()
            try:
                dataset = lance.dataset(self.location.uri or None, version=version, **arguments)
            except lance_errors() as error:
                if not _is_no_table(error):
                    raise
                raise no_table(self.location, "check the path, or create the table.") from None
        self._uri = dataset.uri
        if self.location.namespace:
            self._vended = dataset.latest_storage_options()
        self._schema = (int(dataset.version), dataset.lance_schema)
        return LanceSnapshot(dataset, self.location, self._files())

    def publish(self, operation: Operation, *, read_version: int, properties: Mapping[str, str]) -> Published:
        """Commit one new version; if the commit fails, read the table to find out whether it landed.

        Raises:
            CommitConflictError: A concurrent transaction conflicts. The version was not committed.
            StorageError: The commit failed, and the version is not in the table.
            CommitUnknownError: The commit failed, and the table cannot be read to find out whether it landed.
        """
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
                f"The commit to {self.location} conflicts with a concurrent one: {answer_of(self.location, error)}",
                retryable=bool(error.retryable) or isinstance(operation, Replace),
                hint="the epoch has not landed; restart the query to run it again.",
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
        """Return the schema of a version; usually that of the version opened last."""
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
            f"Version {version} of {self.location} was removed by a cleanup during a commit.", retryable=True
        )

    def _find_out(self, uuid: str, read_version: int, error: Exception) -> Published:
        try:
            snapshot = self.open()
            for version in range(snapshot.version, read_version, -1):
                entry = snapshot.entry(version)
                if entry is not None and entry.uuid == uuid:
                    _log.warning("A commit to %s raised, but landed as version %d.", self.location, version)
                    return Published(version, uuid)
        except HeadraceError as second:
            raise CommitUnknownError(
                f"A commit to {self.location} failed, and it is not known whether it landed: "
                f"{answer_of(self.location, error)}; "
                f"reading the table to find out failed too: {second}",
                hint="restart the query; it finds out before it commits again.",
            ) from self.location.cause(error)
        if _is_missing(error) and snapshot.version > read_version:
            raise self._cleaned(read_version) from None
        failed = f"A commit to {self.location} failed and did not land"
        raise storage_error(failed, self.location, error) from self.location.cause(error)

    def missing_files(self, files: Sequence[str]) -> list[str]:
        """Return the data files among ``files`` that do not exist."""
        with translated(self.location, "looking for data files"):
            session = self._files()
            return [
                file for file, is_there in _each(lambda file: session.contains(f"data/{file}"), files) if not is_there
            ]

    def delete_files(self, files: Sequence[str]) -> None:
        """Delete data files, best effort; files that do not exist are ignored."""
        with translated(self.location, "looking for data files"):
            session = self._files()

        def delete(file: str) -> None:
            with contextlib.suppress(*lance_errors()):
                session.delete_file(f"data/{file}")

        _each(delete, files)

    def list_notes(self) -> list[str]:
        """Return the names of the notes in the table's directory."""
        with translated(self.location, "listing the notes"):
            return sorted(path.rpartition("/")[2] for path in self._files().list(_NOTES))

    def read_note(self, name: str) -> str | None:
        """Return the text of a note, or None if there is none of this name."""
        with translated(self.location, "reading a note"):
            try:
                content = self._files().read_range(f"{_NOTES}/{name}", 0, _NOTE_BYTES)
            except OSError as error:
                if _is_missing(error):
                    return None
                raise
        return bytes(content).decode().rstrip()

    def write_note(self, name: str, text: str) -> None:
        """Write a small text file into the table's directory, where cleanup does not delete it.

        Raises:
            LandingError: The text is too long for a note.
            StorageError: The note cannot be written.
        """
        content = text.encode()
        if len(content) > _NOTE_BYTES:
            raise LandingError(f"The note {name!r} has {len(content)} bytes; the maximum is {_NOTE_BYTES}.")
        with translated(self.location, "writing a note"), tempfile.NamedTemporaryFile() as file:
            file.write(content.ljust(_NOTE_BYTES))
            file.flush()
            self._files().upload_file(file.name, f"{_NOTES}/{name}")

    def delete_note(self, name: str) -> None:
        """Delete a note, best effort."""
        with contextlib.suppress(*lance_errors()):
            self._files().delete_file(f"{_NOTES}/{name}")

    def _arguments(self) -> dict[str, Any]:
        """Return Lance's arguments; Lance renews a namespace's credentials, but must be given the first ones."""
        arguments = self.location.lance_arguments()
        return arguments | ({"storage_options": self._vended} if self._vended else {})

    def _files(self) -> LanceFileSession:
        return LanceFileSession(self._uri, **self._arguments())


def no_table(location: Location, hint: str) -> TableNotFoundError:
    """Return the error about a table that does not exist."""
    return TableNotFoundError(f"There is no Lance table at {location}.", hint=hint)


def _is_no_table(error: Exception) -> bool:
    if isinstance(error, ValueError):
        return _is_missing(error)
    return type(error).__name__ in ("TableNotFoundError", "NamespaceNotFoundError")


def columns_of(schema: Any) -> dict[int, Column]:
    """Return the columns of a Lance schema by field id, nested ones included."""
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
    with ThreadPoolExecutor(min(_MAX_REQUESTS, len(files))) as pool:
        return list(zip(files, pool.map(call, files), strict=True))


def _version_of(name: str) -> int:
    """Return the version in a manifest's file name, which counts up, or down from 2**64 - 1; 0 for other files."""
    stem, _, suffix = name.partition(".")
    if suffix != "manifest" or not stem.isdecimal():
        return 0
    number = int(stem)
    return 2**64 - 1 - number if number >= 2**63 else number


def _is_missing(error: BaseException) -> bool:
    text = str(error)
    return "was not found" in text or "Not found" in text
