"""Redirect Spark's output to a log file: its JVM writes to the standard output and error of this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def spark_output_to(log: Path) -> Iterator[None]:
    """Redirect file descriptors 1 and 2 to a file; `sys.stdout` and `sys.stderr` still write to the terminal."""
    log.parent.mkdir(parents=True, exist_ok=True)
    before = sys.stdout, sys.stderr
    for stream in before:
        stream.flush()
    kept = os.dup(1), os.dup(2)
    with log.open("ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout, sys.stderr = (os.fdopen(os.dup(number), "w", buffering=1) for number in kept)
    ours = sys.stdout, sys.stderr
    try:
        yield
    finally:
        for stream in ours:
            stream.flush()
        sys.stdout, sys.stderr = before
        for number, descriptor in enumerate(kept, 1):
            os.dup2(descriptor, number)
            os.close(descriptor)
