"""The list of commands; each is loaded when it is called, so that help is there at once."""

from __future__ import annotations

from importlib import import_module

import click

from headrace._version import __version__

# Each command, the module it is in, and what it does.
_COMMANDS = {
    "run": ("run", "Run a pipeline file: a Spark stream into a Lance table."),
    "demo": ("demo", "See a stream killed and restarted, and every row there once."),
    "sql": ("sql", "Query Lance tables and files with SQL."),
    "history": ("history", "Show what each version of a table did."),
    "verify": ("verify", "Check that every epoch is in a table exactly once."),
    "compact": ("compact", "Put a table's small files together."),
    "cleanup": ("cleanup", "Remove old versions of a table."),
    "forget": ("forget", "Have a table forget what a query has landed."),
    "doctor": ("doctor", "Check that this machine can run pipelines."),
    "init": ("init", "Write a pipeline file to begin with."),
    "completion": ("completion", "Print the completion script of a shell."),
}


class _Commands(click.Group):
    """A group whose commands are loaded one by one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"headrace.cli.{_COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, what) for name, (_, what) in _COMMANDS.items()])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def headrace() -> None:
    """Arrow streams between Spark, Lance and DataFusion, landed exactly once.

    Any command takes --debug, which shows where an error came from.
    """
