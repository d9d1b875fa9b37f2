"""Servers for tests, each a separate process: a test blocked inside native code cannot stop one from answering.

A server is a module of this package, run as a program. It writes one line of JSON once it accepts connections, and
ends when its standard input does: however the tests end, nothing of theirs is left running.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self

# Where this package is.
_PATH = str(Path(__file__).parents[1])

START_SECONDS = 60.0
ANSWER_SECONDS = 60.0


class Served:
    """A server program, and the pipes to it: one line of JSON each way is a question and its answer."""

    def __init__(self, program: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [_PATH, os.environ.get("PYTHONPATH")]))},
        )
        self._lock = threading.Lock()
        self._unread = b""
        try:
            self.endpoint: str = self._read_line(START_SECONDS)["endpoint"]
        except BaseException:
            self.close()
            raise

    def ask(self, **question: Any) -> Any:
        """The server's answer, or its complaint as an exception."""
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            answer = self._read_line(ANSWER_SECONDS)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["value"]

    def close(self) -> None:
        """Ends the process; a second time does nothing."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_line(self, seconds: float) -> Any:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(seconds):
                    raise TimeoutError(f"{self._process.args!r} said nothing for {seconds} s")
                chunk = os.read(self._process.stdout.fileno(), 65536)
                if not chunk:
                    raise RuntimeError(f"{self._process.args!r} ended with {self._process.wait()}")
                self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return json.loads(line)


def say(**line: Any) -> None:
    """Write a line to the process that started the server."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
