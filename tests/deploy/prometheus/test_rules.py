"""Prometheus's configuration, rules and alerts, checked by promtool; and the alerts' pages."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.deploy.grafana.reading import metrics_in
from tests.deploy.prometheus import reading
from tests.deploy.prometheus.exposed import NAMES, exposed
from tests.deploy.tools import DEPLOY, ROOT, need, read_yaml, run

DOCS = ROOT / "docs"
ALERTS = reading.alerts()
SEVERITIES = ("critical", "warning", "info")

PROMETHEUS_OWN = {"up"}


@pytest.fixture
def promtool() -> str:
    return need("promtool", "Debian's package prometheus")


def test_prometheus_takes_its_configuration(promtool: str):
    said = run(promtool, "check", "config", reading.CONFIG)
    assert "2 rule files found" in said


def test_it_scrapes_what_the_compose_files_start():
    jobs = read_yaml(reading.CONFIG)["scrape_configs"]
    targets = [
        target for job in jobs for group in job["static_configs"] for target in group["targets"]
    ]
    gate = read_yaml(DEPLOY / "compose.common.yaml")["services"]["gate"]["environment"]
    lanes = [gate["SPECGATE_SPEC_URL"], gate["SPECGATE_PLAIN_URL"]]
    assert targets == ["gate:8400", *(url.removeprefix("http://") for url in lanes)]


def test_the_compose_files_give_it_the_rules_too():
    prometheus = read_yaml(DEPLOY / "compose.common.yaml")["services"]["prometheus"]
    assert "./prometheus:/etc/prometheus:ro" in prometheus["volumes"]
    (pattern,) = read_yaml(reading.CONFIG)["rule_files"]
    assert sorted(reading.CONFIG.parent.glob(pattern)) == sorted(reading.RULES.iterdir())


@pytest.mark.parametrize("file", reading.TESTS, ids=lambda file: file.name)
def test_rules_do_what_their_tests_say(promtool: str, file: Path):
    run(promtool, "test", "rules", file)


def test_each_alert_is_tested_firing_and_not():
    assert reading.firing().keys() == ALERTS.keys()
    assert reading.quiet() >= ALERTS.keys()


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_all_that_it_must(name: str):
    alert = ALERTS[name]
    severity = alert["labels"]["severity"]
    assert severity in SEVERITIES
    notes = alert["annotations"]
    assert notes.keys() == {"summary", "description", "runbook_url"}
    for text in (notes["summary"], notes["description"]):
        assert text.endswith("."), text
        # A label that the alert has not is an empty place in the message.
        assert set(re.findall(r"\$labels\.(\w+)", text)) <= reading.firing()[name] - {"severity"}
    page = (DOCS / notes["runbook_url"]).read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    assert headings == [name, "What it means", "How to confirm", "What to do"]
    assert f"\n**{severity}**: " in page


def test_the_index_lists_each_alert_with_its_severity():
    page = (DOCS / "how-to" / "alerts" / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\w+)\]\(([\w-]+\.md)\) \| (\w+) \|", page, re.MULTILINE)
    assert {name: (file, severity) for name, file, severity in rows} == {
        name: (alert["annotations"]["runbook_url"].rpartition("/")[2], alert["labels"]["severity"])
        for name, alert in ALERTS.items()
    }
    order = [SEVERITIES.index(severity) for _, _, severity in rows]
    assert all(one <= other for one, other in pairwise(order))
    assert len(list((DOCS / "how-to" / "alerts").iterdir())) == len(ALERTS) + 1


async def test_every_metric_that_a_rule_names_is_exposed():
    wanted = {name for rule in reading.rules() for name in metrics_in(rule["expr"])}
    assert wanted - await exposed() - NAMES == set()


def test_every_recording_rule_that_is_used_is_there():
    used = {
        name
        for rule in reading.rules()
        for name in re.findall(r"\b(?:instance|instance_lane|lane):\w+:\w+", rule["expr"])
    }
    assert used <= reading.recorded().keys()
