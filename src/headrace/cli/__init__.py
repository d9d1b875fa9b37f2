"""The `headrace` command: arguments, rendering, exit codes. Nothing is imported here that takes long to load."""

from headrace.cli.entry import main

__all__ = ["main"]
