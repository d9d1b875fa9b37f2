"""`headrace verify`: every epoch at most once, and none missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli import exit_codes
from headrace.cli.tables import as_json, on_a_table, open_store, print_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.tables.commit.epochs import Epochs
    from headrace.tables.manage.verify import Account


@click.command()
@on_a_table
@click.option("--checkpoint", metavar="FOLDER", help="Spark's checkpoint of the query, to check against.")
@click.option("--query", help="Check this streaming query; all of them if not given.")
@as_json
def verify(table: str, storage: dict[str, str], checkpoint: str | None, query: str | None, is_json: bool) -> int:
    """Check that every epoch is in TABLE exactly once.

    Reads the table's history; with --checkpoint, also what Spark has noted as done. Exits with 1 if something is wrong.
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
        click.echo("No version that is kept is of a streaming query: there is nothing to check.")
    return exit_codes.FAILED if any(account.problems for account in accounts) else exit_codes.DONE


def _print(account: Account) -> None:
    color, word = ("red", "wrong") if account.problems else ("green", "ok")
    click.secho(f"{word:5} ", fg=color, bold=True, nl=False)
    click.echo(f"{account.query}: {_summary(account)}")
    for line in (*account.problems, *_left_out(account)):
        click.echo(f"      {line}")


def _left_out(account: Account) -> Iterator[str]:
    if account.unchecked:
        yield (
            f"Not checked: {_epochs(account.unchecked)}; the versions that told of them were removed, or the query was "
            f"forgotten since."
        )
    if account.without:
        yield f"Not in the table: {_epochs(account.without)}; they landed in an earlier one, and that was accepted."


def _epochs(epochs: Epochs) -> str:
    return f"epochs {epochs}" if len(epochs) > 1 else f"epoch {epochs}"


def _summary(account: Account) -> str:
    if not account.checked:
        is_new = not account.unchecked and not account.without
        return "nothing has landed yet" if is_new else "no epoch can be checked"
    if account.problems:
        return f"epochs {account.checked}"
    empty = f", {len(account.empty)} empty" if account.empty else ""
    return f"epochs {account.checked}: {len(account.landed)} landed once{empty}, {account.rows:,} rows"
