"""``python -m simulation SEED`` or ``FIRST-END``."""

from __future__ import annotations

import sys
import time

from simulation.many import be_quiet, wrong_ones
from simulation.world import World


def main() -> int:
    first, _, end = sys.argv[1].partition("-")
    return _many(range(int(first), int(end))) if end else _one(int(first))


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
