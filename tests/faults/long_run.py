"""``make long-run MINUTES=60``: leave `headrace run --follow` alone with outages, full disks and a kill, and count.

A file with rows arrives every second. The store fails every few minutes in one of three ways, the disk of the
checkpoint and the one of Spark's temporary files are full once each, and the driver is killed once and started again,
as a service manager does. In the end every row must be in the table once, and the memory of the driver must not have
grown.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.command import command, environment
from support.kernel import fill, small_disk
from support.lance_tables import LanceTable
from support.s3_proxy import ALWAYS, S3Proxy
from support.s3_server import S3Server

ROWS = 5
PORT = 8137
SAMPLE_SECONDS = 5.0
METHODS = ("GET", "PUT", "HEAD", "POST", "DELETE")

PIPELINE = """
name = "long-run"
checkpoint = "{folder}/checkpoint-disk/checkpoint"
trigger = "1 second"
[source]
format = "json"
path = "in"
schema = "id BIGINT"
[[step]]
sql = "SELECT /*+ REPARTITION(2) */ id FROM source"
[table]
uri = "{uri}"
create = true
compact_every_epochs = 50
retain_versions = 100
[table.storage]
{storage}
[spark]
master = "local[2]"
[spark.conf]
"spark.driver.memory" = "1g"
"spark.local.dir" = "{folder}/local-disk"
[run]
max_pause = "10 seconds"
"""


@dataclass
class Counts:
    """What was seen from outside."""

    health: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    restarts: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    exits: list[int] = field(default_factory=list)
    memory: list[tuple[int, float, float]] = field(default_factory=list)


class Command:
    """The command, which is started again whenever it has ended, as by a service manager."""

    def __init__(self, folder: Path, counts: Counts) -> None:
        self._folder = folder
        self._counts = counts
        self._process: subprocess.Popen[bytes] | None = None
        self._last: dict[str, Counter[str]] = {}
        self.keep_running()

    def keep_running(self) -> None:
        """Start the command if it does not run."""
        if self._process is not None:
            if self._process.poll() is None:
                return
            self._note_end()
        self._counts.starts += 1
        with (self._folder / "output.txt").open("ab") as output:
            self._process = subprocess.Popen(
                command("run", "pipeline.toml", "--follow", "--ui", str(PORT)),
                cwd=self._folder,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=environment(),
            )

    def kill(self) -> None:
        """Kill the driver with its JVM."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int:
        """Stop after the current epoch, and return the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        code = self._process.wait(120)
        self._note_end()
        return code

    def sample(self) -> None:
        """Note what the page says, and how much memory the driver and its JVM hold."""
        assert self._process is not None
        self._counts.health[_get("healthz").partition(":")[0].partition(",")[0].strip()] += 1
        found: dict[str, Counter[str]] = {"failures": Counter(), "restarts": Counter()}
        for line in _get("metrics").splitlines():
            for name, counted in found.items():
                if line.startswith(f"headrace_{name}_total{{"):
                    counted[line.partition('kind="')[2].partition('"')[0]] = int(float(line.rpartition(" ")[2]))
        if any(found.values()):
            self._last = found
        python, jvm = _megabytes(self._process.pid)
        if python:
            self._counts.memory.append((self._counts.starts, python, jvm))

    def _note_end(self) -> None:
        """Add what the process counted to the totals."""
        assert self._process is not None
        self._counts.exits.append(self._process.returncode)
        self._counts.failures += self._last.get("failures", Counter())
        self._counts.restarts += self._last.get("restarts", Counter())
        self._last = {}


def _get(path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/{path}", timeout=10) as answer:
            text: str = answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode()
    except OSError:
        return "no answer"
    return text


def _megabytes(pid: int) -> tuple[float, float]:
    """The resident memory of the driver's Python, which serves the page, and of its JVM."""

    def resident(process: int) -> float:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return resident(pid), sum(resident(int(child)) for child in children)
    except (OSError, IndexError, ValueError):
        return 0.0, 0.0


class Faults:
    """What goes wrong, and when: a list of times with calls."""

    def __init__(self, seconds: float, folder: Path, proxy: S3Proxy, driver: Command, chance: random.Random) -> None:
        self._proxy = proxy
        self._folder = folder
        self._chance = chance
        self.done: list[str] = []
        every = min(300.0, seconds / 6)
        self._due: list[tuple[float, Callable[[], object]]] = []
        number = 0
        while (number + 0.5) * every < seconds * 0.9:
            self._add_outage((number + 0.5) * every, number)
            number += 1
        self._add_full_disk(seconds * 0.2, "checkpoint-disk")
        self._add_full_disk(seconds * 0.6, "local-disk")
        self._at(seconds * 0.4, "the driver is killed", driver.kill)
        self._due.sort(key=lambda each: each[0])

    def make(self, now: float) -> None:
        """Make everything that is due."""
        while self._due and self._due[0][0] <= now:
            self._due.pop(0)[1]()

    def _at(self, when: float, what: str, call: Callable[[], object]) -> None:
        def make() -> None:
            self.done.append(what)
            print(f"{when:7.0f} s: {what}", flush=True)
            call()

        self._due.append((when, make))

    def _add_outage(self, when: float, number: int) -> None:
        ways: list[tuple[str, Callable[[str], object]]] = [
            ("the store answers 503", lambda method: self._proxy.fail(method, "/", status=503, times=ALWAYS)),
            ("the store drops connections", lambda method: self._proxy.drop_request(method, "/", times=ALWAYS)),
            ("the store answers 403", lambda method: self._proxy.fail(method, "/", status=403, times=ALWAYS)),
        ]
        what, fail = ways[number % len(ways)]
        seconds = self._chance.uniform(10, 40)
        self._at(when, f"{what} for {seconds:.0f} s", lambda: [fail(method) for method in METHODS])
        self._due.append((when + seconds, self._proxy.clear))

    def _add_full_disk(self, when: float, disk: str) -> None:
        self._at(when, f"{disk} is full for 20 s", lambda: _fill(self._folder / disk))
        self._due.append((when + 20, lambda: (self._folder / disk / "filler").unlink(missing_ok=True)))


def _fill(disk: Path) -> None:
    # Spark may write at the same time; then the disk is full before the file is written.
    with contextlib.suppress(OSError):
        fill(disk)


def run(minutes: float, seed: int) -> bool:
    """Run for that long; print what was counted, and return whether all is right."""
    counts, chance = Counts(), random.Random(seed)
    with ExitStack() as stack:
        server = stack.enter_context(S3Server())
        proxy = stack.enter_context(S3Proxy(server.endpoint))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-long-run-")))
        stack.enter_context(small_disk(folder / "checkpoint-disk", "64m"))
        stack.enter_context(small_disk(folder / "local-disk", "256m"))
        (folder / "in").mkdir()
        uri = f"s3://{server.make_bucket()}/t.lance"
        storage = "\n".join(f'{name} = "{value}"' for name, value in proxy.storage_options.items())
        (folder / "pipeline.toml").write_text(PIPELINE.format(folder=folder, uri=uri, storage=storage))
        driver = Command(folder, counts)
        faults = Faults(minutes * 60, folder, proxy, driver, chance)
        files = _feed(minutes * 60, folder, driver, faults)
        table = LanceTable(uri, server.storage_options)
        _await_rows(table, files * ROWS, driver)
        code = driver.stop()
        found = Counter(table.values("id"))
        lost = [number for number in range(files * ROWS) if number not in found]
        doubled = [number for number, times in found.items() if times > 1]
        output = (folder / "output.txt").read_text()
    return _report(counts, faults, files, lost, doubled, code, output)


def _feed(seconds: float, folder: Path, driver: Command, faults: Faults) -> int:
    """Add a file a second while faults happen; return how many."""
    started, files, sampled = time.monotonic(), 0, 0.0
    while (now := time.monotonic() - started) < seconds:
        faults.make(now)
        driver.keep_running()
        if files <= now:
            new = folder / "in" / f".{files}.json"
            new.write_text("\n".join(json.dumps({"id": files * ROWS + row}) for row in range(ROWS)))
            new.rename(folder / "in" / f"{files}.json")
            files += 1
        if now - sampled >= SAMPLE_SECONDS:
            driver.sample()
            sampled = now
        time.sleep(0.1)
    faults.make(float("inf"))
    return files


def _await_rows(table: LanceTable, rows: int, driver: Command) -> None:
    """Wait until all rows are there, or nothing more happens for two minutes."""
    before, changed = -1, time.monotonic()
    while time.monotonic() - changed < 120:
        driver.keep_running()
        driver.sample()
        now = table.open().count_rows()
        if now >= rows:
            return
        if now != before:
            before, changed = now, time.monotonic()
        time.sleep(2)


def _by_start(memory: list[tuple[int, float, float]]) -> list[list[tuple[int, float, float]]]:
    """Group the samples by the process that they are of."""
    return [[*samples] for _, samples in itertools.groupby(memory, key=lambda sample: sample[0])]


def _tenths(values: list[float]) -> list[float]:
    """Return the mean of each tenth of the values."""
    edges = [len(values) * tenth // 10 for tenth in range(11)]
    return [statistics.fmean(values[first:last]) for first, last in itertools.pairwise(edges) if last > first]


def _report(
    counts: Counts, faults: Faults, files: int, lost: list[int], doubled: list[int], code: int, output: str
) -> bool:
    print(f"{files * ROWS} rows in {files} files; {len(lost)} lost, {len(doubled)} doubled; {len(faults.done)} faults")
    print(f"the command was started {counts.starts} times and ended with {counts.exits}")
    print(f"{output.count(' landed as version ')} epochs landed")
    print(f"failures {dict(counts.failures)}, restarts {dict(counts.restarts)}")
    print(f"the health check answered {dict(counts.health)}")
    for start, samples in enumerate(_by_start(counts.memory), 1):
        for name, column in (("the driver's Python, with the page", 1), ("its JVM", 2)):
            curve = " ".join(f"{megabytes:.0f}" for megabytes in _tenths([sample[column] for sample in samples]))
            print(f"memory of {name} after start {start}, in MB, by tenths of its life: {curve}")
    is_well = not lost and not doubled and code == 0 and counts.exits == [-signal.SIGKILL, 0]
    print("\n".join(line for line in output.splitlines() if " landed as version " not in line))
    return is_well


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minutes", type=float)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 10**6))
    given = parser.parse_args()
    print(f"SEED={given.seed}", flush=True)
    return 0 if run(given.minutes, given.seed) else 1


if __name__ == "__main__":
    sys.exit(main())
