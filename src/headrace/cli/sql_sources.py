"""The tables of `headrace sql`: those of --table, and files that a statement names by their paths."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.cli.sql_statements import tokens
from headrace.errors import HeadraceError, InvalidArgumentError, PlanError

if TYPE_CHECKING:
    from headrace.session.context import SessionContext
    from headrace.session.dataframe import DataFrame

_SUFFIXES = {
    ".lance": "lance",
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".ndjson": "json",
    ".jsonl": "json",
}
# The text before a table: a keyword or a comma.
_BEFORE_TABLE = re.compile(r"(?:^|[\s(])(?:from|join|describe)[\s(]*$|,[\s(]*$", re.IGNORECASE)
_BEFORE_LENGTH = 64


def register(session: SessionContext, name: str, uri: str, storage: dict[str, str]) -> None:
    """Register a Lance table, or a file or folder of parquet, csv or json.

    Raises:
        InvalidArgumentError: It is none of these.
        StorageError: It does not exist, or cannot be read.
    """
    kind = _kind(uri)
    if kind == "lance":
        session.register_lance(name, uri, storage_options=storage or None)
    elif kind == "parquet":
        session.register_parquet(name, uri)
    elif kind == "csv":
        session.register_csv(name, uri)
    elif kind == "json":
        session.register_json(name, uri)
    else:
        raise InvalidArgumentError(f"{uri} is neither a Lance table nor a file or folder of .parquet, .csv or .json.")


def plan(session: SessionContext, statement: str, storage: dict[str, str]) -> DataFrame:
    """Plan a statement, in which tables can be quoted paths: ``SELECT * FROM 'file.parquet'``.

    The session itself does not read paths in SQL. They are registered for this statement only, so that the next one
    sees a file that has changed.

    Raises:
        HeadraceError: A path cannot be read, or the statement cannot be planned.
    """
    from headrace.engine.names import quoted

    failures: dict[str, HeadraceError] = {}
    registered = []
    try:
        for path in quoted_paths(statement):
            try:
                register(session, quoted(path), path, storage)
                registered.append(path)
            except HeadraceError as error:
                failures[path] = error
        return session.sql(statement)
    except PlanError as error:
        # What looks like a path may be a text, as in trim('x' from 'a.csv'), so a failure counts only here.
        for path, failure in failures.items():
            if f".{path}' not found" in str(error):
                raise failure from error
        raise
    finally:
        for path in registered:
            session.deregister_table(quoted(path))


def quoted_paths(statement: str) -> list[str]:
    """Return the quoted texts at places where SQL expects a table, each once."""
    before, found = "", []
    for token in tokens(statement):
        if token.startswith("'") and len(token) > 2 and _BEFORE_TABLE.search(before):
            found.append(token[1:-1].replace("''", "'"))
        before = (before + (" " if token.startswith(("--", "/*")) else token))[-_BEFORE_LENGTH:]
    return list(dict.fromkeys(found))


def _kind(uri: str) -> str | None:
    path = Path(uri.rstrip("/"))
    if path.suffix in _SUFFIXES:
        return _SUFFIXES[path.suffix]
    if not path.is_dir():
        return None
    if (path / "_versions").is_dir():
        return "lance"
    inside = {_SUFFIXES[each.suffix] for each in path.iterdir() if each.suffix in _SUFFIXES}
    return inside.pop() if len(inside) == 1 else None
