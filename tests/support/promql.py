"""The metrics of a run and their labels, and the ones that a query uses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from headrace import StorageError
from headrace.pipeline.failures import explain
from headrace.ui.metrics import Metrics
from support.statuses import busy_board

# Prometheus adds these labels to every series, and makes `up` itself.
OF_A_SCRAPE = {"job", "instance"}
OF_PROMETHEUS = {"up": set[str]()}

_SELECTOR = re.compile(r"\b(up|headrace_\w+)\b(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'\s*(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"\s*')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")


def exposed() -> dict[str, set[str]]:
    """The labels of each metric of a run with epochs, a lag, a failure and a restart."""
    board = busy_board()
    outage = explain(StorageError("the store answered 503."))
    board.down(outage, 8.0)
    board.restarted(outage)
    return {sample.name: set(sample.labels) for family in Metrics(board).collect() for sample in family.samples}


def used(query: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Each metric in a query with its matchers, as values by label."""
    for selector in _SELECTOR.finditer(query):
        matchers = selector[2] or ""
        labels = dict(_MATCHER.findall(matchers))
        assert len(labels) == len([each for each in matchers.split(",") if each.strip()]), query
        yield selector[1], labels


def grouped(query: str) -> set[str]:
    """The labels by which a query groups or joins."""
    return {label.strip() for labels in _GROUPING.findall(query) for label in labels.split(",") if label.strip()}
