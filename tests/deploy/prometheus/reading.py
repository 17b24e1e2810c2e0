"""The committed rules and their tests."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.deploy.tools import DEPLOY, read_yaml

CONFIG = DEPLOY / "prometheus" / "prometheus.yml"
RULES = DEPLOY / "prometheus" / "rules"
TESTS = sorted(Path(__file__).parent.glob("*.test.yaml"))


def rules() -> Iterator[dict[str, Any]]:
    for file in sorted(RULES.glob("*.yml")):
        for group in read_yaml(file)["groups"]:
            yield from group["rules"]


def alerts() -> dict[str, dict[str, Any]]:
    """By name."""
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def recorded() -> dict[str, str]:
    """Expressions by the name of what they record."""
    return {rule["record"]: rule["expr"] for rule in rules() if "record" in rule}


def firing() -> dict[str, set[str]]:
    """What the tests expect to fire: the labels that each alert then has."""
    found: dict[str, set[str]] = {}
    for sample in (sample for test in _asked() for sample in test.get("exp_samples", [])):
        labels = dict(re.findall(r'(\w+)="([^"]*)"', sample["labels"]))
        if labels.get("alertstate") == "firing":
            found[labels["alertname"]] = set(labels) - {"alertname", "alertstate"}
    return found


def quiet() -> set[str]:
    """Alerts that some test expects not to be there."""
    names = (
        re.search(r'alertname=~?"([\w|]+)"', test["expr"])
        for test in _asked()
        if not test.get("exp_samples")
    )
    return {name for found in names if found for name in found[1].split("|")}


def _asked() -> Iterator[dict[str, Any]]:
    for file in TESTS:
        for test in read_yaml(file)["tests"]:
            yield from test["promql_expr_test"]
