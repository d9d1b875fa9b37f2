"""Upserts: tasks write rows to a staging directory, and the driver merges them by key in one transaction."""

from __future__ import annotations

import contextlib
import hashlib
import json
import uuid
from collections.abc import Sequence
from functools import cache

import pyarrow as pa
from lance.dataset import LanceDataset, LanceOperation
from lance.file import LanceFileSession
from lance.fragment import FragmentMetadata

from headrace.tables.commit.message import TaskMessage, one_per_partition
from headrace.tables.commit.payload import UpsertPayload
from headrace.tables.lance_errors import lance_errors, translated
from headrace.tables.lance_store import LanceSnapshot
from headrace.tables.location import Location
from headrace.tables.store import Merge, Snapshot

_STAGING = "_headrace/staging"


def staging_folder(query_id: str) -> str:
    """Return the folder, in the table's, that has the staging directories of a query."""
    return f"{_STAGING}/{hashlib.sha256(query_id.encode()).hexdigest()[:40]}"


def staging_for(snapshot: LanceSnapshot, location: Location, query_id: str) -> Location:
    """Return a new staging directory for one epoch, inside the table's; delete those of the query's earlier epochs."""
    uri = str(snapshot.dataset.uri)
    options = snapshot.dataset.latest_storage_options() or location.storage_options
    staging = Location(f"{uri}/{staging_folder(query_id)}/{uuid.uuid4().hex}", dict(options))
    _remove(Location(uri, dict(options)), staging_folder(query_id))
    return staging


def remove_staging(staging: Location) -> None:
    """Delete an epoch's staged rows, best effort."""
    base, _, name = staging.uri.rpartition("/")
    _remove(Location(base, staging.storage_options), name)


def _remove(base: Location, folder: str) -> None:
    # The query's next epoch deletes what cannot be deleted now.
    with contextlib.suppress(*lance_errors()):
        session = LanceFileSession(base.uri, storage_options=base.options())
        for path in session.list(folder):
            session.delete_file(path)


def staged_rows(
    messages: Sequence[TaskMessage], schema: pa.Schema, staging: Location, location: Location, keys: Sequence[str]
) -> UpsertPayload:
    """Return the rows that tasks have staged, as a payload to merge.

    The merge reads them back as a stream of batches. Lance itself keeps the keys of one side of the join in memory.

    Raises:
        LandingError: Two messages name the same partition or data file.
    """
    one_per_partition(messages)
    fragments = [FragmentMetadata.from_json(json.dumps(item)) for message in messages for item in message.fragments]

    @cache
    def staged() -> LanceDataset:
        change = LanceOperation.Overwrite(schema, fragments)
        return LanceDataset.commit(staging.uri, change, storage_options=staging.options())

    def merge(snapshot: Snapshot) -> Merge:
        assert isinstance(snapshot, LanceSnapshot)
        with translated(location, "merging rows"):
            builder = snapshot.dataset.merge_insert(list(keys)).when_matched_update_all().when_not_matched_insert_all()
            transaction, _ = builder.execute_uncommitted(staged().scanner().to_reader())
        return Merge(transaction)

    return UpsertPayload(sum(message.rows for message in messages), merge)
