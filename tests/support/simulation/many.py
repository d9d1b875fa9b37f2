"""Many seeds on all cores."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from support.simulation.oracle import WrongError
from support.simulation.world import simulate


def be_quiet() -> None:
    """The protocol warns by the thousand here, as it should."""
    logging.getLogger("headrace").setLevel(logging.CRITICAL)


def wrong_ones(seeds: Iterable[int]) -> Iterator[str]:
    """Yield the report of each seed under which something is wrong."""
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn"), be_quiet) as processes:
        yield from filter(None, processes.map(_wrong, seeds, chunksize=100))


def _wrong(seed: int) -> str | None:
    try:
        simulate(seed)
    except WrongError as error:
        return str(error)
    return None
