"""A batch that is read from the engine with `next`, as headrace does, and with `await anext`.

Cancelling the task of an `anext` would be another way to stop a query; headrace aborts a thread instead,
which ARCHITECTURE.md explains. Both read the same stream of DataFusion's. The time is that of a batch.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import datafusion

from harness import Case, Metric, Samples, main

ROWS = 40_000_000


def stream(partitions: int, rows: int) -> Any:
    config = datafusion.SessionConfig().with_target_partitions(partitions)
    return datafusion.SessionContext(config).sql(f"select value from generate_series(1, {rows})").execute_stream()


def with_next(partitions: int, rows: int) -> int:
    return sum(1 for _ in stream(partitions, rows))


def with_anext(partitions: int, rows: int) -> int:
    async def count() -> int:
        batches = 0
        async for _ in stream(partitions, rows):
            batches += 1
        return batches

    return asyncio.run(count())


def timed(read: Callable[[int, int], int], partitions: int, rows: int) -> Callable[[], Samples]:
    def run() -> Samples:
        started = time.perf_counter()
        batches = read(partitions, rows)
        return Samples({"time of a batch": [(time.perf_counter() - started) / batches * 1e6]})

    return run


def cases(arguments: argparse.Namespace) -> Iterator[Case]:
    rows = ROWS // 100 if arguments.quick else ROWS
    for partitions in (1, 2):
        yield Case(
            f"{partitions} partition{'s' if partitions > 1 else ''}",
            {"next": timed(with_next, partitions, rows), "await anext": timed(with_anext, partitions, rows)},
            ours=["next"],
            base="next",
            metrics=(Metric("time of a batch", "µs"),),
        )


if __name__ == "__main__":
    main(cases)
    # The threads that `anext` leaves behind often crash Python where it exits the usual way.
    sys.stdout.flush()
    os._exit(0)
