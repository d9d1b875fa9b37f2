"""The list of commands. A command's module is imported when the command is called, which keeps `--help` fast."""

from __future__ import annotations

from importlib import import_module

import click

from headrace._version import __version__

# Each command with its module and its line in the help.
_COMMANDS = {
    "run": ("run", "Run a pipeline file: a Spark stream into a Lance table."),
    "demo": ("demo", "Kill and restart a stream, and check that every row landed once."),
    "sql": ("sql", "Query Lance tables and files with SQL."),
    "history": ("history", "Show what each version of a table did."),
    "verify": ("verify", "Check that every epoch is in a table exactly once."),
    "compact": ("compact", "Compact a table's small fragments."),
    "cleanup": ("cleanup", "Remove old versions of a table."),
    "forget": ("forget", "Forget which epochs of a query have landed in a table."),
    "doctor": ("doctor", "Check that this machine can run pipelines."),
    "init": ("init", "Write an example pipeline file."),
    "completion": ("completion", "Print a shell completion script."),
}


class _Commands(click.Group):
    """A click group that imports a command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"headrace.cli.{_COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from difflib import get_close_matches

        # click looks for similar names only among commands that are imported already.
        near = get_close_matches(args[0], _COMMANDS, n=1)
        if near and args[0] not in _COMMANDS:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, what) for name, (_, what) in _COMMANDS.items()])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def headrace() -> None:
    """Arrow streams between Spark, Lance and DataFusion, landed exactly once.

    Every command accepts --debug, which prints the traceback of an error.
    """
