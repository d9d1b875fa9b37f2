"""`headrace history`: show what each version of a table did."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.output import print_columns, print_json
from headrace.cli.table_options import as_json, on_a_table, open_store

if TYPE_CHECKING:
    from headrace.tables.manage.history import Event

_HEADER = ("version", "time (UTC)", "what", "query", "epoch", "rows", "files", "run", "")
_NUMBERS = ("version", "epoch", "rows", "files")
_RUN_LETTERS = 8


@click.command()
@on_a_table
@click.option(
    "--last", type=click.IntRange(1), default=20, show_default=True, metavar="N", help="The number of versions to show."
)
@click.option("--all", "is_all", is_flag=True, help="Show all kept versions.")
@click.option("--query", metavar="ID", help="Show only versions of this streaming query.")
@as_json
def history(table: str, storage: dict[str, str], last: int, is_all: bool, query: str | None, is_json: bool) -> None:
    """Show what each version of TABLE did, newest first.

    A version of a streaming query shows the epoch that it landed. The last column shows epochs before it that have no
    version: "skipped" had landed before a restart, "empty" had no rows, and "without" were lost with an earlier table,
    which was accepted.
    """
    from headrace.tables.manage.history import events

    store = open_store(table, storage)
    versions = events(store, last=None if is_all or query else last)
    found = [event for event in versions if query is None or event.query == query]
    shown = found if is_all else found[:last]
    if is_json:
        for event in shown:
            print_json(_as_json(event))
        return
    print_columns(_HEADER, [_line(event) for event in shown], right=_NUMBERS)
    if not is_all and shown and shown[-1].version > 1 and len(shown) == last:
        click.echo(f"Showing the newest {last}; --all shows all kept versions.")


def _line(event: Event) -> tuple[object, ...]:
    rowless = [f"skipped {event.skipped}"] if event.skipped else []
    rowless += [f"empty {event.empty}"] if event.empty else []
    rowless += [f"without {event.without}"] if event.without else []
    return (
        event.version,
        f"{event.made:%Y-%m-%d %H:%M:%S}",
        event.what,
        event.query,
        event.epoch,
        event.rows,
        event.files,
        (event.run or "")[:_RUN_LETTERS],
        ", ".join(rowless),
    )


def _as_json(event: Event) -> dict[str, Any]:
    return asdict(event) | {
        "made": event.made.isoformat(),
        "skipped": str(event.skipped),
        "empty": str(event.empty),
        "without": str(event.without),
    }
