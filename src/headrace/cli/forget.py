"""`headrace forget`: has a table forget a query."""

from __future__ import annotations

import click

from headrace.cli.tables import on_a_table, open_store


@click.command()
@on_a_table
@click.argument("query")
@click.option("--yes", is_flag=True, help="Do not ask.")
def forget(table: str, storage: dict[str, str], query: str, yes: bool) -> None:
    """Have TABLE forget what QUERY has landed: its rows stay, and whatever it sends next lands as new.

    For a query that will never run again, so that cleanup need not spare what it would need; or to begin anew under the
    same name. A run of it that is still going stops.
    """
    from headrace.tables.manage import queries

    if not yes:
        click.confirm(
            f"If {query} runs again from its checkpoint, rows that have landed may land twice. Forget it?", abort=True
        )
    published = queries.forget(open_store(table, storage), query)
    click.echo(f"Forgotten, as version {published.version}.")
