"""Small epochs without Spark as versions accumulate, with and without compaction, for `sink.py`."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import lance
import pyarrow as pa

from _streams import NARROW
from harness import Case, Metric, Samples
from headrace.tables import sink as sinks
from headrace.tables.commit.ledger import QueryRun
from headrace.tables.commit.payload import AppendPayload
from headrace.tables.commit.protocol import Rules
from headrace.tables.location import Location
from headrace.tables.manage.compact import CompactionRules
from headrace.tables.write.data_files import Task, write_rows

METRICS = (
    Metric("epoch", "ms"),
    Metric("versions read", ""),
    Metric("versions kept", ""),
    Metric("fragments", ""),
    Metric("files", "MB"),
)
RULES = {
    "no compaction": CompactionRules(),
    "compactEveryEpochs=50": CompactionRules(every_epochs=50),
    "and retainVersions=100": CompactionRules(every_epochs=50, retain_versions=100),
}
WINDOW = 40


def cases(marks: Sequence[int]) -> Iterator[Case]:
    """Yield a case per number of epochs; the first measures all."""
    run = cache(lambda name: _landed(RULES[name], tuple(marks)))
    for mark in marks:
        yield Case(
            f"epoch {mark:,} of 100 rows, without Spark",
            {name: (lambda name=name, mark=mark: run(name)[mark]) for name in RULES},  # type: ignore[misc]
            ours=list(RULES),
            base="no compaction",
            rounds=1,
            warm_up=False,
            metrics=METRICS,
        )


def _landed(rules: CompactionRules, marks: tuple[int, ...]) -> dict[int, Samples]:
    """Land epochs up to the last mark; at each mark return the last epochs' times, and what is there."""
    batch = pa.record_batch([range(100), range(100), [0.5] * 100, ["x"] * 100], schema=NARROW.schema)
    found: dict[int, Samples] = {}
    run = QueryRun("bench", "bench")
    with tempfile.TemporaryDirectory() as name:
        location = Location(f"{name}/t.lance")
        lance.write_dataset(NARROW.schema.empty_table(), location.uri)
        sink = sinks.EpochSink(sinks.SinkSettings(location, Rules("bench"), compaction=rules))
        times: list[float] = []
        read: list[int] = []
        for epoch in range(max(marks, default=0)):
            before, started = sink.committer(run).state.versions_read, time.perf_counter()
            sink.land(epoch, run, AppendPayload([write_rows([batch], location, Task(0, run, epoch))]))
            times.append((time.perf_counter() - started) * 1000)
            read.append(sink.committer(run).state.versions_read - before)
            if epoch + 1 in marks:
                sinks.compactor.wait()
                table = lance.dataset(location.uri)
                size = sum(file.stat().st_size for file in Path(location.uri).rglob("*") if file.is_file())
                counts = [
                    statistics.mean(read[-WINDOW:]),
                    len(table.versions()),
                    len(table.get_fragments()),
                    size / 1e6,
                ]
                rest = {metric.name: [count] for metric, count in zip(METRICS[1:], counts, strict=True)}
                found[epoch + 1] = Samples({METRICS[0].name: times[-WINDOW:], **rest})
    return found
