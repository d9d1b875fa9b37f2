"""The `headrace` command: arguments, output, exit codes. Slow imports are made inside the commands."""
