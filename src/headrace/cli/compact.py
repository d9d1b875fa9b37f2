"""`headrace compact`: compact small fragments."""

from __future__ import annotations

import click

from headrace._counts import counted
from headrace.cli.table_options import on_a_table, open_store


@click.command()
@on_a_table
@click.option("--full", is_flag=True, help="Compact all fragments below about a million rows, without a bound.")
def compact(table: str, storage: dict[str, str], full: bool) -> None:
    """Compact the small fragments of TABLE. Streams may keep running meanwhile.

    One call does a bounded amount of work; call it again, or use --full, to compact more.
    """
    from headrace.tables.manage.compact import compact as compact_table

    store = open_store(table, storage)
    store.open()
    fewer = compact_table(store.location, is_full=full)
    click.echo(f"Removed {counted(fewer, 'fragment')}." if fewer else "Nothing to compact.")
