"""`headrace verify`: check that every epoch is in a table exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace._counts import counted
from headrace.cli import exit_codes
from headrace.cli.output import print_json
from headrace.cli.table_options import as_json, on_a_table, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.tables.manage.verify import Account


@click.command()
@on_a_table
@click.option("--checkpoint", metavar="FOLDER", help="Also compare with this Spark checkpoint of the query.")
@click.option("--query", metavar="ID", help="Check only this streaming query.")
@as_json
def verify(table: str, storage: dict[str, str], checkpoint: str | None, query: str | None, is_json: bool) -> int:
    """Check that every epoch is in TABLE exactly once.

    Reads the table's history; with --checkpoint, also the epochs that Spark has committed. Exits with 1 if something is
    wrong.
    """
    from headrace.tables.manage import checkpoint as checkpoints
    from headrace.tables.manage.verify import verify as verify_table

    known = checkpoints.read(checkpoint) if checkpoint else None
    accounts = verify_table(open_store(table, storage), query=query, checkpoint=known)
    for account in accounts:
        if is_json:
            print_json(
                {
                    "query": account.query,
                    "checked": str(account.checked),
                    "unchecked": str(account.unchecked),
                    "without": str(account.without),
                    "landed": len(account.landed),
                    "empty": str(account.empty),
                    "rows": account.rows,
                    "problems": list(account.problems),
                }
            )
        else:
            _print(account)
    if not accounts and not is_json:
        click.echo("Nothing to check: no kept version was written by a streaming query.")
    return exit_codes.FAILED if any(account.problems for account in accounts) else exit_codes.DONE


def _print(account: Account) -> None:
    color, word = ("red", "wrong") if account.problems else ("green", "ok")
    click.secho(f"{word:5} ", fg=color, bold=True, nl=False)
    click.echo(f"{account.query}: {_summary(account)}")
    for line in (*account.problems, *_not_checked(account)):
        click.echo(f"      {line}")


def _not_checked(account: Account) -> Iterator[str]:
    if account.unchecked:
        yield (
            f"Not checked: {account.unchecked.named}; their versions were removed by a cleanup, or the query was "
            f"forgotten since."
        )
    if account.without:
        yield f"Not in the table: {account.without.named}; they were lost with an earlier table, which was accepted."


def _summary(account: Account) -> str:
    if not account.checked:
        is_new = not account.unchecked and not account.without
        return "nothing has landed yet" if is_new else "no epoch can be checked"
    if account.problems:
        return account.checked.named
    return f"{account.checked.named}: {_outcome(account)}, {counted(account.rows, 'row')}"


def _outcome(account: Account) -> str:
    if len(account.checked) == 1 and len(account.landed) + len(account.empty) == 1:
        return "landed once" if account.landed else "empty"
    empty = f", {len(account.empty):,} empty" if account.empty else ""
    return f"{len(account.landed):,} landed once{empty}"
