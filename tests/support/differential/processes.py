"""Work in a separate process, which may crash or hang without ending the run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

# Longer than any seed takes on a busy machine.
DEADLINE = 120.0


class CrashError(Exception):
    """The process died, or did not answer in time."""


class Worker:
    """A process that is handed one piece of work at a time, and started again when it dies.

    Args:
        prepare: Called first in each new process.
    """

    def __init__(self, prepare: Callable[[], None] | None = None) -> None:
        self._prepare = prepare
        self._process: Any = None
        self._connection: Any = None

    def call(self, function: Callable[..., Any], *arguments: Any, deadline: float = DEADLINE) -> Any:
        """Call a function of a module in the process.

        Raises:
            CrashError: The process died or did not answer in time.
            Exception: Whatever the function raised.
        """
        self.submit(function, *arguments)
        return self.result(deadline)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Hand over work and do not wait for it."""
        if self._process is None:
            self._start()
        self._connection.send((function, arguments))

    @property
    def connection(self) -> Connection:
        """Becomes readable when there is a result, or the process is dead."""
        return self._connection

    def result(self, deadline: float = DEADLINE) -> Any:
        """What the work handed over gave; raises as ``call`` does."""
        try:
            if not self._connection.poll(deadline):
                raise CrashError(f"no answer in {deadline:g} s: it hangs")
            error, value = self._connection.recv()
        except (EOFError, ConnectionResetError) as gone:
            self._process.join(5)
            code = self._process.exitcode
            self.close()
            raise CrashError(f"the process died, with exit code {code}") from gone
        except CrashError:
            self.close()
            raise
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """End the process; the next call starts another."""
        process, self._process = self._process, None
        if process is not None:
            self._connection.close()
            process.kill()
            process.join()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        context = get_context("spawn")
        self._connection, other = context.Pipe()
        # Rust prints every panic; what matters of it is in the error.
        os.environ.setdefault("RUST_BACKTRACE", "0")
        self._process = context.Process(target=_serve, args=(other, self._prepare), daemon=True)
        self._process.start()
        other.close()


def _serve(connection: Connection, prepare: Callable[[], None] | None) -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - open for as long as the process lives
    if prepare is not None:
        prepare()
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return
        try:
            answer = (None, function(*arguments))
        except Exception as error:  # noqa: BLE001 - handed to the process that asked
            answer = (RuntimeError(f"{type(error).__name__}: {error}"), None)
        connection.send(answer)
