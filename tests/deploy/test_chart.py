"""The Helm chart: what helm makes of its values, and what a cluster and the gate make of that."""

import json
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

import specgate
from specgate.settings import Settings
from tests.deploy import chart_schema
from tests.deploy.chart import CHART, LANES, container, refusal, render, the
from tests.deploy.programs import helm
from tests.deploy.tools import DEPLOY, need, read_yaml, run

ALL: dict[str, Any] = {
    "networkPolicy": {"enabled": True},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    "dashboards": {"enabled": True},
    "profile": {"json": '{\n "schema": "specgate-profile/1"\n}\n'},
    "secretSettings": {"admin_token": {"name": "gate", "key": "token"}},
    "extraEnv": [{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://collector:4318"}],
    "imagePullSecrets": [{"name": "registry"}],
    "extraVolumes": [{"name": "tls", "secret": {"secretName": "lanes-ca"}}],
    "extraVolumeMounts": [{"name": "tls", "mountPath": "/etc/specgate/tls", "readOnly": True}],
    "podAnnotations": {"team": "inference"},
    "podLabels": {"team": "inference"},
    "priorityClassName": "system-cluster-critical",
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
        }
    ],
}
"""Everything that is off or empty by default."""

OLDEST, NEWEST = "1.25", "1.37"


# What helm says


def test_the_linter_finds_nothing(tmp_path: Path):
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump({"settings": LANES}))
    run(helm(), "lint", "--strict", CHART, "--values", file)


def test_a_packaged_chart_is_the_same(tmp_path: Path):
    """It holds the dashboards and rules, which are links in the folder."""
    run(helm(), "package", CHART, "--destination", tmp_path)
    (packed,) = tmp_path.glob("specgate-*.tgz")
    assert render(tmp_path, ALL, chart=packed) == render(tmp_path, ALL)


def test_the_schema_follows_the_settings():
    assert chart_schema.read() == chart_schema.renewed(), "poe docs-gen"


def test_the_chart_deploys_this_version():
    assert read_yaml(CHART / "Chart.yaml")["appVersion"] == specgate.__version__


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"settings": LANES | {"treshold": 8}}, "'treshold'"),
        ({"settings": LANES | {"threshold": "often"}}, "/settings/threshold"),
        ({"settings": LANES | {"adaptive": "perhaps"}}, "/settings/adaptive"),
        ({"settings": LANES | {"admin_token": "abc"}}, "'admin_token'"),
        ({"settings": LANES | {"port": 80}}, "'port'"),
        ({"settings": LANES, "secretSettings": {"tokn": {"name": "a", "key": "b"}}}, "tokn"),
        ({"settings": LANES, "extraEnv": [{"name": "SPECGATE_BAND", "value": "1"}]}, "/extraEnv/0"),
        ({"settings": LANES, "replicas": 2}, "'replicas'"),
        ({"settings": LANES, "image": {"tagg": "1"}}, "'tagg'"),
        ({}, "settings.spec_url is required"),
        ({"settings": {"spec_url": LANES["spec_url"]}}, "settings.plain_url is required"),
        (
            {"settings": LANES, "secretSettings": {"spec_url": {"name": "a", "key": "b"}}},
            "spec_url is in settings and in secretSettings",
        ),
        (
            {"settings": LANES, "profile": {"json": "{}", "existingConfigMap": "measured"}},
            "profile.json and profile.existingConfigMap are both set",
        ),
        (
            {"settings": LANES | {"profile": "/a"}, "profile": {"json": "{}"}},
            "settings.profile is set by the chart",
        ),
    ],
)
def test_wrong_values_are_refused_by_name(tmp_path: Path, values: dict[str, Any], said: str):
    assert said in refusal(tmp_path, values)


# What a cluster says


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("values", [{}, ALL], ids=["defaults", "all"])
def test_kubernetes_takes_every_object(tmp_path: Path, values: dict[str, Any], version: str):
    objects = render(tmp_path, values)
    assert {each["metadata"]["namespace"] for each in objects} == {"llm"}
    for each in objects:
        if not each["apiVersion"].startswith("monitoring.coreos.com/"):
            kubernetes_validate.validate(each, version, strict=True)


def test_the_pod_may_do_nothing(tmp_path: Path):
    objects = render(tmp_path)
    pod = the("Deployment", objects)["spec"]["template"]["spec"]
    assert pod["enableServiceLinks"] is False
    assert pod["automountServiceAccountToken"] is False
    assert the("ServiceAccount", objects)["automountServiceAccountToken"] is False
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 10001,
        "runAsGroup": 10001,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert "\nUSER 10001:10001\n" in (DEPLOY / "Dockerfile").read_text()
    assert container(objects)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_one_gate_and_never_none_while_another_comes(tmp_path: Path):
    spec = the("Deployment", render(tmp_path))["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


def test_selectors_find_what_they_are_for(tmp_path: Path):
    objects = render(tmp_path, ALL)
    pod = the("Deployment", objects)["spec"]["template"]["metadata"]["labels"].items()
    service = the("Service", objects)
    assert the("Deployment", objects)["spec"]["selector"]["matchLabels"].items() <= pod
    assert service["spec"]["selector"].items() <= pod
    for kind, name in (("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")):
        assert the(kind, objects)["spec"][name]["matchLabels"].items() <= pod
    (port,) = container(objects)["ports"]
    (offered,) = service["spec"]["ports"]
    (monitored,) = (monitor := the("ServiceMonitor", objects))["spec"]["endpoints"]
    assert offered["targetPort"] == port["name"]
    assert port["containerPort"] == Settings.model_fields["port"].default
    assert monitored["port"] == offered["name"]
    labels = service["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    # The label `job` of its series is what it is without the operator.
    jobs = read_yaml(DEPLOY / "prometheus" / "prometheus.yml")["scrape_configs"]
    assert labels[monitor["spec"]["jobLabel"]] == jobs[0]["job_name"]


def test_metrics_may_have_a_port_of_their_own(tmp_path: Path):
    objects = render(tmp_path, ALL | {"settings": {"metrics_port": 9400}})
    _, own = container(objects)["ports"]
    _, offered = the("Service", objects)["spec"]["ports"]
    assert (own["name"], own["containerPort"]) == (offered["targetPort"], 9400)
    (monitored,) = the("ServiceMonitor", objects)["spec"]["endpoints"]
    assert monitored["port"] == offered["name"]
    (admitted,) = the("NetworkPolicy", objects)["spec"]["ingress"]
    assert [port["port"] for port in admitted["ports"]] == ["http", "metrics"]
    off = render(tmp_path, ALL | {"settings": {"metrics_port": False}})
    assert len(container(off)["ports"]) == 1


def test_with_a_certificate_all_speak_https(tmp_path: Path):
    objects = render(tmp_path, ALL | {"settings": {"tls_cert_file": "/etc/specgate/tls/tls.crt"}})
    probes = [container(objects)[f"{name}Probe"] for name in ("startup", "liveness", "readiness")]
    assert {probe["httpGet"]["scheme"] for probe in probes} == {"HTTPS"}
    assert the("Service", objects)["spec"]["ports"][0]["appProtocol"] == "https"
    assert the("ServiceMonitor", objects)["spec"]["endpoints"][0]["scheme"] == "https"


def _names(objects: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(each["kind"], each["metadata"]["name"]) for each in objects}


def test_two_releases_share_no_name_and_no_pod(tmp_path: Path):
    one, other = (render(tmp_path, ALL, release=release) for release in ("prod", "canary"))
    names = [
        {(each["kind"], each["metadata"]["name"]) for each in objects} for objects in (one, other)
    ]
    assert names[0].isdisjoint(names[1])
    pod = the("Deployment", other)["spec"]["template"]["metadata"]["labels"].items()
    assert not the("Service", one)["spec"]["selector"].items() <= pod


@pytest.mark.parametrize(
    ("settings", "policy", "ports"),
    [
        ({}, {}, [30000, 30001]),
        ({"spec_url": "https://spec.example/v0", "plain_url": "http://plain"}, {}, [443, 80]),
        ({"plain_url": "http://[fd00::1]:30000"}, {}, [30000]),
        ({"plain_url": "http://[fd00::1]"}, {}, [30000, 80]),
        ({}, {"lanePorts": [8000]}, [8000]),
    ],
)
def test_the_network_policy_lets_it_reach_its_lanes(
    tmp_path: Path, settings: dict[str, str], policy: dict[str, Any], ports: list[int]
):
    values = {"settings": settings, "networkPolicy": {"enabled": True, **policy}}
    names, lanes = the("NetworkPolicy", render(tmp_path, values))["spec"]["egress"]
    assert [each["port"] for each in names["ports"]] == [53, 53]
    assert [each["port"] for each in lanes["ports"]] == ports


# What watches it


@pytest.mark.parametrize(
    ("folder", "shipped"), [("dashboards", "grafana/dashboards"), ("rules", "prometheus/rules")]
)
def test_the_chart_has_a_link_to_each_file_of_grafana_and_prometheus(folder: str, shipped: str):
    """Links to files, not to folders: an sdist has a folder that is linked to only once."""
    links = {file.name: file.readlink() for file in (CHART / folder).iterdir()}
    above = Path("../../..") / shipped
    assert links == {file.name: above / file.name for file in (DEPLOY / shipped).iterdir()}


def test_the_dashboards_come_along_and_fit(tmp_path: Path):
    objects = render(tmp_path, {"dashboards": {"enabled": True}})
    maps = [each for each in objects if each["kind"] == "ConfigMap"]
    found = {name: text for each in maps for name, text in each["data"].items()}
    shipped = (DEPLOY / "grafana" / "dashboards").glob("*.json")
    assert {name: json.loads(text) for name, text in found.items()} == {
        f"specgate-{file.name}": json.loads(file.read_text()) for file in shipped
    }
    for each in maps:
        assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert len(json.dumps(each)) < 256 * 1024, "what kubectl apply keeps of each"


def test_the_rules_come_along_and_prometheus_takes_them(tmp_path: Path):
    promtool = need("promtool", "Debian's package prometheus")
    rules = [each for each in render(tmp_path, ALL) if each["kind"] == "PrometheusRule"]
    shipped = {
        f"prod-specgate-{file.stem}": read_yaml(file)
        for file in (DEPLOY / "prometheus" / "rules").glob("*.y*ml")
    }
    assert shipped
    assert {each["metadata"]["name"]: each["spec"] for each in rules} == shipped
    for each in rules:
        file = tmp_path / "rules.yaml"
        file.write_text(yaml.safe_dump(each["spec"]))
        run(promtool, "check", "rules", file)


def test_nothing_of_prometheuss_operator_is_asked_for_unless_wanted(tmp_path: Path):
    kinds = {each["kind"] for each in render(tmp_path)}
    assert kinds == {"Deployment", "Service", "ServiceAccount", "PodDisruptionBudget", "Pod"}


# What the page says


def test_the_values_of_the_how_to_are_taken(tmp_path: Path):
    page = (DEPLOY.parent / "docs" / "how-to" / "kubernetes.md").read_text()
    shown = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", page, re.S)]
    values = [block for block in shown if "kind" not in block]
    assert len(values) > 2
    for block in values:
        assert render(tmp_path, block)
    for block in shown:
        if "kind" in block and block["apiVersion"].startswith("networking.k8s.io/v1"):
            kubernetes_validate.validate(block, NEWEST, strict=True)
