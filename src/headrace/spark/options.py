"""Spark's options, text to text, become checked settings; every error names its option and what is allowed."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from headrace.errors import ConfigurationError
from headrace.tables.settings import FeedRules, Limit, ReadSettings, SinkSettings
from headrace.tables.sink_settings import batch_settings, location_of, stream_settings
from headrace.tables.spelling import Spelling

T = TypeVar("T")

QUERY_ID = "streamingQueryId"
LOOKBACK = "lance.streaming.dedupe.lookback.versions"
ON_GAP = "lance.streaming.onHistoryGap"
ON_RESET = "lance.streaming.onCheckpointReset"
ON_REPLACED = "lance.streaming.onTableReplaced"
CREATE = "createTable"
MERGE_SCHEMA = "mergeSchema"
OVERWRITE_SCHEMA = "overwriteSchema"
MAX_ROWS = "maxRowsPerFile"
MAX_BYTES = "maxBytesPerFile"
STORAGE_VERSION = "dataStorageVersion"
COLUMN_TYPES = "columnTypes"
NAMESPACE = "namespace"
TABLE_ID = "tableId"
COMPACT_EVERY = "compactEveryEpochs"
COMPACT_ABOVE = "compactAboveFragments"
RETAIN_VERSIONS = "retainVersions"

COLUMNS = "columns"
FILTER = "filter"
VERSION = "version"
TIMESTAMP = "timestamp"
PUSH_FILTERS = "pushFilters"
STARTING_VERSION = "startingVersion"
STARTING_TIMESTAMP = "startingTimestamp"
MAX_FILES_PER_TRIGGER = "maxFilesPerTrigger"
MAX_ROWS_PER_TRIGGER = "maxRowsPerTrigger"
MAX_BYTES_PER_TRIGGER = "maxBytesPerTrigger"
SKIP_CHANGES = "skipChangeCommits"
FAIL_ON_LOSS = "failOnDataLoss"
CHANGE_FEED = "readChangeFeed"

STORAGE_PREFIX = "storage."
NAMESPACE_PREFIX = "namespace."

FOR_WRITING = (
    QUERY_ID, LOOKBACK, ON_GAP, ON_RESET, ON_REPLACED, CREATE, MERGE_SCHEMA, OVERWRITE_SCHEMA, MAX_ROWS, MAX_BYTES,
    STORAGE_VERSION, COLUMN_TYPES, NAMESPACE, TABLE_ID, COMPACT_EVERY, COMPACT_ABOVE, RETAIN_VERSIONS,
)  # fmt: skip
FOR_BATCH_READS = (COLUMNS, FILTER, VERSION, TIMESTAMP, PUSH_FILTERS, NAMESPACE, TABLE_ID)
FOR_STREAM_READS = (
    COLUMNS, STARTING_VERSION, STARTING_TIMESTAMP, MAX_FILES_PER_TRIGGER, MAX_ROWS_PER_TRIGGER,
    MAX_BYTES_PER_TRIGGER, SKIP_CHANGES, FAIL_ON_LOSS, CHANGE_FEED, NAMESPACE, TABLE_ID,
)  # fmt: skip

# Taken note of by Spark, or meaningless for a sink: a pinned version or a write mode would break a stream.
_IGNORED = ("path", "checkpointLocation", "version", "write_mode", "queryName")

# An unknown option under one of these can only be ours.
_OUR_PREFIXES = ("lance.", "headrace.", "compact", "streaming")

# The option of each of LanceSink's arguments.
_NAMES = {
    "uri": "path",
    "query_id": QUERY_ID,
    "lookback_versions": LOOKBACK,
    "on_history_gap": ON_GAP,
    "on_checkpoint_reset": ON_RESET,
    "on_table_replaced": ON_REPLACED,
    "create_table": CREATE,
    "merge_schema": MERGE_SCHEMA,
    "overwrite_schema": OVERWRITE_SCHEMA,
    "max_rows_per_file": MAX_ROWS,
    "max_bytes_per_file": MAX_BYTES,
    "data_storage_version": STORAGE_VERSION,
    "column_types": COLUMN_TYPES,
    "namespace": NAMESPACE,
    "table_id": TABLE_ID,
    "compact_every_epochs": COMPACT_EVERY,
    "compact_above_fragments": COMPACT_ABOVE,
    "retain_versions": RETAIN_VERSIONS,
    "storage_options": f"{STORAGE_PREFIX}*",
    "namespace_options": f"{NAMESPACE_PREFIX}*",
}


class SparkSpelling(Spelling):
    """Options of a Spark reader or writer: names in camel case, values as text."""

    flags = ("true", "false")
    address_hint = (
        f'give the path, as in .start("s3://bucket/orders.lance"), or {NAMESPACE} and {TABLE_ID}, not both. '
        "toTable() and INSERT INTO do not hand one over."
    )

    def name(self, argument: str) -> str:
        """Return the option's name."""
        return _NAMES[argument]

    def setting(self, argument: str, value: str | bool) -> str:
        """Return an option with its value."""
        return f"{_NAMES[argument]}={str(value).lower() if isinstance(value, bool) else value}"

    def example(self, argument: str, value: str) -> str:
        """Return a call of ``option``."""
        return f'.option("{_NAMES[argument]}", "{value}")'

    def number(self, value: object) -> int | None:
        """Return digits, perhaps with a sign, as a number."""
        return int(str(value)) if re.fullmatch(r"-?[0-9]{1,18}", str(value)) else None

    def flag(self, value: object) -> bool | None:
        """Return the meaning of ``true`` or ``false``, in any case."""
        return {"true": True, "false": False}.get(str(value).lower())


SPARK = SparkSpelling()


class Options:
    """Options of one reader or writer, whatever the case of their names."""

    def __init__(self, options: Mapping[str, str], known: Sequence[str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        self._require_known(options, known)

    def _require_known(self, options: Mapping[str, str], known: Sequence[str]) -> None:
        names = {name.lower(): name for name in (*known, *_IGNORED)}
        # Writers are often handed the options of the stream they write, too.
        ours = () if known is FOR_WRITING else (*FOR_WRITING, *FOR_BATCH_READS, *FOR_STREAM_READS)
        elsewhere = {name.lower() for name in ours} - names.keys()
        for name in options:
            lowered = name.lower()
            if lowered in names or lowered.startswith((STORAGE_PREFIX, NAMESPACE_PREFIX)):
                continue
            if lowered in elsewhere:
                raise ConfigurationError(
                    f"{name!r} is no option of this kind of read or write.", hint=f"there are: {', '.join(known)}."
                )
            near = difflib.get_close_matches(lowered, names, 1, 0.8)
            if near or lowered.startswith(_OUR_PREFIXES):
                near = near or difflib.get_close_matches(lowered, names, 1, 0.0)
                raise ConfigurationError(
                    f"There is no option {name!r}.",
                    hint=f"did you mean {names[near[0]]!r}? There are: {', '.join(known)}, storage.*, namespace.*.",
                )

    def text(self, name: str) -> str:
        """The value of an option without the white space around it; empty if it was not given."""
        return str(self._values.get(name.lower(), "")).strip()

    def under(self, prefix: str) -> dict[str, str]:
        """All options under a prefix, without it."""
        return {
            name.removeprefix(prefix): value
            for name, value in self._values.items()
            if name.startswith(prefix) and value
        }

    def given(self) -> dict[str, Any]:
        """What a sink or an address is made of, by the names of LanceSink's arguments."""
        named = {argument: self.text(name) or None for argument, name in _NAMES.items()}
        return named | {
            "column_types": self._mapping(COLUMN_TYPES),
            "storage_options": self.under(STORAGE_PREFIX),
            "namespace_options": self.under(NAMESPACE_PREFIX),
        }

    def _mapping(self, name: str) -> dict[str, Any]:
        """Return the entries of an option that is a JSON object. Names of columns in option names would lose case."""
        value = self.text(name)
        try:
            found = json.loads(value or "{}")
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ConfigurationError(
                f"{name} is {value!r}; it must be a JSON object.", hint='as in {"embedding": "vector(128)"}.'
            )
        return found

    def choice(self, name: str, choices: Mapping[str, T], default: str) -> T:
        """The meaning of one of a few words."""
        value = self.text(name) or default
        if value.lower() not in choices:
            raise ConfigurationError(
                f"{name} is {value!r}; it must be {_listed(choices)}.", hint=f"the default is {default}."
            )
        return choices[value.lower()]

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false."""
        return self.choice(name, {"true": True, "false": False}, str(default).lower())

    def number(self, name: str, least: int, most: int, default: int | None = None) -> int | None:
        """A whole number within bounds."""
        value = self.text(name)
        if not value:
            return default
        number = int(value) if re.fullmatch(r"-?[0-9]{1,18}", value) else None
        if number is None or not least <= number <= most:
            raise ConfigurationError(
                f"{name} is {value!r}; it must be a whole number from {least} to {most}.",
                hint=f"the default is {default}." if default is not None else "leave it out for no limit.",
            )
        return number

    def moment(self, name: str) -> datetime | None:
        """A point in time, in UTC if it does not say."""
        value = self.text(name)
        if not value:
            return None
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise ConfigurationError(
                f"{name} is {value!r}; it must be a date and time.", hint="as in 2026-03-01T12:00:00+00:00."
            ) from None
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def streaming(options: Mapping[str, str]) -> SinkSettings:
    """The settings of a streaming sink.

    Raises:
        ConfigurationError: An option is missing, unknown or wrong; the message names it.
    """
    parsed = Options(options, FOR_WRITING)
    if parsed.text(OVERWRITE_SCHEMA):
        raise ConfigurationError(
            f"{OVERWRITE_SCHEMA} is for batch overwrites; a stream keeps the table's schema.",
            hint=f"use {MERGE_SCHEMA}=true to add columns.",
        )
    return stream_settings(parsed.given(), SPARK)


def batch(options: Mapping[str, str]) -> SinkSettings:
    """The settings of a batch write, which creates the table if there is none.

    Raises:
        ConfigurationError: An option is unknown or wrong; the message names it.
    """
    return batch_settings(Options(options, FOR_WRITING).given(), SPARK)


def reading(options: Mapping[str, str]) -> ReadSettings:
    """The settings of a batch read.

    Raises:
        ConfigurationError: Naming the option that is unknown or wrong.
    """
    parsed = Options(options, FOR_BATCH_READS)
    version, timestamp = _version(parsed)
    return ReadSettings(
        location_of(parsed.given(), SPARK),
        _columns(parsed),
        parsed.text(FILTER),
        version,
        timestamp,
        parsed.flag(PUSH_FILTERS),
    )


def any_reading(options: Mapping[str, str]) -> ReadSettings:
    """Return the settings that decide a read's schema, before it is known whether it is a batch or a stream."""
    parsed = Options(options, (*FOR_BATCH_READS, *FOR_STREAM_READS))
    version, timestamp = _version(parsed)
    return ReadSettings(
        location_of(parsed.given(), SPARK),
        _columns(parsed),
        version=version,
        timestamp=timestamp,
        feed=FeedRules(with_updates=parsed.flag(CHANGE_FEED)),
    )


def stream_reading(options: Mapping[str, str]) -> ReadSettings:
    """The settings of a streaming read.

    Raises:
        ConfigurationError: Naming the option that is unknown or wrong.
    """
    parsed = Options(options, FOR_STREAM_READS)
    if parsed.text(VERSION):
        raise ConfigurationError(f"{VERSION} is for batch reads.", hint=f"use {STARTING_VERSION} for a stream.")
    start: Any = parsed.text(STARTING_VERSION).lower()
    timestamp = parsed.moment(STARTING_TIMESTAMP)
    if start and timestamp is not None:
        raise ConfigurationError(f"{STARTING_VERSION} and {STARTING_TIMESTAMP} both say where to begin.")
    if start.isdecimal() and int(start) > 0:
        start = int(start)
    elif start not in ("", "earliest", "latest"):
        raise ConfigurationError(
            f"{STARTING_VERSION} is {start!r}; it must be a version's number, earliest or latest.",
            hint="the default is earliest: the rows that are there, and then what is added.",
        )
    rules = FeedRules(
        timestamp or start or "earliest",
        parsed.flag(SKIP_CHANGES),
        parsed.flag(FAIL_ON_LOSS, True),
        parsed.flag(CHANGE_FEED),
        Limit(
            parsed.number(MAX_FILES_PER_TRIGGER, 1, 10**12),
            parsed.number(MAX_ROWS_PER_TRIGGER, 1, 10**12),
            parsed.number(MAX_BYTES_PER_TRIGGER, 1, 10**15),
        ),
    )
    return ReadSettings(location_of(parsed.given(), SPARK), _columns(parsed), feed=rules)


def _version(parsed: Options) -> tuple[int | str | None, datetime | None]:
    version, timestamp = parsed.text(VERSION), parsed.moment(TIMESTAMP)
    if version and timestamp is not None:
        raise ConfigurationError(f"{VERSION} and {TIMESTAMP} both name a version.", hint="leave one out.")
    return int(version) if version.isdecimal() else version or None, timestamp


def _columns(parsed: Options) -> tuple[str, ...]:
    return tuple(name for part in parsed.text(COLUMNS).split(",") if (name := part.strip()))


def _listed(choices: Mapping[str, Any]) -> str:
    *most, last = choices
    return f"{', '.join(most)} or {last}" if most else last
