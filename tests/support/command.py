"""The `headrace` command as a user runs it: in a separate process."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

from support.deadlines import PROGRAM_SECONDS


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    return kept | {"PYTHONWARNINGS": "error::ResourceWarning"} | more


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "headrace", *arguments]


def headrace(
    *arguments: str, folder: Path | None = None, given: str | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Runs it to its end."""
    return subprocess.run(
        command(*arguments),
        cwd=folder,
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
        env=environment(**more),
    )


def succeeds(*arguments: str, folder: Path | None = None, given: str | None = None, **more: str) -> str:
    """Runs it, requires that all goes well, and returns what it printed."""
    done = headrace(*arguments, folder=folder, given=given, **more)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def on_a_terminal(*arguments: str, folder: Path | None = None, **more: str) -> tuple[str, int]:
    """What it writes where all its ends are a terminal, and its exit code."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        command(*arguments),
        cwd=folder,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment(TERM="xterm-256color", COLUMNS="120", LINES="40", **more),
    )
    os.close(slave)
    said = b""
    while True:
        try:
            some = os.read(master, 65536)
        except OSError:  # How Linux tells that nobody has the other end any more.
            break
        if not some:
            break
        said += some
    os.close(master)
    return said.decode(), process.wait(60)
