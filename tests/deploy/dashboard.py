"""The first dashboard: its panels, its queries, and the metrics that a query names."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.deploy.tools import DEPLOY

PATH = DEPLOY / "grafana" / "dashboards" / "overview.json"

_METRIC = re.compile(r"\b(?:specgate_|sglang:)\w+")


def read(path: Path = PATH) -> dict[str, Any]:
    dashboard: dict[str, Any] = json.loads(path.read_text())
    return dashboard


def panels() -> list[dict[str, Any]]:
    """All but the rows."""
    return [panel for panel in read()["panels"] if panel["type"] != "row"]


def queries(*, rate_interval: str = "1m") -> Iterator[tuple[str, str]]:
    """Each query as Prometheus gets it, after the name of its panel."""
    for panel in panels():
        for target in panel["targets"]:
            name = f"{panel['title']} / {target['legendFormat']}"
            yield name, target["expr"].replace("$__rate_interval", rate_interval)


def metrics_in(expr: str) -> set[str]:
    return set(_METRIC.findall(expr))
