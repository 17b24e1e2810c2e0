"""The dashboards, without running them: fresh, well-formed, and of metrics that there are."""

from itertools import combinations
from pathlib import Path

import pytest
import yaml

from specgate.core.policy import Mode, Reason
from tests.deploy.grafana import reading
from tests.deploy.grafana.frame import TAG, written
from tests.deploy.grafana.generate import DASHBOARDS, FOLDER
from tests.deploy.grafana.words import MODES, REASONS
from tests.deploy.prometheus.exposed import NAMES, exposed
from tests.deploy.tools import DEPLOY, need, read_yaml, run

PROVISIONING = DEPLOY / "grafana" / "provisioning"

OF_SINGLE_REQUESTS = {
    Reason.REROUTED,
    Reason.NOT_GENERATION,
    Reason.HELD,
    Reason.REQUESTED,
    Reason.SPEC_REFUSES,
    Reason.SPEC_CHANGES,
    Reason.DESPITE_RULE,
    Reason.STICKY,
    Reason.BOTH,
}
"""Reasons that are never the side's."""

SAY_NAMES = {"Side now", "Why", "Lanes", "Who decides", "Side", "Lane health", "Mode"}
"""Panels that show words, and so have no unit."""

UNITS = {"bytes", "percentunit", "reqps", "s", "short"}
"""Of Grafana's own ids (`getValueFormats` of `@grafana/data`). What is none of them is shown as a
suffix, behind numbers that are not scaled: 1234 s, not 20.6 mins."""


@pytest.mark.parametrize("name", DASHBOARDS)
def test_the_file_is_what_its_function_returns(name: str):
    file = FOLDER / f"{name}.json"
    assert file.read_text(encoding="utf-8") == written(DASHBOARDS[name]()), (
        "run python -m tests.deploy.grafana.generate"
    )


def test_there_is_no_other_file():
    assert {file.name for file in FOLDER.iterdir()} == {f"{name}.json" for name in DASHBOARDS}


def test_every_query_parses(tmp_path: Path):
    """As the expressions of recording rules: promtool reads PromQL nowhere else."""
    promtool = need("promtool", "Debian's package prometheus")
    rules = [
        {"record": f"query:{number}", "expr": expr}
        for number, (_, expr) in enumerate(reading.queries())
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboards", "rules": rules}]}))
    assert f"{len(rules)} rules found" in run(promtool, "check", "rules", file)


async def test_every_metric_that_a_query_names_is_exposed():
    """By a gate and simulated SGLang engines; of the others their names are known."""
    wanted = {name for _, expr in reading.queries() for name in reading.metrics_in(expr)}
    assert wanted - await exposed() - NAMES == set()


@pytest.mark.parametrize("name", DASHBOARDS)
def test_it_can_be_provisioned_anywhere(name: str):
    found = reading.dashboards()[name]
    assert (found["uid"], found["tags"]) == (f"specgate-{name}", [TAG])
    assert "id" not in found
    assert all(not panel.get("id") for panel in found["panels"])
    variables = {each["name"]: each for each in found["templating"]["list"]}
    engines = ["engine_job"] if name == "engines" else []
    assert list(variables) == ["datasource", "job", "instance", *engines]
    assert variables["datasource"]["type"] == "datasource"
    for variable in list(variables.values())[1:]:
        assert (variable["includeAll"], variable["allValue"]) == (True, ".*")
    sources = [variable["datasource"] for variable in list(variables.values())[1:]]
    sources += [each["datasource"] for each in found["annotations"]["list"]]
    for panel in reading.panels(found):
        sources += [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
    assert all(source["uid"] == "${datasource}" for source in sources)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_query_looks_only_at_what_is_chosen(name: str):
    """Each selector of ours has the gates' matchers, each of an engine's the engines'."""
    found = reading.dashboards()[name]
    exprs = [target["expr"] for panel in reading.panels(found) for target in panel["targets"]]
    exprs += [each["expr"] for each in found["annotations"]["list"]]
    for expr in exprs:
        for metric in reading.METRIC.finditer(expr):
            ours = metric[0].startswith("specgate_")
            chosen = (
                'job=~"$job", instance=~"$instance"' if ours else 'job=~"$engine_job", lane!=""'
            )
            assert expr[metric.end() :].startswith("{" + chosen), expr


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_panel_says_what_it_shows(name: str):
    for panel in reading.panels(reading.dashboards()[name]):
        title = panel["title"]
        assert len(panel["description"]) > 25, title
        assert panel["description"].endswith("."), title
        assert all(target["legendFormat"] for target in panel["targets"]), title
        letters = [target["refId"] for target in panel["targets"]]
        assert len(set(letters)) == len(letters)
        unit = panel["fieldConfig"]["defaults"].get("unit")
        assert (unit is None) == (title in SAY_NAMES), title
        assert unit is None or unit in UNITS, title


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_lie_beside_each_other(name: str):
    places = [(panel["title"], panel["gridPos"]) for panel in reading.dashboards()[name]["panels"]]
    for (one, a), (other, b) in combinations(places, 2):
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        below = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert beside or below, f"{one} lies on {other}"
    assert all(place["x"] + place["w"] <= 24 for _, place in places)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_switches_are_drawn_over_every_chart(name: str):
    found = reading.dashboards()[name]["annotations"]["list"]
    assert [each["name"] for each in found] == ["Switch to spec", "Switch to plain"]
    assert all(each["enable"] for each in found)


def test_no_two_queries_have_one_name():
    names = [name for name, _ in reading.queries()]
    assert len(names) == len(set(names))


def test_every_reason_that_a_side_can_have_is_put_in_plain_words():
    assert set(REASONS) | OF_SINGLE_REQUESTS == set(Reason)
    assert set(MODES) >= set(Mode)


def test_what_grafana_reads_is_where_it_looks():
    (provider,) = read_yaml(PROVISIONING / "dashboards" / "specgate.yaml")["providers"]
    grafana = read_yaml(DEPLOY / "compose.common.yaml")["services"]["grafana"]
    mounts = dict(volume.removesuffix(":ro").split(":") for volume in grafana["volumes"])
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert mounts["./grafana/dashboards"] == provider["options"]["path"]
    assert home == f"{provider['options']['path']}/overview.json"
    (source,) = read_yaml(PROVISIONING / "datasources" / "prometheus.yaml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    interval = read_yaml(DEPLOY / "prometheus" / "prometheus.yml")["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == interval
