"""The files of `deploy`, for an operator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def yaml_of(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text("utf-8"))


def alerts() -> list[dict[str, Any]]:
    """The alert rules."""
    return [rule for group in yaml_of("prometheus-alerts.yml")["groups"] for rule in group["rules"]]


def dashboard() -> Any:
    return json.loads((DEPLOY / "grafana-dashboard.json").read_text("utf-8"))


def dashboard_queries() -> list[str]:
    """The queries of the panels, with values for Grafana's variables."""
    values = {"$__rate_interval": "5m", "$__range": "1d", "$pipeline": ".*"}
    found = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    for name, value in values.items():
        found = [query.replace(name, value) for query in found]
    return found
