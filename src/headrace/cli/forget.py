"""`headrace forget`: forget which epochs of a query have landed."""

from __future__ import annotations

import click

from headrace.cli.table_options import on_a_table, open_store


@click.command()
@on_a_table
@click.argument("query")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def forget(table: str, storage: dict[str, str], query: str, yes: bool) -> None:
    """Forget which epochs of QUERY have landed in TABLE. The rows stay; every epoch that QUERY runs next lands as new.

    Use it for a query that will never run again, so that cleanup can remove its versions, or to start over under the
    same name. If QUERY is running, it fails at its next commit.
    """
    from headrace.tables.manage import queries

    if not yes:
        click.confirm(
            f"If {query} runs again from its checkpoint, rows that have landed can land twice. Forget it?", abort=True
        )
    published = queries.forget(open_store(table, storage), query)
    click.echo(f"Forgot query {query} in version {published.version}.")
