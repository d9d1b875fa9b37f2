"""What tests of faults measured: how often a fault was made, and what became of the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Count:
    """One experiment, or several of a kind.

    Attributes:
        mode: How the rows got where they were to go.
        times: How often the fault was made.
        rows: How many rows had to come out.
        lost: How many of them did not.
        doubled: How many came out that did not go in, or more often than they did.
        uncompared: Faults that the test makes too, and where it compares no rows; they are not counted here.
    """

    mode: str
    times: int
    rows: int
    lost: int
    doubled: int
    uncompared: tuple[str, ...] = ()


_counts: list[Count] = []


def record(mode: str, *, times: int, rows: int, lost: int, doubled: int, uncompared: tuple[str, ...] = ()) -> None:
    """Notes an experiment in the name of the test that is running.

    The numbers come from the code that compared the rows; an experiment that compared none is not noted. Hence no
    defaults: a zero that was not counted would look like one that was.
    """
    _counts.append(Count(mode, times, rows, lost, doubled, uncompared))


def taken() -> list[Count]:
    """What was noted since this was last asked."""
    counts = _counts[:]
    _counts.clear()
    return counts


def require_same(mode: str, sent: Iterable[Hashable], found: Iterable[Hashable], *, times: int = 1) -> None:
    """Compares what was sent with what was found, in any order, and notes it. Either may be a Counter."""
    before, after = Counter(sent), Counter(found)
    lost, doubled = before - after, after - before
    record(mode, times=times, rows=before.total(), lost=lost.total(), doubled=doubled.total())
    assert not lost, f"{lost.total()} rows are lost: {sorted(lost.elements(), key=str)[:20]}"
    assert not doubled, f"{doubled.total()} rows are there too often: {sorted(doubled.elements(), key=str)[:20]}"
