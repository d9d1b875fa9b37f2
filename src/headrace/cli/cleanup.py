"""`headrace cleanup`: remove old versions."""

from __future__ import annotations

import re
from datetime import timedelta

import click

from headrace.cli.table_options import on_a_table, open_store

_SPAN = re.compile(r"(\d+)\s*(s|m|h|d|w)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class _Span(click.ParamType[timedelta]):
    """A time span such as 7d."""

    name = "span"

    def convert(self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        found = _SPAN.fullmatch(value.strip())
        if found is None:
            self.fail(f"{value!r} is not a time span such as 90s, 15m, 12h, 7d or 2w.", param, ctx)
        return timedelta(**{_UNITS[found[2]]: int(found[1])})


@click.command()
@on_a_table
@click.option("--keep", type=click.IntRange(1), metavar="N", help="Keep the newest N versions.")
@click.option("--older-than", type=_Span(), metavar="SPAN", help="Remove only versions older than this, such as 7d.")
@click.option("--dry-run", is_flag=True, help="Print what would be removed, and remove nothing.")
def cleanup(table: str, storage: dict[str, str], keep: int | None, older_than: timedelta | None, dry_run: bool) -> None:
    """Remove old versions of TABLE, and the files that only they use.

    The newest version and tagged versions are kept. The command refuses to remove a version that records the newest
    landed epoch of a streaming query. A stream that reads the table cannot read removed versions any more.
    """
    from headrace.tables.manage.cleanup import carry_out, plan

    if keep is None and older_than is None:
        raise click.UsageError("Give --keep N, --older-than SPAN, or both.", click.get_current_context())
    store = open_store(table, storage)
    planned = plan(store, keep=keep, older_than=older_than)
    if not planned.versions:
        click.echo("Nothing to remove.")
        return
    count = f"{len(planned.versions)} versions, {planned.versions[0]} to {planned.versions[-1]}"
    if len(planned.versions) == 1:
        count = f"version {planned.versions[0]}"
    if dry_run:
        click.echo(f"Would remove {count}.")
        return
    done = carry_out(store, planned)
    click.echo(f"Removed {count}; freed {(done.bytes or 0) / 1e6:.1f} MB.")
