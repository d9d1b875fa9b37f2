"""The board as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headrace.ui.status import ENDED, FAILED, RunStatus


class Metrics:
    """The metrics of one board, in a registry of their own: what else the process counts is not among them."""

    def __init__(self, board: RunStatus) -> None:
        self._board = board
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def text(self) -> bytes:
        """All of them at this moment, in Prometheus's text format."""
        return generate_latest(self._registry)

    def describe(self) -> list[Metric]:
        """Called by the registry, which would otherwise collect to learn the names."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Called by the registry for each scrape."""
        told = self._board.snapshot()
        totals, epochs = told["totals"], told["epochs"]
        yield CounterMetricFamily("headrace_epochs_landed", "Epochs that landed in this run.", value=totals["epochs"])
        yield CounterMetricFamily(
            "headrace_epochs_skipped", "Epochs that had landed before and were skipped.", value=totals["skipped"]
        )
        yield CounterMetricFamily("headrace_rows_landed", "Rows that landed in this run.", value=totals["rows"])
        is_up = told["state"] not in (ENDED, FAILED)
        yield GaugeMetricFamily("headrace_up", "Whether the run goes on: 0 once it has ended or failed.", value=is_up)
        if epochs:
            yield from _of_epoch(epochs[-1])
        yield from _gauge("headrace_table_version", "The newest version that is known.", totals["version"])
        fragments = next((each["fragments"] for each in reversed(epochs) if each["fragments"] is not None), None)
        yield from _gauge("headrace_table_fragments", "Fragments when they were last counted.", fragments)


def _of_epoch(epoch: dict[str, Any]) -> Iterator[Metric]:
    yield GaugeMetricFamily("headrace_epoch_seconds", "How long the last epoch took.", value=epoch["seconds"])
    phases = GaugeMetricFamily("headrace_epoch_phase_seconds", "That, in parts.", labels=["phase"])
    for name, seconds in epoch["phases"].items():
        phases.add_metric([name], seconds)
    yield phases
    if epoch["lag"] is not None:
        lag = GaugeMetricFamily("headrace_lag", "How far behind its source the run is.", labels=["unit"])
        lag.add_metric([epoch["lag"]["unit"]], epoch["lag"]["value"])
        yield lag


def _gauge(name: str, what: str, value: float | None) -> Iterator[Metric]:
    """A gauge whose value is known; one that is not is left out rather than said to be 0."""
    if value is not None:
        yield GaugeMetricFamily(name, what, value=value)
