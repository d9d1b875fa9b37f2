"""Read a Spark query's checkpoint: the query's id, and which epochs are planned and committed."""

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
    """The content of a checkpoint.

    Attributes:
        id: Spark's query id, which is the same for the checkpoint's whole life.
        planned: Epochs in the offset log; Spark keeps about the last hundred.
        done: Epochs in the commit log.
    """

    id: str
    planned: Epochs
    done: Epochs


def read(location: str) -> Checkpoint:
    """Read a checkpoint from a local folder or an object store that pyarrow supports.

    Raises:
        StorageError: There is no checkpoint, or it cannot be read.
    """
    try:
        store, path = _open(location)
        with store.open_input_stream(f"{path}/metadata") as file:
            identity = str(json.loads(file.read())["id"])
        return Checkpoint(identity, _epochs(store, f"{path}/offsets"), _epochs(store, f"{path}/commits"))
    except (OSError, pa.ArrowInvalid, ValueError, KeyError, TypeError) as error:
        reason = "" if isinstance(error, FileNotFoundError) else f": {str(error).splitlines()[0]}"
        raise StorageError(
            f"There is no checkpoint of a Spark query at {location}{reason}.",
            hint="give the folder of the query's checkpoint; it contains a file named metadata.",
        ) from error


def read_if_local(location: str) -> Checkpoint | None:
    """Read a checkpoint from a local folder; return None if it is not local or not a checkpoint.

    For callers that must not wait: an object store that does not answer only fails after its timeout.
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
