"""The pipeline file: what it may say, checked, with errors that point at the line.

Loads neither Spark nor Lance.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NoReturn

import msgspec

from headrace.errors import ConfigurationError, StorageError
from headrace.pipeline.toml_lines import line_of

_VARIABLE = re.compile(r"\$\{(\w+)\}")
_NAME = re.compile(r"[A-Za-z_]\w*")
_PLACE = re.compile(r" - at `\$\.?(.*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_ENUM = re.compile(r"Invalid enum value ('.*')")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_KINDS = {"str": "text", "int": "a whole number", "bool": "true or false", "array": "a list", "object": "a table"}

_CHOICES = {"table.mode": ("append", "complete", "update", "upsert"), "table.on_table_replaced": ("fail", "accept")}


class _Quiet:
    """Shows the names of what may be secret, and no values."""

    def __repr__(self) -> str:
        shown = {
            name: sorted(value) if isinstance(value, dict) else value
            for name, value in ((each, getattr(self, each)) for each in self.__struct_fields__)
        }
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    __struct_fields__: tuple[str, ...]


class Source(_Quiet, msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where rows come from: any streaming source of Spark.

    Attributes:
        format: Spark's name of it, such as ``json``, ``rate``, ``lance`` or ``kafka``.
        path: Where it is, for those that are somewhere.
        schema: The columns, as in a CREATE TABLE; files need it.
        options: Whatever else it can be told.
    """

    format: str
    path: str | None = None
    schema: str | None = None
    options: dict[str, Any] = {}


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A query over what came before: ``source``, or the name of an earlier step.

    Attributes:
        sql: The query, in Spark's SQL.
        name: What later steps call it.
    """

    sql: str
    name: str | None = None


class TableConfig(_Quiet, msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where rows go.

    Attributes:
        uri: The Lance table.
        mode: What becomes of rows that are there.
        keys: The columns by which rows are recognised, for ``upsert``.
        create: Whether to make a table that is not there.
        merge_schema: Whether to add columns that it does not have.
        on_table_replaced: Whether to continue in a table that no longer has the epochs that landed in it.
        compact_every_epochs: Put small files together after every so many epochs.
        compact_above_fragments: Put small files together when there are more of them.
        retain_versions: Keep so many versions, after that.
        storage: Storage options of the object store.
    """

    uri: str
    mode: Literal["append", "complete", "update", "upsert"] = "append"
    keys: tuple[str, ...] = ()
    create: bool = False
    merge_schema: bool = False
    on_table_replaced: Literal["fail", "accept"] = "fail"
    compact_every_epochs: int | None = None
    compact_above_fragments: int | None = None
    retain_versions: int | None = None
    storage: dict[str, Any] = {}


class Spark(_Quiet, msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The Spark that runs it.

    Attributes:
        master: Its address; ``local[*]`` is one inside this process.
        conf: Settings of the session.
    """

    master: str = "local[*]"
    conf: dict[str, Any] = {}


class Pipeline(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole file.

    Attributes:
        name: The key by which landed epochs are recognised; it is the query's for good.
        source: Where rows come from.
        table: Where they go.
        step: What is done with them, in this order.
        checkpoint: Spark's own notes of how far it is.
        trigger: With ``--follow``, how often an epoch begins, as in ``10 seconds``; at once if not given.
        spark: The Spark that runs it.
    """

    name: str
    source: Source
    table: TableConfig
    step: tuple[Step, ...] = ()
    checkpoint: str = ""
    trigger: str | None = None
    spark: Spark = Spark()


def load(path: Path, environment: Mapping[str, str] = os.environ) -> Pipeline:
    """Read a pipeline file. Relative paths in it are relative to the file; ``${NAME}`` is taken from the environment.

    Raises:
        StorageError: It cannot be read.
        ConfigurationError: It says something it may not; the message has the file, the line and the key.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(
            f"{path} cannot be read: {error}", hint="headrace init writes a file to begin with."
        ) from None
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not TOML: {error}") from None
    return _Checker(path, text, environment).check(raw)


class _Checker:
    def __init__(self, path: Path, text: str, environment: Mapping[str, str]) -> None:
        self._path = path
        self._text = text
        self._environment = environment

    def check(self, raw: dict[str, Any]) -> Pipeline:
        try:
            found = msgspec.convert(self._filled(raw, ""), Pipeline)
        except msgspec.ValidationError as error:
            self._explain(str(error), raw)
        self._check_values(found)
        here = self._path.parent.absolute()
        source = found.source
        if source.path is not None:
            source = msgspec.structs.replace(source, path=_resolved(source.path, here))
        return msgspec.structs.replace(
            found,
            name=found.name.strip(),
            source=source,
            table=msgspec.structs.replace(found.table, uri=_resolved(found.table.uri, here)),
            checkpoint=_resolved(found.checkpoint or f".headrace/checkpoints/{_file_name(found.name)}", here),
        )

    def _check_values(self, found: Pipeline) -> None:
        for key, value in (
            ("name", found.name),
            ("source.format", found.source.format),
            ("table.uri", found.table.uri),
        ):
            if not value.strip():
                self.refuse(key, "must not be empty.")
        for key, options in (
            ("source.options", found.source.options),
            ("table.storage", found.table.storage),
            ("spark.conf", found.spark.conf),
        ):
            for name, value in options.items():
                if not isinstance(value, (str, int, float, bool)):
                    self.refuse(f"{key}.{name}", "must be text, a number, true or false.")
        names = ["source"]
        for number, step in enumerate(found.step):
            if not step.sql.strip():
                self.refuse(f"step[{number}].sql", "must not be empty.")
            if step.name is not None:
                if not _NAME.fullmatch(step.name):
                    self.refuse(
                        f"step[{number}].name", f"is {step.name!r}; it must be a name of letters, digits and _."
                    )
                if step.name in names:
                    self.refuse(f"step[{number}].name", f"is {step.name!r}, which is taken.")
                names.append(step.name)
        table = found.table
        if table.mode == "upsert" and not table.keys:
            self.refuse("table.mode", "is upsert, which needs keys.", hint='as in keys = ["id"].')
        if table.keys and table.mode != "upsert":
            self.refuse("table.keys", "goes with mode upsert only.")
        for name in ("compact_every_epochs", "compact_above_fragments", "retain_versions"):
            value = getattr(table, name)
            if value is not None and value < 1:
                self.refuse(f"table.{name}", f"is {value}; it must be at least 1.")

    def refuse(self, key: str, what: str, hint: str | None = None) -> NoReturn:
        line = line_of(self._text, key)
        place = f"{self._path}:{line}" if line else f"{self._path}"
        raise ConfigurationError(f"{place}: {key} {what}", hint=hint)

    def _explain(self, said: str, raw: dict[str, Any]) -> NoReturn:
        """Put what the decoder says into words, with the line."""
        place = _PLACE.search(said)
        where = place[1] if place else ""
        what = said[: place.start()] if place else said
        inside = f"{where}." if where else ""
        if unknown := _UNKNOWN.search(what):
            allowed = _fields_at(where)
            near = difflib.get_close_matches(unknown[1], allowed, 1)
            hint = f"did you mean {near[0]}?" if near else f"it can have {', '.join(allowed)}."
            self.refuse(f"{inside}{unknown[1]}", "is not known.", hint)
        if missing := _MISSING.search(what):
            self.refuse(where or missing[1], f"needs {missing[1]}." if where else "is missing.")
        if enum := _ENUM.search(what):
            self.refuse(where, f"is {enum[1]}; it can be {', '.join(_CHOICES[where])}.")
        for name, word in _KINDS.items():
            what = re.sub(rf"`{name}`|\b{name}\b(?=[ |`])", word, what)
        what = (
            what.replace("Expected ", "must be ", 1).replace(", got ", ", not ").replace("`", "").replace(" | null", "")
        )
        self.refuse(where, f"{what}.")

    def _filled(self, value: Any, key: str) -> Any:
        """With ``${NAME}`` replaced."""
        if isinstance(value, dict):
            return {name: self._filled(each, f"{key}.{name}" if key else name) for name, each in value.items()}
        if isinstance(value, list):
            return [self._filled(each, f"{key}[{number}]") for number, each in enumerate(value)]
        if not isinstance(value, str):
            return value

        def variable(found: re.Match[str]) -> str:
            if found[1] not in self._environment:
                self.refuse(key, f"needs the environment variable {found[1]}, which is not set.")
            return self._environment[found[1]]

        return _VARIABLE.sub(variable, value)


def _fields_at(place: str) -> list[str]:
    kinds: dict[str, type[msgspec.Struct]] = {"": Pipeline, "source": Source, "table": TableConfig, "spark": Spark}
    return list(kinds.get(place, Step).__struct_fields__)


def _resolved(location: str, folder: Path) -> str:
    """A path, relative to the file; a URI as it is."""
    if "://" in location or location.startswith("file:"):
        return location
    return str(folder / Path(location).expanduser())


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name.strip())
