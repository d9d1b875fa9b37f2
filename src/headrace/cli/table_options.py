"""Arguments and options that the commands on a table share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headrace.cli.no_pandas import keep_pandas_out
from headrace.errors import TableNotFoundError

if TYPE_CHECKING:
    from headrace.tables.lance_store import LanceStore

Function = TypeVar("Function", bound=Callable[..., Any])

# How many tables a hint lists.
_MOST_TABLES = 5


def pairs(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    """Parse a repeatable option of the form KEY=VALUE.

    Raises:
        click.BadParameter: A value is not of this form.
    """
    found = [value.partition("=") for value in values]
    for name, sign, _value in found:
        if not name or not sign:
            # The value may be a secret, so the message does not repeat it.
            raise click.BadParameter(f"it must have the form {parameter.make_metavar(context)}.", param=parameter)
    return {name: value for name, _, value in found}


def on_a_table(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument TABLE, a URI, and the option --storage to a command.

    If there is no such table, the hint of the error lists the tables that are near.
    """

    @wraps(command)
    def checked(table: str, **given: Any) -> Any:
        keep_pandas_out()
        try:
            return command(table=table, **given)
        except TableNotFoundError as error:
            message = str(error).removesuffix(f" Hint: {error.hint}")
            raise TableNotFoundError(message, hint=_where_to_look(table)) from error

    storage = click.option(
        "--storage",
        metavar="KEY=VALUE",
        multiple=True,
        callback=pairs,
        help="A storage option, such as region=eu-west-1. Repeatable. Other users can see command lines: put secrets "
        "into the environment, such as AWS_SECRET_ACCESS_KEY.",
    )
    return click.argument("table")(storage(checked))


def as_json(command: Function) -> Function:
    """Add the option --json to a command."""
    return click.option("--json", "is_json", is_flag=True, help="Print one JSON object per line.")(command)


def open_store(table: str, storage: Mapping[str, str]) -> LanceStore:
    """Return the store of a table."""
    from headrace.tables.lance_store import LanceStore
    from headrace.tables.location import Location

    return LanceStore(Location(table, dict(storage)))


def _where_to_look(table: str) -> str:
    """Return a hint for a table that does not exist: the Lance tables in it or beside it, similar names first."""
    from difflib import SequenceMatcher

    if "://" in table:
        return "check the address and the storage options."
    path = Path(table)
    for folder in (path, path.parent):
        found = [each.parent for each in folder.glob("*.lance/_versions")]
        if found:
            found.sort(key=lambda each: (-SequenceMatcher(None, each.name, path.name).ratio(), each.name))
            more = f" and {len(found) - _MOST_TABLES} more" if len(found) > _MOST_TABLES else ""
            return f"check the path; found {', '.join(map(str, found[:_MOST_TABLES]))}{more}."
    if not path.parent.is_dir():
        return f"check the path; there is no folder {path.parent}."
    return f"check the path; {table} is a folder without versions." if path.is_dir() else "check the path."
