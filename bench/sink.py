"""Landing epochs in Lance, against Spark's own parquet sink and against collecting them on the driver.

Three measurements. *Steady epochs*: the time of an epoch in a stream that has run for a while. *After a start*: the
first epoch of a new application, and an epoch that the application finds landed when it starts again. *As versions
accumulate*: writing and committing a small epoch without Spark, with and without compaction.

``rows dropped`` hands the rows to Python and drops them: that time is Spark's, and no sink in Python can be faster.
``collected`` and ``deltalake`` are what people write into foreachBatch. They have every row of an epoch in the
driver's memory, and after a crash they may write an epoch again.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import _started as started
from _spark import start as start_spark
from _streams import (
    DROPPED,
    NARROW,
    OURS,
    PARQUET,
    VECTORS,
    Shape,
    Start,
    Stream,
    collected,
    to_deltalake,
    to_format,
    to_nothing,
    to_parquet,
    to_sink,
)
from harness import Aim, Case, Work, main

STARTS: dict[str, Start] = {
    OURS[0]: to_format,
    OURS[1]: to_sink,
    DROPPED: to_nothing,
    PARQUET: to_parquet,
    "collected": collected,
    "deltalake": to_deltalake,
}

# Below this, an epoch is mostly Spark's own bookkeeping.
LARGE = 100_000


def aims(shape: Shape, rows: int) -> tuple[Aim, ...]:
    if shape is not NARROW:
        return ()
    at_most, other = (1.08, DROPPED) if rows >= LARGE else (1.0, PARQUET)
    return tuple(Aim(name, at_most, to=other) for name in OURS)


def steady(arguments: argparse.Namespace) -> Iterator[Case]:
    import headrace.spark

    wanted = [(NARROW, rows) for rows in arguments.rows] + [(VECTORS, rows) for rows in arguments.vectors]
    if arguments.quick:
        wanted = wanted[:1]
    if not wanted:
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        spark = start_spark(Path(name))
        headrace.spark.register(spark)
        for shape, rows in wanted:
            epochs = 2 if arguments.quick else arguments.epochs * (2 if rows < LARGE else 1)
            yield Case(
                f"steady epochs of {rows:,} {shape.name}",
                {name: Stream(spark, start, shape, rows, epochs) for name, start in STARTS.items()},
                ours=OURS,
                base=DROPPED if rows >= LARGE else PARQUET,
                rounds=arguments.rounds,
                warm_up=rows < LARGE,  # Java compiles what all share in the first streams
                aims=aims(shape, rows),
                work=Work(rows, "rows"),
            )
        spark.stop()


def cases(arguments: argparse.Namespace) -> Iterator[Case]:
    import _accumulated as accumulated  # imports Lance, as a measured start must not

    yield from steady(arguments)
    yield from started.cases(arguments.starts, __file__)
    yield from accumulated.cases([20] if arguments.quick else arguments.versions)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000, 2_000_000], help="rows per epoch, narrow rows")
    parser.add_argument("--vectors", type=int, nargs="*", default=[], help="rows per epoch, vectors: 200000")
    parser.add_argument(
        "--epochs", type=int, default=4, help="measured epochs of a stream; of small ones twice as many"
    )
    parser.add_argument("--rounds", type=int, default=2, help="streams of each sink, in turns")
    parser.add_argument("--starts", type=int, default=2, help="applications of each sink, in turns")
    parser.add_argument("--versions", type=int, nargs="*", default=[50, 1_000], help="10000 takes minutes more")


if __name__ == "__main__":
    main(cases, options=options, child=started.child)
