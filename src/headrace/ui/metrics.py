"""The status of a run as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headrace.pipeline.listener import STUCK
from headrace.ui.status import DOWN, ENDED, FAILED, RunStatus

# Counters of a run's totals: the metric, the total, and what it counts.
_TOTALS = (
    ("headrace_epochs_landed", "epochs", "Epochs that landed in this run."),
    ("headrace_epochs_skipped", "skipped", "Epochs that had landed before and were skipped."),
    ("headrace_rows_landed", "rows", "Rows that landed in this run."),
    ("headrace_null_rows", "null_rows", "Rows that landed null in every column in this run."),
)


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
        return _Families(status["pipeline"]).of(status)


class _Families:
    """Makes metrics that have the pipeline as their first label."""

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline

    def of(self, status: Mapping[str, Any]) -> Iterator[Metric]:
        totals, epochs, state = status["totals"], status["epochs"], status["state"]
        for name, total, what in _TOTALS:
            yield self._counter(name, what, {(): totals[total]})
        yield self._counter("headrace_failures", "Failures of the query.", _by(status["failures"]), "kind")
        yield self._counter("headrace_restarts", "Restarts after a failure.", _by(status["restarts"]), "kind")
        is_up = state not in (DOWN, ENDED, FAILED)
        yield self._gauge("headrace_up", "1 while the query runs; 0 while it is down and after it ended.", is_up)
        yield self._gauge("headrace_stuck", "1 if a trigger runs and nothing changes.", status["activity"] == STUCK)
        idle = status["now"] - (status["last_rows"] or status["started"])
        yield self._gauge("headrace_source_idle_seconds", "Seconds since the source had rows.", max(0.0, idle))
        known = [
            ("headrace_last_success_timestamp_seconds", "When a trigger last ended well.", status["last_success"]),
            ("headrace_table_version", "The newest known version of the table.", totals["version"]),
            ("headrace_table_fragments", "The table's fragments when last counted.", _last(epochs, "fragments")),
        ]
        # A value that is not known is left out, because 0 would be wrong.
        yield from (self._gauge(name, what, value) for name, what, value in known if value is not None)
        if epochs:
            yield from self._of_epoch(epochs[-1])
        lag = _last(epochs, "lag")
        if lag is not None:
            what = "How far behind its source the run was when last known."
            yield self._labelled("headrace_lag", what, _by(lag), "unit")

    def _of_epoch(self, epoch: Mapping[str, Any]) -> Iterator[Metric]:
        yield self._gauge("headrace_epoch_seconds", "Duration of the last epoch in seconds.", epoch["seconds"])
        what = "Duration of each phase of the last epoch in seconds."
        yield self._labelled("headrace_epoch_phase_seconds", what, _by(epoch["phases"]), "phase")

    def _gauge(self, name: str, what: str, value: float) -> Metric:
        return self._labelled(name, what, {(): value})

    def _labelled(self, name: str, what: str, values: Mapping[tuple[str, ...], float], *labels: str) -> Metric:
        return self._filled(GaugeMetricFamily(name, what, labels=["pipeline", *labels]), values)

    def _counter(self, name: str, what: str, values: Mapping[tuple[str, ...], float], *labels: str) -> Metric:
        return self._filled(CounterMetricFamily(name, what, labels=["pipeline", *labels]), values)

    def _filled(self, family: Any, values: Mapping[tuple[str, ...], float]) -> Metric:
        for labels, value in values.items():
            family.add_metric([self._pipeline, *labels], value)
        made: Metric = family
        return made


def _by(values: Mapping[str, float]) -> dict[tuple[str, ...], float]:
    return {(name,): value for name, value in values.items()}


def _last(epochs: list[Any], key: str) -> Any:
    return next((each[key] for each in reversed(epochs) if each[key] is not None), None)
