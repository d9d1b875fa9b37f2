"""Load and check a pipeline file; errors name the file, the line and the key. Imports neither Spark nor Lance."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from headrace.errors import ConfigurationError
from headrace.pipeline.config import Pipeline, Run, Source, Spark, Step, TableConfig
from headrace.pipeline.durations import seconds_of
from headrace.pipeline.spelling import PipelineSpelling
from headrace.pipeline.toml_lines import line_of

_VARIABLE = re.compile(r"\$\{(\w+)\}")
_NAME = re.compile(r"[A-Za-z_]\w*")
_PLACE = re.compile(r" - at `\$\.?(.*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_ENUM = re.compile(r"Invalid enum value ('.*')")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_KINDS = {"str": "text", "int": "a whole number", "bool": "true or false", "array": "a list", "object": "a table"}

_CHOICES = {
    "table.mode": ("append", "complete", "update", "upsert"),
    "run.restart": ("on-failure", "never"),
}


def load(path: Path, environment: Mapping[str, str] = os.environ) -> Pipeline:
    """Read a pipeline file. Relative paths are relative to the file; ``${NAME}`` is an environment variable.

    Raises:
        ConfigurationError: The file cannot be read, or its content is not valid; then the message names the file, the
            line and the key.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(
            f"The pipeline file {path} cannot be read: {why}.",
            hint="check the path, or write an example with headrace init.",
        ) from None
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from None
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
            table=_resolved_table(found.table, here),
            checkpoint=_resolved(found.checkpoint or f".headrace/checkpoints/{_file_name(found.name)}", here),
        )

    def _check_values(self, found: Pipeline) -> None:
        if not found.source.format.strip():
            self.refuse("source.format", "must not be empty.")
        for key, options in (
            ("source.options", found.source.options),
            ("table.storage", found.table.storage),
            ("table.namespace_options", found.table.namespace_options),
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
                    self.refuse(f"step[{number}].name", f"is {step.name!r}; it may contain only letters, digits and _.")
                if step.name in names:
                    self.refuse(f"step[{number}].name", f"is {step.name!r}, which is already used.")
                names.append(step.name)
        table = found.table
        if table.mode == "upsert" and not table.keys:
            self.refuse("table.mode", "is upsert, which needs keys.", hint='set keys, for example keys = ["id"].')
        if table.keys and table.mode != "upsert":
            self.refuse("table.keys", "is only allowed with mode upsert.")
        found.sink_settings(PipelineSpelling(self._place))
        if found.run.max_restarts is not None and found.run.max_restarts < 0:
            self.refuse("run.max_restarts", f"is {found.run.max_restarts}; it must be at least 0.")
        for name in ("max_pause", "stuck_after"):
            text = getattr(found.run, name)
            if seconds_of(text) is None:
                self.refuse(f"run.{name}", f"is {text!r}, which is no duration.", hint='write it as "30 seconds".')

    def refuse(self, key: str, what: str, hint: str | None = None) -> NoReturn:
        raise ConfigurationError(f"{self._place(key)}{key} {what}", hint=hint)

    def _place(self, key: str) -> str:
        """Return the file and the line of a key, as the beginning of a message."""
        line = line_of(self._text, key)
        return f"{self._path}:{line}: " if line else f"{self._path}: "

    def _explain(self, message: str, raw: dict[str, Any]) -> NoReturn:
        """Raise msgspec's message as a ConfigurationError with the line."""
        place = _PLACE.search(message)
        where = place[1] if place else ""
        what = message[: place.start()] if place else message
        inside = f"{where}." if where else ""
        if unknown := _UNKNOWN.search(what):
            allowed = _fields_at(where)
            near = difflib.get_close_matches(unknown[1], allowed, 1)
            hint = f"did you mean {near[0]}?" if near else f"the known keys are {', '.join(allowed)}."
            self.refuse(f"{inside}{unknown[1]}", "is not known.", hint)
        if missing := _MISSING.search(what):
            self.refuse(where or missing[1], f"needs {missing[1]}." if where else "is missing.")
        if enum := _ENUM.search(what):
            self.refuse(where, f"is {enum[1]}; it must be one of {', '.join(_CHOICES[where])}.")
        for name, word in _KINDS.items():
            what = re.sub(rf"`{name}`|\b{name}\b(?=[ |`])", word, what)
        what = (
            what.replace("Expected ", "must be ", 1)
            .replace(", got ", ", not ")
            .replace("`", "")
            .replace(" | null", "")
            .replace(" | ", " or ")
        )
        self.refuse(where, f"{what}.")

    def _filled(self, value: Any, key: str) -> Any:
        """Return the value with every ``${NAME}`` replaced."""
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
    kinds: dict[str, type[msgspec.Struct]] = {
        "": Pipeline,
        "source": Source,
        "table": TableConfig,
        "spark": Spark,
        "run": Run,
    }
    return list(kinds.get(place, Step).__struct_fields__)


def _resolved(location: str, folder: Path) -> str:
    """Return a path relative to ``folder``; a URI unchanged."""
    if "://" in location or location.startswith("file:"):
        return location
    return str(folder / Path(location).expanduser())


def _resolved_table(table: TableConfig, folder: Path) -> TableConfig:
    """Return a table whose URI, and whose namespace's root, are not relative."""
    options = table.namespace_options
    if isinstance(root := options.get("root"), str):
        options = options | {"root": _resolved(root, folder)}
    uri = _resolved(table.uri, folder) if table.uri else None
    return msgspec.structs.replace(table, uri=uri, namespace_options=options)


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name.strip())
