"""What the fault tests share: batches of known integers, deadlines, and scripts in a separate process.

A script is the text of a program that begins with everything in this module imported. Faults that count
threads, send signals, fork or exit happen there, where nothing else runs.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import headrace
from headrace.engine.runtime import workers
from support.deadlines import PROGRAM_SECONDS

SCHEMA = pa.schema([("x", pa.int64())])

# What would have to be on stderr after a crash, or after an exception that nobody could catch.
CRASHES = ("panicked", "Fatal Python error", "terminate called", "Exception ignored", "fatal runtime error")

_PATH = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
_PREAMBLE = """
import os, signal, sys, threading, time
import pyarrow as pa
import headrace
from rig import *
from support.background import Background
from support.waits import channels, waiting_readers
"""


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA)


def values(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return [value for each in batches for value in each.column(0).to_pylist()]


class Reader:
    """A reader as a provider may write one: batches, an exception among them where it is to fail."""

    def __init__(self, *items: Any, schema: pa.Schema = SCHEMA, on_close: BaseException | None = None) -> None:
        self.schema = schema
        self.closed = 0
        self._items = iter(items)
        self._on_close = on_close

    def read_next_batch(self) -> Any:
        item = next(self._items)
        if isinstance(item, BaseException):
            raise item
        return item

    def close(self) -> None:
        self.closed += 1
        if self._on_close is not None:
            raise self._on_close


def write_until_refused(sink: headrace.TableSink, rows: int = 1) -> headrace.HeadraceError:
    """Write consecutive integers for as long as the sink takes them; what it said when it did not."""
    start = 0
    while True:
        try:
            sink.write(batch(*range(start, start + rows)))
        except headrace.HeadraceError as error:
            return error
        start += rows


def refusal_of(sink: headrace.TableSink) -> BaseException | None:
    """What a write says that comes now."""
    try:
        sink.try_write(batch(-1))
    except headrace.HeadraceError as error:
        return error
    return None


def becomes_true(condition: Callable[[], object], seconds: float = 5.0) -> bool:
    """Whether a condition that nobody announces comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def own_threads() -> list[str]:
    """The threads of headrace that are alive, but for the one that is there while push tables are registered."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("headrace") and name != "headrace-gone"]


def running(session: headrace.SessionContext) -> int:
    """How many queries of the session hold something. Frees what the engine has dropped."""
    return session.statistics().running_queries


def is_at_rest(*sessions: headrace.SessionContext) -> bool:
    """Whether nothing is held any more in the whole process: no worker, no thread, no execution."""
    # The sessions come last: counting frees what the engine has dropped, and a scan must be released without that.
    return workers.held == 0 and not own_threads() and not any(running(session) for session in sessions)


def what_is_left(*sessions: headrace.SessionContext) -> str:
    """The state of what ``is_at_rest`` looks at, for a failure's message."""
    return f"{workers.held} workers held, threads {own_threads()}, {[running(s) for s in sessions]} executions open"


def resident_megabytes() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def report(**facts: Any) -> None:
    """Hand facts from a script to its test."""
    print(json.dumps(facts), flush=True)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a script ended: its exit code, what it reported, and how long it took to exit after its last line."""

    code: int
    facts: dict[str, Any]
    stderr: str
    exit_seconds: float

    def require_clean(self) -> Outcome:
        assert self.code == 0, f"exit code {self.code}\n{self.stderr}"
        found = [crash for crash in CRASHES if crash in self.stderr]
        assert not found, self.stderr
        return self


def run_script(text: str, *, seconds: float = PROGRAM_SECONDS, environment: dict[str, str] | None = None) -> Outcome:
    """Run a script to its end; the facts of all its reports are merged.

    One that hangs is aborted after ``seconds``, with the stack of each of its threads on stderr.
    """
    program = f"{_PREAMBLE}\n{textwrap.dedent(text)}\nreport(_main_ended=time.monotonic())\n"
    path = os.pathsep.join(filter(None, [*_PATH, os.environ.get("PYTHONPATH", "")]))
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **(environment or {})},
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        # To the whole group: what it forked may hang too, and holds the pipes.
        os.killpg(process.pid, signal.SIGABRT)
        stdout, stderr = process.communicate()
    ended = time.monotonic()
    facts: dict[str, Any] = {}
    for line in stdout.splitlines():
        facts |= json.loads(line)
    return Outcome(process.returncode, facts, stderr, ended - facts.pop("_main_ended", ended))
