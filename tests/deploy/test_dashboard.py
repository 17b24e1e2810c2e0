"""Prometheus's files and the dashboard, without running them: well-formed, and of real metrics."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from specgate.core.lanes import Lane
from specgate.sim.profiles import load_profile
from specgate.sim.server import SimLane, running
from tests.deploy import dashboard
from tests.deploy.tools import DEPLOY, need, read_yaml, run
from tests.support.live import running_gate

PROMETHEUS = DEPLOY / "prometheus" / "prometheus.yml"
PROVISIONING = DEPLOY / "grafana" / "provisioning"


@pytest.fixture
def promtool() -> str:
    return need("promtool", "Debian's package prometheus")


def test_prometheus_takes_its_configuration(promtool: str):
    run(promtool, "check", "config", PROMETHEUS)


def test_it_scrapes_what_the_compose_files_start():
    jobs = read_yaml(PROMETHEUS)["scrape_configs"]
    targets = [
        target for job in jobs for group in job["static_configs"] for target in group["targets"]
    ]
    gate = read_yaml(DEPLOY / "compose.common.yaml")["services"]["gate"]["environment"]
    lanes = [gate["SPECGATE_SPEC_URL"], gate["SPECGATE_PLAIN_URL"]]
    assert targets == ["gate:8400", *(url.removeprefix("http://") for url in lanes)]


def test_every_query_parses(promtool: str, tmp_path: Path):
    """As the expressions of recording rules: promtool reads PromQL nowhere else."""
    rules = [
        {"record": f"query:{number}", "expr": expr}
        for number, (_, expr) in enumerate(dashboard.queries())
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    said = run(promtool, "check", "rules", file)
    assert f"{len(rules)} rules found" in said


async def test_every_metric_that_a_query_names_is_exposed():
    async with live() as (gate, engines):
        wanted = {name for _, expr in dashboard.queries() for name in dashboard.metrics_in(expr)}
        missing = wanted - names(gate + engines)
    assert missing == set()


def test_the_dashboard_can_be_provisioned_anywhere():
    found = dashboard.read()
    assert found["uid"] == "specgate-overview"
    assert "id" not in found
    assert all("id" not in panel for panel in found["panels"])
    (variable,) = found["templating"]["list"]
    assert (variable["name"], variable["type"]) == ("datasource", "datasource")
    for panel in dashboard.panels():
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert all(source["uid"] == "${datasource}" for source in sources)


def test_every_panel_says_what_it_shows():
    for panel in dashboard.panels():
        assert panel["description"].endswith("."), panel["title"]
        assert all(target["legendFormat"] for target in panel["targets"]), panel["title"]
        letters = [target["refId"] for target in panel["targets"]]
        assert len(set(letters)) == len(letters)


def test_panels_lie_beside_each_other():
    places = [(panel["title"], panel["gridPos"]) for panel in dashboard.read()["panels"]]
    for (one, a), (other, b) in combinations(places, 2):
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        below = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert beside or below, f"{one} lies on {other}"
    assert all(place["x"] + place["w"] <= 24 for _, place in places)


def test_what_grafana_reads_is_where_it_looks():
    (provider,) = read_yaml(PROVISIONING / "dashboards" / "specgate.yaml")["providers"]
    grafana = read_yaml(DEPLOY / "compose.common.yaml")["services"]["grafana"]
    mounts = dict(volume.removesuffix(":ro").split(":") for volume in grafana["volumes"])
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert mounts["./grafana/dashboards"] == provider["options"]["path"]
    assert home == f"{provider['options']['path']}/{dashboard.PATH.name}"
    (source,) = read_yaml(PROVISIONING / "datasources" / "prometheus.yaml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    interval = read_yaml(PROMETHEUS)["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == interval


def names(text: str) -> set[str]:
    return set(re.findall(r"^([a-z][\w:]*)[{ ]", text, re.MULTILINE))


@asynccontextmanager
async def live() -> AsyncIterator[tuple[str, str]]:
    """What a gate and a simulated pair expose, as text."""
    lanes: list[Any] = [SimLane(lane=lane) for lane in Lane]
    async with (
        running(lanes, profile=load_profile("reference")) as sims,
        running_gate(sims[Lane.SPEC].url, sims[Lane.PLAIN].url, threshold=3) as gate,
        httpx2.AsyncClient(trust_env=False) as http,
    ):
        scrapes = [(await http.get(f"{sims[lane].url}/metrics")).text for lane in Lane]
        yield await gate.metrics(), "\n".join(scrapes)
