"""Grafana's dashboard, and the metrics that it and the alert rules use."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import AccessDeniedError, StorageFullError
from headrace.pipeline.failures import explain
from support.deployed import alerts, dashboard, dashboard_queries, yaml_of
from support.promql import OF_A_SCRAPE, OF_PROMETHEUS, exposed, grouped, used
from support.promtool import find_promtool
from support.statuses import busy_board

PANELS: list[dict[str, Any]] = dashboard()["panels"]
QUERIES = [alert["expr"] for alert in alerts()] + dashboard_queries()
SERIES = [
    series["series"] for test in yaml_of("prometheus-alerts.test.yml")["tests"] for series in test["input_series"]
]


@pytest.fixture(scope="module")
def known() -> dict[str, set[str]]:
    """The labels of each metric that a run has, and of Prometheus's own."""
    return exposed() | OF_PROMETHEUS


def test_every_metric_that_is_used_is_one_of_a_run(known: dict[str, set[str]]) -> None:
    """C27: a query over a metric that does not exist finds nothing, without an error."""
    names = {name for query in QUERIES + SERIES for name, _ in used(query)}
    assert sorted(names - set(known)) == []


def test_every_label_that_is_used_is_one_of_its_metric(known: dict[str, set[str]]) -> None:
    """C27: neither does a query over a label that does not exist."""
    wrong = []
    for query in QUERIES:
        metrics = [(name, labels) for name, labels in used(query) if name in known]
        of_all = set[str]().union(OF_A_SCRAPE, *(known[name] for name, _ in metrics))
        wrong += [(name, label) for name, labels in metrics for label in set(labels) - known[name] - OF_A_SCRAPE]
        wrong += [(query, label) for label in grouped(query) - of_all if metrics]
    assert wrong == []


def test_every_phase_that_is_used_is_one_of_an_epoch() -> None:
    """C27: a phase that was renamed would be no error either."""
    named = {labels["phase"] for query in QUERIES + SERIES for _, labels in used(query) if "phase" in labels}
    assert named
    assert named <= set(busy_board().snapshot()["epochs"][-1]["phases"])


def test_every_kind_that_is_used_is_one_of_a_failure() -> None:
    """C27: the same for a kind."""
    named = {kind for query in QUERIES for _, labels in used(query) for kind in labels.get("kind", "").split("|")}
    kinds = {explain(error("it failed.")).kind for error in (AccessDeniedError, StorageFullError)}
    assert named - {""} == kinds


def test_the_text_of_an_alert_uses_labels_that_it_has(known: dict[str, set[str]]) -> None:
    """C27: a missing label would leave a hole in the sentence."""
    wrong = []
    for alert in alerts():
        name, _ = next(used(alert["expr"]))
        has = grouped(alert["expr"]) if alert["expr"].startswith("sum") else known.get(name)
        if has is not None:
            named = re.findall(r"\$labels\.(\w+)", str(alert["annotations"]))
            wrong += [(alert["alert"], label) for label in set(named) - has - OF_A_SCRAPE]
    assert wrong == []


def test_the_rules_are_tested_with_series_as_prometheus_stores_them(known: dict[str, set[str]]) -> None:
    """C27: with all labels of the metric, and those of the scrape."""
    found = {series: next(used(series)) for series in SERIES}
    wrong = [
        (series, known[name])
        for series, (name, labels) in found.items()
        if name in known and not known[name] <= set(labels) <= known[name] | OF_A_SCRAPE
    ]
    assert wrong == []


def test_prometheus_parses_every_query(tmp_path: Path) -> None:
    """C27: with Grafana's variables replaced."""
    assert not any("$" in query for query in QUERIES)
    find_promtool().parse(QUERIES, tmp_path)


def test_panels_have_separate_numbers_and_places() -> None:
    """C27: Grafana shows one of two panels with the same id."""
    numbers = [panel["id"] for panel in PANELS]
    assert len(set(numbers)) == len(numbers)
    cells = [
        (panel["gridPos"]["x"] + column, panel["gridPos"]["y"] + row)
        for panel in PANELS
        for column in range(panel["gridPos"]["w"])
        for row in range(panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(column for column, _ in cells) < 24


def test_every_query_reads_the_chosen_datasource_and_pipelines() -> None:
    """C27: the dashboard is imported without a change."""
    variables = {each["name"]: each for each in dashboard()["templating"]["list"]}
    assert {name: each["type"] for name, each in variables.items()} == {"datasource": "datasource", "pipeline": "query"}
    for each in [variables["pipeline"], *PANELS, *(target for panel in PANELS for target in panel["targets"])]:
        assert each["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    for panel in PANELS:
        for target in panel["targets"]:
            assert all(labels.get("pipeline") == "$pipeline" for _, labels in used(target["expr"])), target["expr"]


def test_every_metric_of_a_run_is_on_the_dashboard(known: dict[str, set[str]]) -> None:
    """C27: and nothing is measured that nobody can see."""
    shown = {name for query in dashboard_queries() for name, _ in used(query)}
    assert sorted(set(known) - set(OF_PROMETHEUS) - shown) == []
