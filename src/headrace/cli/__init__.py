"""The `headrace` command: arguments, rendering, exit codes. Nothing is imported here that takes long to load."""
