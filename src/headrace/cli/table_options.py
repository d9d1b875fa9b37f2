"""Arguments and options that the commands on a table share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from headrace.tables.lance_store import LanceStore

Function = TypeVar("Function", bound=Callable[..., Any])


def pairs(_: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    """Parse a repeatable KEY=VALUE option.

    Raises:
        click.BadParameter: A value is not of this form.
    """
    found = [value.partition("=") for value in values]
    for name, sign, _value in found:
        if not name or not sign:
            # The value may be a secret, so the message does not repeat it.
            raise click.BadParameter("it must have the form KEY=VALUE.", param=parameter)
    return {name: value for name, _, value in found}


def on_a_table(command: Function) -> Function:
    """Add the argument TABLE, a URI, and the option --storage to a command."""
    storage = click.option(
        "--storage",
        metavar="KEY=VALUE",
        multiple=True,
        callback=pairs,
        help="A storage option, such as region=eu-west-1. Repeatable. Other users can see command lines: put secrets "
        "into the environment, such as AWS_SECRET_ACCESS_KEY.",
    )
    return click.argument("table")(storage(command))


def as_json(command: Function) -> Function:
    """Add the option --json to a command."""
    return click.option("--json", "is_json", is_flag=True, help="Print one JSON object per line.")(command)


def open_store(table: str, storage: Mapping[str, str]) -> LanceStore:
    """Return the store of a table."""
    from headrace.tables.lance_store import LanceStore
    from headrace.tables.location import Location

    return LanceStore(Location(table, dict(storage)))
