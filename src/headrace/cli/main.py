"""The entry point of the command. Prints an error as one message with a hint, and returns an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from headrace.cli import exit_codes
from headrace.errors import ConfigurationError, HeadraceError, MissingExtraError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The arguments without the program's name; None for those of the process.

    Returns:
        The exit code.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        import click
    except ImportError:
        print("headrace: the command needs click, which is not installed.", file=sys.stderr)
        print("Hint: install it with: pip install 'headrace[cli]'", file=sys.stderr)
        return exit_codes.MISSING
    from headrace.cli.commands import headrace

    is_debug = "--debug" in given
    color = False if os.environ.get("NO_COLOR") else None
    try:
        code = headrace.main(
            [each for each in given if each != "--debug"], "headrace", standalone_mode=False, color=color
        )
        return code if isinstance(code, int) else exit_codes.DONE
    except click.exceptions.Abort:
        return exit_codes.INTERRUPTED
    except click.ClickException as error:
        hint = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else None
        print_error(error.format_message(), f"see {hint} --help." if hint else None)
        return exit_codes.MISUSED
    except HeadraceError as error:
        if is_debug:
            raise
        print_headrace_error(error)
        return _code(error)
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    except Exception as error:
        if is_debug:
            raise
        if isinstance(error, OSError) and error.filename is not None:
            print_error(f"{error.filename}: {error.strerror}.", "check the path and its permissions.")
        else:
            print_error(f"{type(error).__name__}: {error}", "this is a bug in headrace; --debug prints the traceback.")
        return exit_codes.FAILED


def print_error(message: str, hint: str | None = None) -> None:
    """Print an error, and its hint on a second line, to standard error."""
    import click

    color = False if os.environ.get("NO_COLOR") else None
    click.secho("headrace: ", fg="red", bold=True, nl=False, err=True, color=color)
    click.echo(message, err=True, color=color)
    if hint:
        click.secho("Hint: ", bold=True, nl=False, err=True, color=color)
        click.echo(hint, err=True, color=color)


def print_headrace_error(error: HeadraceError) -> None:
    """Print an error of headrace to standard error: the hint and each note on a line after it."""
    text = str(error)
    print_error(text.removesuffix(f" Hint: {error.hint}") if error.hint else text, error.hint)
    for note in getattr(error, "__notes__", ()):
        print(note, file=sys.stderr)


def _code(error: HeadraceError) -> int:
    if isinstance(error, MissingExtraError):
        return exit_codes.MISSING
    return exit_codes.MISUSED if isinstance(error, ConfigurationError) else exit_codes.FAILED
