"""The first epoch of a new application, and an epoch that has landed before a restart, for `sink.py`."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from _spark import start as start_spark
from _streams import (
    NARROW,
    OURS,
    PARQUET,
    epochs_of,
    to_format,
    to_parquet,
    to_sink,
    writer,
)
from harness import Aim, Case, Metric, Samples, in_child

ROWS = 1_000
FIRST, REPLAY = Metric("first epoch", "ms"), Metric("replay", "ms")
KINDS = {OURS[0]: to_format, OURS[1]: to_sink, PARQUET: to_parquet}


def cases(starts: int, script: str) -> Iterator[Case]:
    """Yield the case, unless it is to run no application."""
    import lance

    if not starts:
        return

    def started(kind: str) -> Samples:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
            folder = Path(name)
            lance.write_dataset(NARROW.schema.empty_table(), folder / "out.lance")
            first = in_child(script, kind, folder)["ms"]
            _forget_commit(folder / "checkpoint")
            return Samples({FIRST.name: [first], REPLAY.name: [in_child(script, kind, folder)["ms"]]})

    yield Case(
        f"after a start, {ROWS:,} {NARROW.name}",
        {kind: (lambda kind=kind: started(kind)) for kind in KINDS},  # type: ignore[misc]
        ours=OURS,
        base=PARQUET,
        rounds=starts,
        warm_up=False,
        metrics=(FIRST, REPLAY),
        aims=tuple(Aim(name, 1.3, to=PARQUET, metric=each.name) for each in (FIRST, REPLAY) for name in OURS),
    )


def child(kind: str, name: str) -> None:
    """Start an application and a stream; print the milliseconds from there to the end of its first epoch."""
    folder = Path(name)
    spark = start_spark(folder)
    stream = writer(spark, folder, NARROW, ROWS)
    began = time.perf_counter()
    query = KINDS[kind](stream, folder)
    epochs_of(query, 1)
    milliseconds = (time.perf_counter() - began) * 1000
    query.stop()
    spark.stop()
    print(json.dumps({"ms": milliseconds}), flush=True)


def _forget_commit(checkpoint: Path) -> None:
    """Make a checkpoint that of an application that died after its first epoch had landed, before Spark noted it."""
    for log in ("commits", "offsets"):
        for file in (checkpoint / log).iterdir():
            epoch = file.name.strip(".").partition(".")[0]
            if epoch.isdigit() and (log == "commits" or epoch != "0"):
                os.remove(file)
