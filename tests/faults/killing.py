"""A Spark stream whose driver is killed at random moments, again and again, while others work on its table."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from company import UPKEEP, WRITING, Company
from landing_plan import Stream
from landing_rig import Driver, Watcher, add_epochs, make_table, require_exact

EPOCHS_PER_KILL = 8


def kill_and_finish(
    folder: Path, *, kills: int, seed: int, way: str, mode: str, told: Callable[[str], object] = lambda line: None
) -> None:
    """Kill ``kills`` runs of one query at random moments, and let the last run finish.

    Everything is checked: what a reader sees meanwhile, the rows in the end, the stamps, and other writers' rows.
    """
    chance = random.Random(seed)
    epochs = EPOCHS_PER_KILL * kills + 4
    add_epochs(folder / "in", range(epochs))
    uri = make_table(str(folder / "t.lance"))
    stream = Stream(uri, str(folder / "in"), str(folder / "checkpoint"), way=way, mode=mode)
    with ExitStack() as stack:
        watcher = stack.enter_context(Watcher(uri, mode, epochs))
        acts = ("compact", "clean up") if mode == "complete" else WRITING + UPKEEP
        company = stack.enter_context(Company(uri, acts, seed))
        for kill in range(kills):
            with Driver(stream) as driver:
                driver.hear("started")
                # The moment is the fault: not before this run landed something, and not when it is done.
                watcher.wait_for(min(watcher.reached + chance.randrange(1, EPOCHS_PER_KILL), epochs - 1))
                driver.run_on(chance.uniform(0, 0.5))
                driver.kill()
                driver.require_killed()
            told(f"kill {kill + 1} of {kills}: {watcher.reached} of {epochs} epochs have landed, all of them once")
        with Driver(stream) as driver:
            driver.hear("started")
            driver.require_done()
        watcher.wait_for(epochs)
    require_exact(uri, mode, epochs, may_join=True, may_be_cleaned=True, by=way, times=kills)
    if mode != "complete":
        company.require_kept()
