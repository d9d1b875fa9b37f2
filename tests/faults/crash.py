"""``make crash KILLS=200``: real Spark drivers are killed at random moments, in every mode, until so many are dead.

A table of each round is kept when it is wrong, and the seed repeats the moments.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from killing import kill_and_finish

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
    kills, rows, started, number = Counter[str](), Counter[str](), time.monotonic(), 0
    is_well = True
    try:
        while kills.total() < told.kills and is_well:
            way, mode = WAYS[number % len(WAYS)]
            name, count = f"{mode}, {way}", min(ROUND, told.kills - kills.total())
            print(f"\n{name}: round {number + 1}", flush=True)
            is_well, sent = run_round(count, told.seed + number, way, mode)
            kills[name] += count
            rows[name] += sent
            number += 1
    except KeyboardInterrupt:
        print("\nStopped; what was done so far:")
    report(kills, rows, time.monotonic() - started, told.tally, is_well=is_well)
    return 0 if is_well else 1


def run_round(kills: int, seed: int, way: str, mode: str) -> tuple[bool, int]:
    folder = Path(tempfile.mkdtemp(prefix="headrace-crash-"))
    is_kept = False
    try:
        return True, kill_and_finish(
            folder, kills=kills, seed=seed, way=way, mode=mode, told=lambda line: print(f"  {line}", flush=True)
        )
    except (AssertionError, TimeoutError) as error:
        is_kept = True
        print(f"  WRONG, and {folder} is kept: {error}", flush=True)
        return False, 0
    finally:
        if not is_kept:
            shutil.rmtree(folder, ignore_errors=True)


def report(kills: Counter[str], rows: Counter[str], seconds: float, tally: Path | None, *, is_well: bool) -> None:
    print(f"\n{'mode':<20}{'kills':>8}{'rows in':>10}{'lost':>8}{'doubled':>8}")
    for name in kills:
        print(f"{name:<20}{kills[name]:>8}{rows[name]:>10,}{0:>8}{0:>8}" if is_well else f"{name:<20}{kills[name]:>8}")
    print(f"{kills.total()} kills in {seconds / 60:.1f} minutes: {'nothing' if is_well else 'SOMETHING'} was wrong")
    if tally is not None and is_well:
        counts = [{"mode": name, "times": kills[name], "rows": rows[name], "lost": 0, "doubled": 0} for name in kills]
        line = {"test": "make crash", "faults": ["F1", "F5", "F7"], "outcome": "passed", "counts": counts}
        with tally.open("a") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    sys.exit(main())
