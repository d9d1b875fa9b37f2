"""``python -m support.differential SEED`` or ``FIRST-END``."""

from __future__ import annotations

import re
import sys
import time

from support.differential.many import Tally, run_many, smallest
from support.differential.seeds import QUERIES, Slant
from support.differential.ways import WAYS

# At most this many seeds that disagree are shrunk; each later one is one line.
SHRUNK = 10


def main() -> int:
    seeds = re.fullmatch(r"(\d+)(?:-(\d+))?", sys.argv[1])
    if seeds is None:
        print(f"SEEDS is a number, or two as in 0-500, and not {sys.argv[1]!r}.", file=sys.stderr)
        return 2
    first, end = int(seeds[1]), int(seeds[2] or int(seeds[1]) + 1)
    started = time.monotonic()
    tally = Tally()
    for seed in run_many(range(first, end), Slant(), tally):
        failures = tally.wrong[seed]
        if len(tally.wrong) <= SHRUNK:
            print(smallest(seed, failures), flush=True)
        else:
            print(f"seed {seed}: {failures[0].disagreement.kind}, {failures[0].case.way}", flush=True)
    _print(tally, end - first, time.monotonic() - started)
    return bool(tally.wrong)


_WORDS = (
    "agrees",
    "refused alike",
    "refused as documented",
    "answered by the session alone",
    "left out",
    "disagrees",
)


def _print(tally: Tally, seeds: int, seconds: float) -> None:
    for way in WAYS:
        counted = ", ".join(f"{tally.counts[f'{way} {word}']} {word}" for word in _WORDS)
        print(f"{way:8}{counted}")
    for reason, times in tally.inherited.most_common():
        print(f"{times} queries with a known defect of {reason}")
    for reason, times in tally.left_out.most_common():
        print(f"left out {times} tables: {reason}")
    print(f"{seeds} seeds, {seeds * QUERIES} queries in {seconds:.0f} s, {len(tally.wrong)} seeds wrong")


if __name__ == "__main__":
    sys.exit(main())
