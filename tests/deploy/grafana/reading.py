"""The committed dashboards, as Grafana reads them: panels, and queries with variables filled in."""

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.deploy.grafana.generate import FOLDER

METRIC = re.compile(r"\b(?:specgate_\w+|(?:sglang|vllm|llamacpp):\w+)")
"""A metric of ours or an engine's in an expression, not a recording rule's name."""

_LEVEL = re.compile(r"\b\w+:(?:specgate|engine)_\w+:\w+")
"""A recording rule's name."""


def dashboards() -> dict[str, dict[str, Any]]:
    """By the file's name without its ending."""
    return {
        file.stem: json.loads(file.read_text(encoding="utf-8"))
        for file in sorted(FOLDER.glob("*.json"))
    }


def panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """All but the rows."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def queries(*, rate_interval: str = "1m") -> Iterator[tuple[str, str]]:
    """Each query of each dashboard as Prometheus gets it, after its place; switches too."""
    for name, dashboard in dashboards().items():
        row = ""
        for panel in dashboard["panels"]:
            if panel["type"] == "row":
                row = panel["title"]
                continue
            for target in panel["targets"]:
                place = [name, *([row] if name == "engines" else []), panel["title"]]
                yield (
                    " / ".join([*place, target["legendFormat"]]),
                    filled(target["expr"], rate_interval),
                )
        for annotation in dashboard["annotations"]["list"]:
            title = f"{name} / {annotation['name']}"
            yield title, filled(annotation["expr"], rate_interval)


def filled(expr: str, rate_interval: str) -> str:
    """With all gates and all engines chosen."""
    expr = expr.replace("$__rate_interval", rate_interval).replace("$__interval", rate_interval)
    filled = re.sub(r"\$(job|instance|engine_job)\b", ".*", expr)
    assert "$" not in filled, filled
    return filled


def metrics_in(expr: str) -> set[str]:
    return set(METRIC.findall(_LEVEL.sub("", expr)))
