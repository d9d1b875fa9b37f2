"""`headrace sql`: query Lance tables and files, and print results as they arrive. Starts no JVM."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from headrace.cli.no_pandas import keep_pandas_out
from headrace.cli.sql_statements import split
from headrace.cli.table_options import pairs
from headrace.errors import InvalidArgumentError


@click.command()
@click.option(
    "-c", "--command", "statements", metavar="SQL", help="Run these statements and exit. Separate them by semicolons."
)
@click.option(
    "-f",
    "--file",
    "script",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Run the statements in a file.",
)
@click.option(
    "--table",
    "tables",
    metavar="NAME=URI",
    multiple=True,
    callback=pairs,
    help="Register a table: .lance, .parquet, .csv or .json, or a folder of such files. Repeatable.",
)
@click.option(
    "--storage",
    metavar="KEY=VALUE",
    multiple=True,
    callback=pairs,
    help="A storage option for Lance tables. Repeatable.",
)
@click.option(
    "--format",
    "style",
    type=click.Choice(["box", "csv", "json", "arrow"]),
    default="box",
    show_default=True,
    help="A drawn table, CSV, one JSON object per line, or an Arrow IPC stream.",
)
@click.option(
    "--memory-limit", metavar="SIZE", help="The memory for sorts and joins, such as 2GB; above it they spill to disk."
)
def sql(
    statements: str | None,
    script: Path | None,
    tables: dict[str, str],
    storage: dict[str, str],
    style: str,
    memory_limit: str | None,
) -> None:
    """Query Lance tables and files with SQL.

    A table is a name from --table, or a path in single quotes: SELECT * FROM 'orders.lance'. Without -c and -f, reads
    statements from standard input; on a terminal, shows a prompt.
    """
    if statements is not None and script is not None:
        raise click.UsageError("Give -c or -f, not both.", click.get_current_context())
    keep_pandas_out()
    from headrace.cli.sql_output import printer
    from headrace.cli.sql_sources import plan, register
    from headrace.session.context import SessionContext

    with SessionContext(memory_limit=memory_limit) as session:
        for name, uri in tables.items():
            try:
                register(session, name, uri, storage)
            except InvalidArgumentError as error:
                raise click.BadParameter(str(error), param_hint="--table") from error
        show = printer(style)
        if statements is None and script is None and sys.stdin.isatty():
            from headrace.cli.sql_prompt import run_prompt

            run_prompt(session, show, storage)
            return
        text = statements if statements is not None else script.read_text() if script else sys.stdin.read()
        for statement in split(text):
            with plan(session, statement, storage).execute_stream() as reader:
                show(reader)
