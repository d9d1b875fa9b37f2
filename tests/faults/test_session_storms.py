"""Faults in the session by the hundred, in one process: every row is accounted for, and nothing is left behind.

The seed stands in the message of a failure and in the output of the test; ``HEADRACE_SEED=17`` plays the same rounds
again. The short storms are played by one process, one after the other, the long ones by a process each.
"""

from __future__ import annotations

import os
import random
import tempfile
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from rig import Outcome, run_script
from session_storm import Storm, Total, judge

import headrace
from support.deadlines import PROGRAM_SECONDS, allow_long_test
from support.tally import record

# Short storms share a process, and so one worker has to play all of them.
pytestmark = pytest.mark.xdist_group("session storms")

MIXED = "all of them"
SHORT = {"F13": 30, "F14": 32, "F15": 30, "F16": 28, "F17": 10, "F18": 10, "F20": 30, "F21": 30, MIXED: 60}

# What half of the rounds may leave behind. A worker of the engine's pool for blocking calls may come or go, and what
# the allocators of a hundred threads keep levels off.
GROWTH = {"threads": 2, "descriptors": 0, "bytes in batches": 0, "megabytes": 32}

# What an exit may take beyond the two seconds of the guarantee, on a machine that has other things to do.
EXIT_SECONDS = 2.0 + 2.0

STORM = """
import session_storm
session_storm.main({rounds!r}, {seed})
kept = session_storm.leave_everything_open()
"""


def play(rounds: dict[str, int], seconds: float) -> Outcome:
    seed = int(os.environ.get("HEADRACE_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    print(f"HEADRACE_SEED={seed}")
    with tempfile.TemporaryDirectory() as folder:
        return run_script(STORM.format(rounds=rounds, seed=seed), seconds=seconds, environment={"TMPDIR": folder})


@cache
def short_storms() -> Outcome:
    return play(SHORT, seconds=PROGRAM_SECONDS)


def storm(name: str, rounds: int) -> Outcome:
    if rounds == SHORT[name]:
        return short_storms()
    allow_long_test()
    return play({name: rounds}, seconds=600)


def require_calm(name: str, rounds: int) -> Outcome:
    """Play a storm, note what it measured, and hold it against what no storm may do."""
    outcome = storm(name, rounds)
    assert name in outcome.facts, outcome.stderr
    facts = outcome.facts[name]
    print(facts)
    for mode, total in facts["totals"].items():
        record(f"{mode}, mixed" if name == MIXED else mode, **total)
    assert not facts["broken"], facts["broken"]
    assert facts["slowest"] < 1.0
    require_no_growth(facts, rounds)
    return outcome.require_clean()


def require_no_growth(facts: dict[str, Any], rounds: int) -> None:
    """Nothing grows in either half: one thread, descriptor, batch or object for each round would be many times that."""
    before, between, after = facts["counts"]
    # Any handle or exception that is left behind is made of dozens of objects.
    most = {**GROWTH, "objects": max(20, rounds // 2 - 1)}
    for thing, bound in most.items():
        grown = after[thing] - between[thing]
        assert grown <= bound, (
            f"seed {facts['seed']}: {thing} grew by {grown} in {rounds // 2} rounds: {facts['counts']}"
        )
    assert between["threads"] - before["threads"] <= GROWTH["threads"], facts
    assert between["descriptors"] <= before["descriptors"], facts
    assert between["bytes in batches"] <= before["bytes in batches"], facts


def times(name: str, long: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("rounds", [SHORT[name], pytest.param(long, marks=pytest.mark.slow)])


@pytest.fixture
def calm() -> Iterator[Storm]:
    """A storm before its first round."""
    with warnings.catch_warnings(), headrace.SessionContext() as session:
        yield Storm(1, [session])


def test_a_round_that_loses_or_doubles_a_row_breaks_the_storm_and_is_counted(calm: Storm) -> None:
    with pytest.raises(AssertionError, match="1 of 4 rows are lost"):
        calm.play(lambda storm: judge("push", [1, 2, 3], [1, 2, 2]))
    assert calm.totals == {"push": Total(times=1, rows=4, lost=1, doubled=1)}


def test_a_round_that_compares_nothing_is_not_counted(calm: Storm) -> None:
    calm.play(lambda storm: None)
    assert calm.totals == {}


def test_rows_that_nobody_had_to_read_are_not_counted(calm: Storm) -> None:
    calm.play(lambda storm: judge("push", range(1000), [0, 1], due=0))
    assert calm.totals == {"push": Total(times=1, rows=2)}


@times("F13", 999)
def test_producers_that_die_again_and_again_never_leave_a_short_result(rounds: int) -> None:
    """F13, P4, P12, S9: a thread raises or drops its sink, a process is killed; what was written, then the error."""
    require_calm("F13", rounds)


@times("F14", 1000)
def test_consumers_that_leave_again_and_again_end_producers_and_providers(rounds: int) -> None:
    """F14, P7, S7, T4: writes raise within 1 s, a provider's reader is closed once, and nothing grows."""
    require_calm("F14", rounds)


@times("F15", 999)
def test_slow_sides_again_and_again_lose_nothing_and_hold_the_bound(rounds: int) -> None:
    """F15, P2, S2: every row in order, whichever side waits; no more is queued than the capacity."""
    require_calm("F15", rounds)


@times("F16", 1001)
def test_providers_that_misbehave_again_and_again_fail_typed_and_are_closed_once(rounds: int) -> None:
    """F16, T3, T4, T5, T10: all rows before the fault, then the error with its original; nothing is kept of either."""
    require_calm("F16", rounds)


@times("F17", 500)
def test_many_tables_at_once_again_and_again_deliver_every_row(rounds: int) -> None:
    """F17, P13: 8 to 16 push tables of capacity 1 fed in turn by one producer, which now and then fails one of them."""
    require_calm("F17", rounds)


@times("F18", 200)
def test_forks_again_and_again_are_refused_at_once_and_the_parent_continues(rounds: int) -> None:
    """F18: each child gets ForkedError from all it calls, within 1 s, and exits with 0; the parent loses no row."""
    require_calm("F18", rounds)


@times("F20", 1000)
def test_ctrl_c_again_and_again_comes_out_within_a_second_and_closes_everything(rounds: int) -> None:
    """F20, P15, S12: in a write, a read and a collect that wait, and in a read that does not."""
    require_calm("F20", rounds)


@times("F21", 1000)
def test_races_again_and_again_end_in_one_way_and_leave_nothing(rounds: int) -> None:
    """F21, S11, P5: writers, readers and threads that end them, at any time; the first end is kept."""
    require_calm("F21", rounds)


@times(MIXED, 1020)
def test_all_faults_in_any_order_leave_a_sound_stream_alone_and_the_process_exits(rounds: int) -> None:
    """F13, F14, F15, F16, F17, F18, F19, F20, F21: beside sound streams; at the end it exits with everything open."""
    assert require_calm(MIXED, rounds).exit_seconds < EXIT_SECONDS
