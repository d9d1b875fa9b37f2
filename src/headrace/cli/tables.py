"""What commands about one table have in common: where it is, and what is printed of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from headrace.tables.lance_store import LanceStore

Function = TypeVar("Function", bound=Callable[..., Any])


def pairs(_: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    """Options given as KEY=VALUE, any number of them."""
    found = [value.partition("=") for value in values]
    for name, sign, _value in found:
        if not name or not sign:
            # What was given may be a secret, so it is not repeated.
            raise click.BadParameter("it is not of the form KEY=VALUE.", param=parameter)
    return {name: value for name, _, value in found}


def on_a_table(command: Function) -> Function:
    """A command whose first argument is a table, as a URI."""
    storage = click.option(
        "--storage",
        metavar="KEY=VALUE",
        multiple=True,
        callback=pairs,
        help="A storage option, such as region=eu-west-1. Others can see a command line: keep secrets in the "
        "environment, as in AWS_SECRET_ACCESS_KEY.",
    )
    return click.argument("table")(storage(command))


def as_json(command: Function) -> Function:
    """A command that can print for machines."""
    return click.option("--json", "is_json", is_flag=True, help="Print one JSON object a line.")(command)


def open_store(table: str, storage: Mapping[str, str]) -> LanceStore:
    """The table that is named."""
    from headrace.tables.lance_store import LanceStore
    from headrace.tables.location import Location

    return LanceStore(Location(table, dict(storage)))


def print_json(value: Mapping[str, Any]) -> None:
    """One object on one line."""
    click.echo(json.dumps(value, default=str))


def print_columns(header: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = ()) -> None:
    """Rows in columns as wide as they need; what is None stays blank."""
    cells = [["" if value is None else str(value) for value in row] for row in rows]
    widths = [max(len(line[number]) for line in [list(header), *cells]) for number in range(len(header))]
    for number, line in enumerate([list(header), *cells]):
        padded = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(header, line, widths, strict=True)
        ]
        click.secho("  ".join(padded).rstrip(), bold=number == 0)
