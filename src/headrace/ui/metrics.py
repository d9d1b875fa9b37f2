"""The status of a run as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headrace.ui.status import ENDED, FAILED, RunStatus


class Metrics:
    """The metrics of one run, in a separate registry, without the other metrics of the process."""

    def __init__(self, run: RunStatus) -> None:
        self._run = run
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def text(self) -> bytes:
        """Return the current metrics in Prometheus's text format."""
        return generate_latest(self._registry)

    def describe(self) -> list[Metric]:
        """Return nothing. Called by the registry, which would otherwise call `collect` to learn the names."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics. Called by the registry for each scrape."""
        status = self._run.snapshot()
        totals, epochs = status["totals"], status["epochs"]
        yield CounterMetricFamily("headrace_epochs_landed", "Epochs that landed in this run.", value=totals["epochs"])
        yield CounterMetricFamily(
            "headrace_epochs_skipped", "Epochs that had landed before and were skipped.", value=totals["skipped"]
        )
        yield CounterMetricFamily("headrace_rows_landed", "Rows that landed in this run.", value=totals["rows"])
        is_up = status["state"] not in (ENDED, FAILED)
        yield GaugeMetricFamily("headrace_up", "1 while the run is active, 0 after it ended or failed.", value=is_up)
        if epochs:
            yield from _of_epoch(epochs[-1])
            yield from _of_lag(epochs)
        yield from _gauge("headrace_table_version", "The newest known version of the table.", totals["version"])
        fragments = next((each["fragments"] for each in reversed(epochs) if each["fragments"] is not None), None)
        yield from _gauge("headrace_table_fragments", "The table's fragments when last counted.", fragments)


def _of_epoch(epoch: dict[str, Any]) -> Iterator[Metric]:
    yield GaugeMetricFamily("headrace_epoch_seconds", "Duration of the last epoch in seconds.", value=epoch["seconds"])
    phases = GaugeMetricFamily(
        "headrace_epoch_phase_seconds", "Duration of each phase of the last epoch in seconds.", labels=["phase"]
    )
    for name, seconds in epoch["phases"].items():
        phases.add_metric([name], seconds)
    yield phases


def _of_lag(epochs: Sequence[dict[str, Any]]) -> Iterator[Metric]:
    """Yield the newest lag that is known: not every epoch has one."""
    known = next((each["lag"] for each in reversed(epochs) if each["lag"] is not None), None)
    if known is None:
        return
    lag = GaugeMetricFamily("headrace_lag", "How far behind its source the run was when last known.", labels=["unit"])
    for unit, value in known.items():
        lag.add_metric([unit], value)
    yield lag


def _gauge(name: str, what: str, value: float | None) -> Iterator[Metric]:
    """Yield a gauge; nothing if the value is not known, because 0 would be wrong."""
    if value is not None:
        yield GaugeMetricFamily(name, what, value=value)
