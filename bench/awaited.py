"""What a batch costs that is read from the engine with `next`, as headrace does, and with `await anext`.

Cancelling the task of an `anext` would be another way to stop a query; ARCHITECTURE.md says why headrace aborts a
thread instead. Both read the same stream of datafusion's, in turns; the median of the runs is printed.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from typing import Any

import datafusion

from _measure import table

RUNS = 7
PARTITIONS = (1, 2)
SQL = "select value from generate_series(1, 40000000)"


def stream(partitions: int) -> Any:
    config = datafusion.SessionConfig().with_target_partitions(partitions)
    return datafusion.SessionContext(config).sql(SQL).execute_stream()


def with_next(partitions: int) -> int:
    return sum(1 for _ in stream(partitions))


def with_anext(partitions: int) -> int:
    async def count() -> int:
        batches = 0
        async for _ in stream(partitions):
            batches += 1
        return batches

    return asyncio.run(count())


def microseconds(read: Callable[[int], int], partitions: int) -> float:
    started = time.perf_counter()
    batches = read(partitions)
    return (time.perf_counter() - started) / batches * 1e6


def main() -> None:
    lines = []
    for partitions in PARTITIONS:
        runs = [(microseconds(with_next, partitions), microseconds(with_anext, partitions)) for _ in range(RUNS)]
        synchronous, awaited = (statistics.median(times) for times in zip(*runs, strict=True))
        lines.append([str(partitions), f"{synchronous:.0f}", f"{awaited:.0f}", f"{awaited / synchronous:.1f}"])
    print(table(["partitions", "next, us a batch", "anext, us a batch", "anext : next"], lines))


if __name__ == "__main__":
    main()
