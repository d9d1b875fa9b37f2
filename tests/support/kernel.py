"""Faults of the machine itself: system calls that fail, and disks that are full."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def require_tracer() -> None:
    """Skips a test where system calls cannot be traced."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    tried = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"strace may not trace here: {tried.stderr.strip()}")


def with_fault(call: str, path: str, fault: str) -> list[str]:
    """A command that runs another, with a fault in each such system call on a path."""
    return ["strace", "-f", "-qq", "-o", "/dev/null", "-P", path, "-e", f"trace={call}", "-e", f"inject={call}:{fault}"]


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount a separate disk in a new folder; skip the test where none can be mounted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path, *, spare_pages: int = 0) -> Path:
    """Fill a disk except for ``spare_pages``, and return the file that fills it."""
    filler = disk / "filler"
    filler.write_bytes(b"\0" * (shutil.disk_usage(disk).free - spare_pages * 4096))
    return filler
