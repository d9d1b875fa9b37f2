"""The exit codes of the command."""

from __future__ import annotations

DONE = 0
"""Success; for `run --follow`, also a requested stop."""

FAILED = 1
"""Failure; for `verify` and `doctor`, also a problem that was found."""

MISUSED = 2
"""The command line or the pipeline file is wrong; nothing was done."""

MISSING = 3
"""Java or an extra of headrace is not installed."""

INTERRUPTED = 130
"""Stopped by Ctrl-C before it was done."""

TERMINATED = 143
"""Stopped by SIGTERM before it was done."""
