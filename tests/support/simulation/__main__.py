"""``python -m support.simulation SEED`` or ``FIRST-END``."""

from __future__ import annotations

import re
import sys
import time

from support.simulation.many import be_quiet, wrong_ones
from support.simulation.world import World


def main() -> int:
    seeds = re.fullmatch(r"(\d+)(?:-(\d+))?", sys.argv[1])
    if seeds is None:
        print(f"SEEDS is a number, or two as in 0-500, and not {sys.argv[1]!r}.", file=sys.stderr)
        return 2
    first, end = seeds.groups()
    return _one(int(first)) if end is None else _many(range(int(first), int(end)))


def _one(seed: int) -> int:
    be_quiet()
    world = World(seed, is_told=True)
    try:
        world.run()
    except Exception as error:  # noqa: BLE001 - whatever it is, the story tells
        print(world.plan, world.story, f"WRONG: {error}", sep="\n")
        return 1
    print(world.plan, world.story, "All is well.", sep="\n")
    return 0


def _many(seeds: range) -> int:
    started = time.monotonic()
    wrong = 0
    for said in wrong_ones(seeds):
        print(said.partition("\n")[0] if wrong else said)
        wrong += 1
    print(f"{len(seeds)} seeds in {time.monotonic() - started:.1f} s, {wrong} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
