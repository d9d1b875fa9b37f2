"""The alert rules, in Prometheus's own checks."""

from __future__ import annotations

import re

from support.deployed import DEPLOY, ROOT, alerts, yaml_of
from support.promtool import find_promtool


def test_prometheus_accepts_the_rules_and_the_configuration() -> None:
    """C27: as promtool reads them."""
    promtool = find_promtool()
    assert f"{len(alerts())} rules found" in promtool.run("check", "rules", DEPLOY / "prometheus-alerts.yml")
    assert "SUCCESS" in promtool.run("check", "config", DEPLOY / "prometheus.yml")


def test_the_alerts_fire_when_they_should_and_stay_silent_otherwise() -> None:
    """C27: the cases are in the file."""
    assert "SUCCESS" in find_promtool().run("test", "rules", DEPLOY / "prometheus-alerts.test.yml")


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    """C27: a rule that can never fire, or always does, is no alert."""
    cases = [case for test in yaml_of("prometheus-alerts.test.yml")["tests"] for case in test["alert_rule_test"]]
    fires = {case["alertname"] for case in cases if case.get("exp_alerts")}
    silent = {case["alertname"] for case in cases if not case.get("exp_alerts")}
    assert fires == silent == {alert["alert"] for alert in alerts()}


def test_every_alert_says_how_urgent_it_is_and_where_its_page_is() -> None:
    """C27: and the heading is there, with what to look at and what to do."""
    text = (ROOT / "docs/operations.md").read_text("utf-8")
    headings = re.findall(r"^#+ (Headrace\w+)$", text, re.MULTILINE)
    assert sorted(headings) == sorted(alert["alert"] for alert in alerts())
    for alert in alerts():
        assert alert["labels"]["severity"] in ("page", "ticket")
        assert alert["annotations"]["runbook"] == f"docs/operations.md#{alert['alert'].lower()}"


def test_the_rules_watch_the_job_that_the_configuration_scrapes() -> None:
    """C27: the only thing that the two files share."""
    (scrape,) = yaml_of("prometheus.yml")["scrape_configs"]
    jobs = {job for alert in alerts() for job in re.findall(r'job="(\w+)"', alert["expr"])}
    assert jobs == {scrape["job_name"]}
    assert yaml_of("prometheus.yml")["rule_files"] == ["prometheus-alerts.yml"]
