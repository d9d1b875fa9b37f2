"""Many seeds on all cores, in processes that may crash."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import wait

from support.differential.processes import DEADLINE, CrashError, Worker
from support.differential.report import described
from support.differential.seeds import (
    Case,
    Failure,
    Outcome,
    Slant,
    check_case,
    queries_of,
    run_seed,
    tables_and_settings,
)
from support.differential.shrink import shrink
from support.differential.verdict import Disagreement


@dataclass(slots=True)
class Tally:
    """What was counted over many seeds."""

    counts: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    inherited: Counter[str] = field(default_factory=Counter)
    wrong: dict[int, list[Failure]] = field(default_factory=dict)

    def add(self, seed: int, outcome: Outcome) -> None:
        self.counts += outcome.counts
        self.left_out += outcome.left_out
        self.inherited += outcome.inherited
        if outcome.failures:
            self.wrong[seed] = outcome.failures


def run_many(seeds: Iterable[int], slant: Slant, tally: Tally, processes: int | None = None) -> Iterator[int]:
    """Run seeds in processes, and yield each that disagreed or crashed, as soon as it has."""
    waiting = iter(seeds)
    workers = [Worker() for _ in range(processes or os.cpu_count() or 1)]
    busy: dict[object, tuple[Worker, int]] = {}
    try:
        for worker in workers:
            _hand_over(worker, waiting, slant, busy)
        while busy:
            ready = wait([worker.connection for worker, _ in busy.values()], DEADLINE)
            for connection in ready or list(busy):
                worker, seed = busy.pop(connection)
                tally.add(seed, _outcome(worker, seed, slant))
                _hand_over(worker, waiting, slant, busy)
                if seed in tally.wrong:
                    yield seed
    finally:
        for worker in workers:
            worker.close()


def _hand_over(worker: Worker, waiting: Iterator[int], slant: Slant, busy: dict[object, tuple[Worker, int]]) -> None:
    seed = next(waiting, None)
    if seed is not None:
        worker.submit(run_seed, seed, slant)
        busy[worker.connection] = (worker, seed)


def _outcome(worker: Worker, seed: int, slant: Slant) -> Outcome:
    try:
        outcome: Outcome = worker.result(0.0)
        return outcome
    except CrashError as crash:
        return crashed(worker, seed, slant, str(crash))


def crashed(worker: Worker, seed: int, slant: Slant, words: str) -> Outcome:
    """Which query of a seed it was that crashed, asked one by one."""
    tables, settings, ways = tables_and_settings(seed, slant)
    outcome = Outcome()
    for way in ways:
        for query in queries_of(seed, tables, slant):
            case = Case(tuple(tables), query, way, settings)
            found = check_apart(worker, case)
            if found is not None:
                outcome.failures.append(Failure(case, found))
                outcome.counts[f"{way} disagrees"] += 1
    if not outcome.failures:
        query = next(queries_of(seed, tables, slant))
        outcome.failures.append(Failure(Case(tuple(tables), query, ways[0], settings), Disagreement("crash", words)))
    return outcome


def check_apart(worker: Worker, case: Case) -> Disagreement | None:
    """Check one case in a process that may crash."""
    try:
        found: Disagreement | None = worker.call(check_case, case, deadline=20.0)
        return found
    except CrashError as crash:
        return Disagreement("crash", str(crash))


def smallest(seed: int, failures: list[Failure], seconds: float = 60.0) -> str:
    """The failures of a seed in words, one of each kind, each at its smallest."""
    kinds: dict[str, Failure] = {}
    for failure in failures:
        kinds.setdefault(failure.disagreement.kind, failure)
    with Worker() as worker:
        shrunk = [shrink(failure, lambda case: check_apart(worker, case), seconds) for failure in kinds.values()]
    return "\n".join(described(seed, failure) for failure in shrunk)
