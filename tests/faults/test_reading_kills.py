"""F1, R6: from Lance to Lance, the driver dies at any moment, others write and compact, and every row lands once.

The moments are random; `HEADRACE_SEED` in the environment repeats them.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
from dataclasses import replace
from pathlib import Path
from typing import Self

import lance
import pyarrow as pa
import pytest
from landing_plan import SCHEMA, Stream
from landing_rig import Driver, becomes_true, stamped_epochs

from support.deadlines import allow_long_test
from support.lance_tables import LanceTable, create_table
from support.tally import require_same

pytestmark = pytest.mark.xdist_group("landing-drivers")

FOREIGN = 10**9


class Others(threading.Thread):
    """A writer that keeps adding rows to the source and other rows to the target, and compacts both."""

    def __init__(self, source: str, target: str, seed: int) -> None:
        super().__init__(daemon=True)
        self._source = source
        self._target = target
        self._chance = random.Random(seed)
        self._numbers = itertools.count()
        self._stopped = threading.Event()
        self._failure: Exception | None = None
        self.emitted: list[int] = []
        self.foreign: list[int] = []

    def emit(self, rows: int) -> None:
        """Adds rows to the source, in one version and two files."""
        ids = [next(self._numbers) for _ in range(rows)]
        LanceTable(self._source).write(pa.table({"id": pa.array(ids, pa.int64())}), max_rows_per_file=-(-rows // 2))
        self.emitted += ids

    def run(self) -> None:
        try:
            while not self._stopped.wait(0.3):
                self._act()
        except Exception as error:  # noqa: BLE001 - raised to the test on leaving
            self._failure = error

    def _act(self) -> None:
        match self._chance.randrange(4):
            case 0:
                self.emit(self._chance.randrange(1, 6))
            case 1:
                number = FOREIGN + len(self.foreign)
                LanceTable(self._target).write(pa.table({"id": [number], "n": [0]}, schema=SCHEMA))
                self.foreign.append(number)
            case 2:
                lance.dataset(self._source).optimize.compact_files()
            case _:
                lance.dataset(self._target).optimize.compact_files()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.join(30)
        if self._failure is not None:
            raise self._failure


def count(uri: str) -> int:
    return int(lance.dataset(uri).count_rows(f"id < {FOREIGN}"))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["format", "sink"])
def test_drivers_killed_at_random_moments_lose_and_double_nothing(tmp_path: Path, way: str) -> None:
    """F1, R1, R2, R6: ten runs die at whatever they are doing, and the last one finishes."""
    allow_long_test()
    seed = int(os.environ.get("HEADRACE_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    print(f"HEADRACE_SEED={seed}")
    moments = random.Random(seed)
    source, target = str(tmp_path / "source.lance"), str(tmp_path / "target.lance")
    create_table(source, pa.table({"id": pa.array([], pa.int64())}))
    create_table(target, SCHEMA)
    stream = Stream(target, source, str(tmp_path / "checkpoint"), way=way, reads="lance")
    others = Others(source, target, seed)
    others.emit(5)
    with others:
        for _ in range(10):
            others.emit(20)
            landed = count(target)
            with Driver(stream) as driver:
                driver.hear("started")
                # The moment is the fault: not before this run landed something, and not when it is done.
                assert becomes_true(lambda landed=landed: count(target) > landed, 100), driver.stderr
                driver.run_on(moments.uniform(0, 3.0))
                driver.kill()
                driver.require_killed()
    with Driver(replace(stream, rows=100)) as driver:
        driver.hear("started")
        driver.require_done()
    found = lance.dataset(target).to_table(columns=["id"])["id"].to_pylist()
    require_same(f"append, {way}", others.emitted + others.foreign, found, times=10)
    assert max(stamped_epochs(target).values()) == 1
