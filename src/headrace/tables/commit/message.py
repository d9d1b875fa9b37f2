"""The message from a task to the driver about the files it wrote: versioned JSON, validated when read."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace._counts import counted
from headrace.errors import LandingError
from headrace.tables.commit.ledger import QueryRun
from headrace.tables.spelling import Words
from headrace.tables.store import Column

VERSION = 2
# Version 1 does not count null rows.
_READABLE = (1, VERSION)
MAX_BYTES = 16 * 1024 * 1024

# The name of a Lance data file, never a path: a message must not point outside of the table's data folder.
_FILE_NAME = re.compile(r"[0-9A-Za-z_-]{1,128}\.lance")


@dataclass(frozen=True, slots=True)
class TaskMessage:
    """The files that one task wrote.

    Attributes:
        partition: The task's partition; each lands once.
        rows: The number of rows in the files.
        fragments: Lance's own description of the files, as JSON values.
        columns: The columns in the files, by Lance's field id.
        run: The run that the task belongs to, or None if Spark did not say.
        epoch: The epoch that the task belongs to, or None if Spark did not say.
        null_rows: The number of rows that were null in every column they came with.
    """

    partition: int
    rows: int = 0
    fragments: tuple[Mapping[str, Any], ...] = ()
    columns: Mapping[int, Column] | None = None
    run: QueryRun | None = None
    epoch: int | None = None
    null_rows: int = 0

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the data files."""
        return tuple(file["path"] for fragment in self.fragments for file in fragment["files"])

    def to_json(self, words: Words = Words()) -> str:  # noqa: B008 - frozen
        """Return the message as JSON.

        Args:
            words: How hints name settings.

        Raises:
            LandingError: The message is larger than ``MAX_BYTES``.
        """
        value = {
            "version": VERSION,
            "partition": self.partition,
            "rows": self.rows,
            "fragments": list(self.fragments),
            "columns": {
                str(number): [column.name, column.type, column.is_nullable]
                for number, column in (self.columns or {}).items()
            },
            "run": [self.run.id, self.run.checkpoint] if self.run else None,
            "epoch": self.epoch,
            "null_rows": self.null_rows,
        }
        text = json.dumps(value, separators=(",", ":"))
        if len(text) > MAX_BYTES:
            raise LandingError(
                f"Partition {self.partition} wrote {counted(len(self.fragments), 'file')}: too many for one message.",
                hint=f"raise {words.file_limits}, or repartition.",
            )
        return text

    @classmethod
    def from_json(cls, text: str) -> TaskMessage:
        """Parse and validate a message.

        Raises:
            LandingError: The text is not a valid message of this version or the one before.
        """
        if len(text) > MAX_BYTES:
            raise LandingError(f"A task's message has {len(text)} characters; {MAX_BYTES} are allowed.")
        try:
            value = json.loads(text)
            version = value["version"]
            if version not in _READABLE:
                raise LandingError(
                    f"A task's message has version {version!r} and this driver reads versions "
                    f"{_READABLE[0]} and {VERSION}.",
                    hint="install the same release of headrace on the driver and on all executors.",
                )
            message = cls(
                partition=_number(value["partition"]),
                rows=_number(value["rows"]),
                fragments=tuple(_fragment(fragment) for fragment in value["fragments"]),
                columns={int(number): Column(*column) for number, column in value["columns"].items()},
                run=QueryRun(*map(str, value["run"])) if value["run"] is not None else None,
                epoch=_number(value["epoch"]) if value["epoch"] is not None else None,
                null_rows=_number(value["null_rows"]) if version == VERSION else 0,
            )
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise LandingError(f"A task's message cannot be read: {error!r}.") from error
        counted = sum(fragment["physical_rows"] for fragment in message.fragments)
        if counted != message.rows or message.null_rows > message.rows:
            raise LandingError(f"The message of partition {message.partition} does not count its own rows right.")
        return message


def _fragment(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("a fragment is not an object")
    _number(value["physical_rows"])
    if value.get("deletion_file") is not None or not value["files"]:
        raise ValueError("a new fragment has a deletion file, or no data file")
    for file in value["files"]:
        if (
            not isinstance(file["path"], str)
            or not _FILE_NAME.fullmatch(file["path"])
            or file.get("base_id") is not None
        ):
            raise ValueError("a file is not one of the table's data files")
    return value


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value


def one_per_partition(messages: Sequence[TaskMessage]) -> None:
    """Check that each partition has one message: a task's other attempts must not land.

    Raises:
        LandingError: A partition or a data file occurs twice.
    """
    partitions = Counter(f"partition {message.partition}" for message in messages)
    files = Counter(f"file {file}" for message in messages for file in message.files)
    for named, times in (partitions + files).items():
        if times > 1:
            raise LandingError(
                f"The tasks' messages name {named} {times} times; nothing was committed.",
                hint="this is a defect of headrace or Spark: report it.",
            )
