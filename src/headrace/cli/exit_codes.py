"""What the command's exit code says."""

from __future__ import annotations

DONE = 0
"""All went well; for `run --follow`, it was told to stop and did so after an epoch."""

FAILED = 1
"""It failed, or, for `verify`, it found something wrong."""

MISUSED = 2
"""The command line or the pipeline file is wrong; nothing was done."""

MISSING = 3
"""Something it needs is not installed: Java, or an extra of headrace."""

INTERRUPTED = 130
"""Ctrl-C before it was done."""

TERMINATED = 143
"""SIGTERM before it was done."""
