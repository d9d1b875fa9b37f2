"""Shared by the landing faults: drivers in separate process sessions, and an oracle that knows every table state.

Every epoch's rows are known beforehand, and so is each state a table may ever show: the one after no epoch, after
the first, after the first two. A watcher that reads the table all along accepts these, in this order, and no other:
a duplicate, half an epoch or a step back is none of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import lance
import pyarrow as pa
import pyarrow.parquet as pq
from landing_plan import FOREIGN, QUERY, SCHEMA, Epochs, Rows, Stream, ids_of, state_after

from support.deadlines import PROGRAM_SECONDS
from support.lance_tables import create_table
from support.tally import require_same

# A driver that is not done by then hangs: on two busy cores a start takes up to 15 s, an epoch less than 1.

_PROGRAM = Path(__file__).with_name("landing_programs.py")
# Spark takes files by their times: each gets its own second.
_FIRST_TIME = 1_700_000_000


def add_epochs(folder: Path, epochs: Iterable[int]) -> None:
    """Writes the files that a stream takes as these epochs, one file each."""
    folder.mkdir(parents=True, exist_ok=True)
    for epoch in epochs:
        written = folder / f"_{epoch:05}"
        pq.write_table(pa.table({"id": pa.array(ids_of(epoch), pa.int64())}), written)
        os.utime(written, (_FIRST_TIME + epoch, _FIRST_TIME + epoch))
        # Spark does not look at names with an underscore, so it sees the file whole or not at all.
        written.rename(folder / f"{epoch:05}.parquet")


def make_table(uri: str, storage_options: dict[str, str] | None = None) -> str:
    return create_table(uri, SCHEMA, storage_options).uri


def rows_of(uri: str, storage_options: dict[str, str] | None = None) -> Rows:
    """The query's rows in a table, sorted."""
    return rows_in(lance.dataset(uri, storage_options=storage_options))


def rows_in(dataset: lance.LanceDataset) -> Rows:
    table = dataset.to_table(filter=f"id < {FOREIGN}", columns=["id", "n"])
    return tuple(sorted(zip(table["id"].to_pylist(), table["n"].to_pylist(), strict=True)))


def stamped_epochs(uri: str, storage_options: dict[str, str] | None = None, query_id: str = QUERY) -> Counter[int]:
    """How many transactions carry each epoch of the query, by the two properties that any tool reads."""
    table = lance.dataset(uri, storage_options=storage_options)
    found: Counter[int] = Counter()
    for each in table.versions():
        transaction = table.read_transaction(each["version"])
        properties = (transaction and transaction.transaction_properties) or {}
        if properties.get("lance.streaming.queryId") == query_id:
            found[int(properties["lance.streaming.epochId"])] += 1
    return found


def require_exact(
    uri: str,
    mode: str,
    epochs: int,
    storage_options: dict[str, str] | None = None,
    *,
    may_join: bool = False,
    may_be_cleaned: bool = False,
    by: str = "protocol",
    times: int = 1,
) -> None:
    """The table holds exactly these epochs, each stamped once.

    Args:
        uri: The table.
        mode: The sink's mode.
        epochs: How many have landed.
        storage_options: Of the table.
        may_join: Whether Spark may have taken several epochs as one: it does if it is killed after its source has noted
            what comes next, and before it has planned that itself.
        may_be_cleaned: Whether versions may have been removed.
        by: What landed them: ``format``, ``sink``, or the ``protocol`` without Spark.
        times: How often a fault was made meanwhile.
    """
    require_same(f"{mode}, {by}", state_after(mode, epochs), rows_of(uri, storage_options), times=times)
    stamped = stamped_epochs(uri, storage_options)
    if may_be_cleaned:
        assert max(stamped.values(), default=1) == 1, stamped
    else:
        assert stamped == Counter(range(len(stamped) if may_join else epochs))


def orphans_of(uri: str) -> set[str]:
    """Data files in a table's folder that its newest version does not know."""
    files = {path.name for path in Path(uri, "data").glob("*.lance")}
    fragments = lance.dataset(uri).get_fragments()
    return files - {file.path for fragment in fragments for file in fragment.data_files()}


def becomes_true(condition: Callable[[], object], seconds: float) -> bool:
    """Whether a condition that nobody announces comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


class Watcher(threading.Thread):
    """Reads a table all along, as anybody may, and keeps the first thing that was wrong."""

    def __init__(self, uri: str, mode: str, epochs: int, storage_options: dict[str, str] | None = None) -> None:
        super().__init__(daemon=True)
        self._uri = uri
        self._options = storage_options
        self._places = {state_after(mode, count): count for count in range(epochs + 1)}
        self._stopped = threading.Event()
        self._changed = threading.Condition()
        self._wrong: str | None = None
        self._seen: tuple[object, ...] = ()
        self.reached = 0
        self.looks = 0

    def run(self) -> None:
        while self._wrong is None and not self._stopped.wait(0.02):
            try:
                self._look()
            except Exception as error:  # noqa: BLE001 - raised to the test by `wait_for` and on leaving
                self._wrong = f"reading failed: {error!r}"
            with self._changed:
                self._changed.notify_all()

    def _look(self) -> None:
        dataset = lance.dataset(self._uri, storage_options=self._options)
        # Each version is checked once. A recreated table has the same version numbers with other files.
        seen = (dataset.version, *(file.path for fragment in dataset.get_fragments() for file in fragment.data_files()))
        if seen == self._seen:
            return
        self._seen = seen
        rows = rows_in(dataset)
        place = self._places.get(rows)
        self.looks += 1
        if place is None:
            self._wrong = f"a reader saw {rows}, which is the result of no number of whole epochs"
        elif place < self.reached:
            self._wrong = f"a reader saw {self.reached} epochs and then only {place}"
        else:
            self.reached = place

    def wait_for(self, epochs: int, seconds: float = PROGRAM_SECONDS) -> None:
        """Return when ``epochs`` epochs have been seen."""
        with self._changed:
            came = self._changed.wait_for(lambda: self._wrong or self.reached >= epochs, seconds)
        assert self._wrong is None, self._wrong
        assert came, f"{self.reached} epochs were seen after {seconds} s, and not {epochs}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._stopped.set()
        self.join(30)
        if kind is None:
            assert self._wrong is None, self._wrong
            assert self.looks, "the watcher never read the table"


class Driver:
    """A program in a separate process session: all that it starts can be found, stopped and killed with it."""

    def __init__(
        self,
        told: Stream | Epochs,
        *,
        crash_at: str = "",
        under: Sequence[str] = (),
        python: str = sys.executable,
        environment: dict[str, str] | None = None,
    ) -> None:
        inherited = {name: value for name, value in os.environ.items() if name != "HEADRACE_CRASH_AT"}
        crash = {"HEADRACE_CRASH_AT": crash_at} if crash_at else {}
        self._process = subprocess.Popen(
            [*under, python, str(_PROGRAM), type(told).__name__, json.dumps(asdict(told))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**inherited, **crash, **(environment or {})},
        )
        self.session = self._process.pid
        self._lines: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._stderr: list[str] = []
        self._readers = [
            threading.Thread(target=self._read_lines, daemon=True),
            threading.Thread(target=self._read_stderr, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # Spark's launcher and the JVM write to the same output.
            with contextlib.suppress(ValueError):
                self._lines.put(json.loads(line))
        self._lines.put({})  # it has ended: nobody waits for more

    def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        self._stderr.extend(self._process.stderr)

    @property
    def stderr(self) -> str:
        return "".join(self._stderr)

    def hear(self, name: str, seconds: float = PROGRAM_SECONDS) -> Any:
        """The value of the next line that the program says, which is to have this name."""
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(f"the driver said nothing for {seconds} s\n{self.stderr}") from None
        assert name in line, f"{line or 'the driver has ended'}\n{self.stderr}"
        return line[name]

    def go(self) -> None:
        """Lets a program that waits go on."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def wait(self, seconds: float = PROGRAM_SECONDS) -> int:
        """The exit code."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"the driver did not end in {seconds} s\n{self.stderr}") from None

    def run_on(self, seconds: float) -> None:
        """Returns after a while, or at once when the program ends."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def require_done(self) -> dict[str, Any]:
        """Require that the program finished its task, and return its report."""
        said: dict[str, Any] = self.hear("done")
        assert self.wait() == 0, self.stderr
        return said

    def require_failed(self, error: str) -> str:
        """It ended with this error of ours, and nobody killed it; what it said."""
        said: str = self.hear("failed")
        assert error in said, said
        assert self.wait() == 1, self.stderr
        return said

    def require_killed(self) -> None:
        """SIGKILL ended it, not its own will, and nothing it started is left."""
        assert self.wait() == -signal.SIGKILL, self.stderr
        assert becomes_true(lambda: not members_of(self.session), 30), members_of(self.session)

    def signal(self, number: signal.Signals) -> None:
        """To every process of the session."""
        signal_session(self.session, number)

    def kill(self) -> None:
        """Every process, at once: those that were started meanwhile too."""
        kill_session(self.session)
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for reader in self._readers:
            reader.join(10)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def members_of(session: int) -> dict[int, str]:
    """The live processes of a session, and what each is."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, _, _, of = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(of) == session and state not in "ZX":
                found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")[:300]
    return found


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped, as SIGSTOP leaves it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def signal_session(session: int, number: signal.Signals) -> None:
    for pid in members_of(session):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def kill_session(session: int) -> None:
    """Every process of it, those that are started meanwhile too."""
    while members_of(session):
        signal_session(session, signal.SIGKILL)
