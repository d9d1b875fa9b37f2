"""`headrace completion`: print a shell completion script."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    \b
    bash:  headrace completion bash > ~/.local/share/bash-completion/completions/headrace
    zsh:   headrace completion zsh > DIR/_headrace, where DIR is in $fpath
    fish:  headrace completion fish > ~/.config/fish/completions/headrace.fish
    """  # noqa: D301 - click wants the character itself
    from headrace.cli.commands import headrace

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(headrace, {}, "headrace", "_HEADRACE_COMPLETE").source())
