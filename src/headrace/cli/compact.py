"""`headrace compact`: puts small files together."""

from __future__ import annotations

import click

from headrace.cli.tables import on_a_table, open_store


@click.command()
@on_a_table
@click.option("--full", is_flag=True, help="Put all together that is smaller than a million rows, whatever it takes.")
def compact(table: str, storage: dict[str, str], full: bool) -> None:
    """Put the small files of TABLE together. Streams may go on meanwhile."""
    from headrace.tables.manage.compact import compact as compact_table

    store = open_store(table, storage)
    store.open()
    fewer = compact_table(store.location, is_full=full)
    click.echo(f"Fragments less: {fewer}." if fewer else "There was nothing to put together.")
