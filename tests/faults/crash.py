"""``make crash KILLS=200``: kill that number of real Spark drivers at random moments, in every mode.

A table of each round is kept when it is wrong, and the seed repeats the moments.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from killing import kill_and_finish

from support.tally import Count, taken

WAYS = [("format", "append"), ("sink", "upsert"), ("format", "complete"), ("sink", "append"), ("sink", "complete")]
ROUND = 5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", type=int)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 10**6))
    parser.add_argument("--tally", type=Path, help="add what was counted to this file")
    told = parser.parse_args()
    if told.kills < 1:
        parser.error("at least one driver is to be killed")
    print(f"SEED={told.seed}", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    counts: list[Count] = []
    done, started, is_well = 0, time.monotonic(), True
    try:
        for number, (way, mode) in enumerate(itertools.cycle(WAYS)):
            kills = min(ROUND, told.kills - done)
            if not kills or not is_well:
                break
            print(f"\n{mode}, {way}: round {number + 1}", flush=True)
            is_well = run_round(kills, told.seed + number, way, mode)
            counts += taken()
            done += kills
    except KeyboardInterrupt:
        print("\nStopped; what was done so far:")
    report(counts)
    minutes = (time.monotonic() - started) / 60
    print(f"{done} kills in {minutes:.1f} minutes: {'nothing' if is_well else 'SOMETHING'} was wrong")
    if told.tally is not None:
        note(counts, told.tally, "passed" if is_well else "failed")
    return 0 if is_well else 1


def run_round(kills: int, seed: int, way: str, mode: str) -> bool:
    """Whether all was well; if not, the round's table is kept."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-crash-"))

    def tell(line: str) -> None:
        print(f"  {line}", flush=True)

    try:
        kill_and_finish(folder, kills=kills, seed=seed, way=way, mode=mode, told=tell)
    except (AssertionError, TimeoutError) as error:
        tell(f"WRONG, and {folder} is kept: {error}")
        return False
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
    return True


def report(counts: list[Count]) -> None:
    print(f"\n{'mode':<20}{'kills':>8}{'rows in':>10}{'lost':>8}{'doubled':>8}")
    for mode in sorted({count.mode for count in counts}):
        of_mode = [(each.times, each.rows, each.lost, each.doubled) for each in counts if each.mode == mode]
        times, rows, lost, doubled = (sum(numbers) for numbers in zip(*of_mode, strict=True))
        print(f"{mode:<20}{times:>8}{rows:>10,}{lost:>8}{doubled:>8}")


def note(counts: list[Count], tally: Path, outcome: str) -> None:
    told = {"test": "make crash", "faults": ["F1", "F5", "F7"], "outcome": outcome}
    with tally.open("a") as file:
        file.write(json.dumps(told | {"counts": [asdict(count) for count in counts]}) + "\n")


if __name__ == "__main__":
    sys.exit(main())
