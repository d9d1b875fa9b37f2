"""Sink settings from what a user gave, checked. A `Spelling` says how the user writes names and values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from headrace.errors import ConfigurationError
from headrace.tables.location import Location
from headrace.tables.settings import DEFAULT_LOOKBACK, CompactionRules, FileSettings, Rules, SinkSettings, Vector
from headrace.tables.spelling import Spelling, Words

T = TypeVar("T")

_LONGEST_QUERY_ID = 1024
_MOST_LOOKBACK = 10_000
_FEWEST_RETAINED = 10
_LONGEST_VECTOR = 1_000_000
_VECTOR = re.compile(r"vector\(\s*([1-9]\d{0,6})\s*(?:,\s*(\w+)\s*)?\)")
_ELEMENTS = ("float16", "float32", "float64", "int8", "uint8")
_STORAGE_VERSIONS = ("stable", "2.0", "2.1", "2.2", "2.3", "next", "legacy")


def stream_settings(given: Mapping[str, Any], spelling: Spelling) -> SinkSettings:
    """The settings of a streaming sink.

    Args:
        given: Values by the names of ``LanceSink``'s arguments; None and missing are alike.
        spelling: How the user wrote them.

    Raises:
        ConfigurationError: A setting is missing or wrong; the message names it.
    """
    query_id, name = given.get("query_id"), spelling.name("query_id")
    if query_id is not None and not isinstance(query_id, str):
        raise spelling.refusal("query_id", f"{name} is {query_id!r}; it must be text.")
    query_id = (query_id or "").strip()
    if not query_id:
        raise spelling.refusal(
            "query_id",
            f"{name} is missing or blank: it is the key by which headrace recognises epochs that have landed.",
            hint=f"choose a name that no other query on this table has, as in "
            f"{spelling.example('query_id', 'orders-v1')}.",
        )
    if len(query_id) > _LONGEST_QUERY_ID:
        raise spelling.refusal("query_id", f"{name} has {len(query_id)} characters; {_LONGEST_QUERY_ID} are allowed.")
    values = _Values(given, spelling)
    accepts = {"fail": False, "accept": True}
    rules = Rules(
        query_id,
        values.number("lookback_versions", 1, _MOST_LOOKBACK, DEFAULT_LOOKBACK) or DEFAULT_LOOKBACK,
        values.choice("on_history_gap", {"warn": "warn", "fail": "fail"}, "warn"),
        values.choice("on_checkpoint_reset", accepts, "fail"),
        values.choice("on_table_replaced", accepts, "fail"),
        Words.of(spelling),
    )
    return _settings(values, rules, creates=False)


def batch_settings(given: Mapping[str, Any], spelling: Spelling) -> SinkSettings:
    """The settings of a batch write, which creates the table if there is none; arguments as for `stream_settings`.

    Raises:
        ConfigurationError: A setting is wrong; the message names it.
    """
    return _settings(_Values(given, spelling), Rules("", words=Words.of(spelling)), creates=True)


def location_of(given: Mapping[str, Any], spelling: Spelling) -> Location:
    """The table's address; arguments as for `stream_settings`.

    Raises:
        ConfigurationError: It is missing, given twice or incomplete.
    """
    values = _Values(given, spelling)
    uri, namespace, table_id = values.text("uri"), values.text("namespace"), values.parts("table_id")
    names = {argument: spelling.name(argument) for argument in ("uri", "namespace", "table_id")}
    if bool(namespace) != bool(table_id):
        only = names["namespace" if namespace else "table_id"]
        raise spelling.refusal(
            "namespace" if namespace else "table_id",
            f"{names['namespace']} and {names['table_id']} go together, and only {only} is given.",
            hint=f"as in {spelling.example('namespace', 'rest')} and {spelling.example('table_id', 'sales.orders')}.",
        )
    if bool(uri) == bool(namespace):
        raise spelling.refusal(
            "uri",
            f"The table's address is given twice: as a {names['uri']}, and in a namespace."
            if uri
            else f"The table's address is missing: there is no {names['uri']}.",
            hint=spelling.address_hint,
        )
    if uri.startswith("file:"):
        uri = "/" + uri.removeprefix("file:").lstrip("/")
    return Location(uri, values.mapping("storage_options"), namespace, values.mapping("namespace_options"), table_id)


def _settings(values: _Values, rules: Rules, *, creates: bool) -> SinkSettings:
    every, above = values.number("compact_every_epochs", 1, 10**9), values.number("compact_above_fragments", 1, 10**9)
    retained = values.number("retain_versions", _FEWEST_RETAINED, 10**9)
    spelling = values.spelling
    if retained is not None and every is None and above is None:
        raise spelling.refusal(
            "retain_versions",
            f"{spelling.name('retain_versions')} is part of compaction, and compaction is off.",
            f"set {spelling.name('compact_every_epochs')} or {spelling.name('compact_above_fragments')} too.",
        )
    versions = {version: version for version in _STORAGE_VERSIONS}
    creates, merges = values.flag("create_table", creates), values.flag("merge_schema", False)
    replaces = values.flag("overwrite_schema", False)
    types = values.column_types("column_types")
    if types and not (creates or merges or replaces):
        raise spelling.refusal(
            "column_types",
            f"{spelling.name('column_types')} is for columns that are created, and this sink creates none.",
            f"set {spelling.setting('create_table', True)}, or leave {spelling.name('column_types')} out.",
        )
    return SinkSettings(
        location_of(values.given, spelling),
        rules,
        FileSettings(
            values.number("max_rows_per_file", 1, 10**12),
            values.number("max_bytes_per_file", 1, 10**12),
            values.choice("data_storage_version", versions, "stable") if values.has("data_storage_version") else None,
        ),
        creates,
        merges,
        replaces,
        CompactionRules(every, above, retained),
        types,
    )


class _Values:
    """Given values, checked one by one."""

    def __init__(self, given: Mapping[str, Any], spelling: Spelling) -> None:
        self.given = given
        self.spelling = spelling

    def has(self, argument: str) -> bool:
        return self.given.get(argument) is not None

    def text(self, argument: str) -> str:
        value = self.given.get(argument)
        if value is not None and not isinstance(value, str):
            raise self._wrong(argument, "text")
        return (value or "").strip()

    def parts(self, argument: str) -> tuple[str, ...]:
        value = self.given.get(argument)
        if value is None or isinstance(value, str):
            return tuple(part for part in (value or "").strip().split(".") if part)
        if not isinstance(value, Sequence) or not all(isinstance(part, str) and part for part in value):
            raise self._wrong(argument, "text such as 'sales.orders', or its parts")
        return tuple(value)

    def mapping(self, argument: str) -> dict[str, str]:
        value = self.given.get(argument) or {}
        if not isinstance(value, Mapping) or not all(
            isinstance(name, str) and isinstance(each, str) for name, each in value.items()
        ):
            # Without the value: it may be a secret.
            raise self.spelling.refusal(argument, f"{self.spelling.name(argument)} can be a mapping of text to text.")
        return {name: each for name, each in value.items() if each}

    def column_types(self, argument: str) -> tuple[tuple[str, Vector], ...]:
        given = self.given.get(argument) or {}
        if not isinstance(given, Mapping):
            raise self._wrong(argument, "a mapping of columns to types")
        return tuple((str(column), self._vector(argument, str(column), value)) for column, value in given.items())

    def _vector(self, argument: str, column: str, value: object) -> Vector:
        found = _VECTOR.fullmatch(value.strip().lower()) if isinstance(value, str) else None
        if found is None or int(found[1]) > _LONGEST_VECTOR or (found[2] or _ELEMENTS[1]) not in _ELEMENTS:
            raise self.spelling.refusal(
                argument,
                f"{self.spelling.entry(argument, column)} is {value!r}; it must be vector(SIZE) or "
                f"vector(SIZE, ELEMENT), where ELEMENT is {_listed(_ELEMENTS)}.",
                "as in vector(128). Leave out columns of types that Spark has.",
                key=column,
            )
        return Vector(int(found[1]), found[2] or _ELEMENTS[1])

    def choice(self, argument: str, choices: Mapping[str, T], default: str) -> T:
        value = self.given.get(argument) or default
        key = value.strip().lower() if isinstance(value, str) else ""
        if key not in choices:
            raise self._wrong(argument, _listed(tuple(choices)), default)
        return choices[key]

    def flag(self, argument: str, default: bool) -> bool:
        if not self.has(argument):
            return default
        value = self.spelling.flag(self.given[argument])
        if value is None:
            words = self.spelling.flags
            raise self._wrong(argument, _listed(words), words[0 if default else 1])
        return value

    def number(self, argument: str, least: int, most: int, default: int | None = None) -> int | None:
        if not self.has(argument):
            return default
        number = self.spelling.number(self.given[argument])
        if number is None or not least <= number <= most:
            raise self._wrong(argument, f"a whole number from {least} to {most}", default)
        return number

    def _wrong(self, argument: str, allowed: str, default: object = None) -> ConfigurationError:
        return self.spelling.refusal(
            argument,
            f"{self.spelling.name(argument)} is {self.given.get(argument)!r}; it must be {allowed}.",
            hint=f"the default is {default}." if default is not None else "leave it out for the default.",
        )


def _listed(words: Sequence[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last
