"""Import what the first epoch needs while the JVM starts, which takes seconds in which Python only waits."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def imports_beside_jvm() -> Iterator[None]:
    """Import the modules of a job on another thread, once the block has forked the process of the JVM.

    Not before: Lance warns when a process that has loaded it forks. If the block does not fork, because the JVM runs
    already, nothing is imported early.
    """
    forked = threading.Event()
    has_ended = threading.Event()

    def run() -> None:
        forked.wait()
        if not has_ended.is_set():
            # The next import of the module raises the error.
            with contextlib.suppress(Exception):
                _import()

    os.register_at_fork(after_in_parent=forked.set)
    # Not a daemon: the interpreter must not end in the middle of an import.
    threading.Thread(target=run, name="headrace-imports").start()
    try:
        yield
    finally:
        has_ended.set()
        forked.set()


def _import() -> None:
    import headrace.pipeline.runner
    import headrace.tables.sink  # noqa: F401 - it loads Lance, which loads pandas, as Spark does later
