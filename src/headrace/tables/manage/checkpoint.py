"""What Spark's own checkpoint of a query says: whose it is, and which epochs are done."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from headrace.errors import StorageError
from headrace.tables.commit.epochs import Epochs


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint.

    Attributes:
        id: Spark's id of the query; the same as long as the checkpoint is.
        planned: Epochs whose offsets are noted; Spark keeps the last hundred or so.
        done: Epochs that Spark has noted as done, of those.
    """

    id: str
    planned: Epochs
    done: Epochs


def read(location: str) -> Checkpoint:
    """Read a checkpoint, in a local folder or an object store that pyarrow knows.

    Raises:
        StorageError: There is none, or it cannot be read.
    """
    try:
        store, path = _open(location)
        with store.open_input_stream(f"{path}/metadata") as file:
            identity = str(json.loads(file.read())["id"])
        return Checkpoint(identity, _epochs(store, f"{path}/offsets"), _epochs(store, f"{path}/commits"))
    except (OSError, pa.ArrowInvalid, ValueError, KeyError, TypeError) as error:
        raise StorageError(
            f"There is no checkpoint of a Spark query at {location}: {str(error).splitlines()[0]}",
            hint="name the folder that was given as checkpointLocation; it has a file named metadata.",
        ) from error


def read_if_local(location: str) -> Checkpoint | None:
    """Read a checkpoint in a local folder; None if it is elsewhere, or is none.

    For a look that must cost nothing: an object store that does not answer takes its time to say so.
    """
    if not location or not _is_local(location):
        return None
    try:
        return read(location)
    except StorageError:
        return None


def _is_local(location: str) -> bool:
    return "://" not in location or location.startswith("file:")


def _open(location: str) -> tuple[fs.FileSystem, str]:
    if not _is_local(location):
        store, path = fs.FileSystem.from_uri(location.replace("s3a://", "s3://", 1))
        return store, path
    return fs.LocalFileSystem(), str(Path(location.removeprefix("file://").removeprefix("file:")).absolute())


def _epochs(store: fs.FileSystem, folder: str) -> Epochs:
    found = store.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return Epochs.of(*(int(each.base_name) for each in found if each.base_name.isdecimal()))
