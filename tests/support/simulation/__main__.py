"""``python -m simulation SEED`` or ``FIRST-END``."""

from __future__ import annotations

import logging
import sys
import time

from simulation.oracle import WrongError
from simulation.world import World, simulate


def main() -> int:
    logging.getLogger("headrace").setLevel(logging.CRITICAL)  # warnings by the thousand are expected
    first, _, end = sys.argv[1].partition("-")
    if not end:
        world = World(int(first), is_told=True)
        try:
            world.run()
        except Exception as error:  # noqa: BLE001 - whatever it is, the story tells
            print(world.plan, world.story, f"WRONG: {error}", sep="\n")
            return 1
        print(world.plan, world.story, "All is well.", sep="\n")
        return 0
    started, failed = time.monotonic(), []
    for seed in range(int(first), int(end)):
        try:
            simulate(seed)
        except WrongError as error:
            failed.append(seed)
            print(error if len(failed) == 1 else str(error).partition("\n")[0])
    print(f"{int(end) - int(first)} seeds in {time.monotonic() - started:.1f} s, {len(failed)} wrong: {failed[:20]}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
