"""The Helm chart's values on their way to the gate: settings, secrets, profile, probes."""

import sys
from pathlib import Path

import pytest

from specgate.core.config import ALWAYS
from specgate.settings import Settings, load
from tests.deploy import chart_schema
from tests.deploy.chart import LANES, container, environment, render, rendered, the
from tests.deploy.tools import DRAIN_S, exit_code_of
from tests.support.lanes import ScriptedLane
from tests.support.live import running_gate

PROFILE = '{\n "schema": "specgate-profile/1"\n}\n'


def test_the_gate_reads_the_settings_as_they_were_meant(tmp_path: Path):
    settings = {
        "threshold": 12.5,
        "band": 0,
        "adaptive": True,
        "rules": False,
        "body_limit": 100_000_000,
        "send_timeout_s": False,  # what YAML makes of a bare off
        "shadow": False,
        "scrape_interval_s": "off",
        "log_level": "debug",
    }
    found = load(environment(render(tmp_path, {"settings": settings}))).settings
    read = {name: getattr(found, name) for name in settings}
    off = dict.fromkeys(("send_timeout_s", "shadow", "scrape_interval_s"))
    assert read == settings | off
    assert (found.spec_url, found.plain_url) == (LANES["spec_url"], LANES["plain_url"])


def test_words_are_taken_for_numbers(tmp_path: Path):
    found = load(environment(render(tmp_path, {"settings": {"threshold": "always"}}))).settings
    assert found.threshold == ALWAYS


def test_every_setting_can_be_given_as_a_value_or_from_a_secret():
    named = set(chart_schema.settings()) | chart_schema.secrets() | chart_schema.OF_THE_IMAGE
    assert named == set(Settings.model_fields)
    assert {"admin_token", "api_keys", "spec_api_key"} <= chart_schema.secrets()
    assert set(chart_schema.from_secrets()) == named - chart_schema.OF_THE_IMAGE


def test_a_pod_is_not_killed_while_its_gate_drains(tmp_path: Path):
    def grace_s(settings: dict[str, float]) -> float:
        objects = render(tmp_path, {"settings": settings})
        pod = the("Deployment", objects)["spec"]["template"]["spec"]
        return float(pod["terminationGracePeriodSeconds"])

    assert grace_s({}) == DRAIN_S + 15
    assert grace_s({"drain_settle_s": 0.5, "drain_timeout_s": 600}) == 616


def test_a_secret_is_named_and_never_written(tmp_path: Path):
    env = container(
        render(tmp_path, {"secretSettings": {"admin_token": {"name": "gate", "key": "token"}}})
    )["env"]
    assert {
        "name": "SPECGATE_ADMIN_TOKEN",
        "valueFrom": {"secretKeyRef": {"name": "gate", "key": "token"}},
    } in env


def test_one_engine_is_enough_in_shadow(tmp_path: Path):
    settings = {"spec_url": LANES["spec_url"], "shadow": "spec"}
    objects = rendered(tmp_path, {"settings": settings, "networkPolicy": {"enabled": True}})
    assert load(environment(objects)).settings.plain_url == LANES["spec_url"]


@pytest.mark.parametrize("where", ["json", "existingConfigMap"])
def test_the_profile_is_where_the_gate_looks(tmp_path: Path, where: str):
    text = PROFILE
    own = {"json": text} if where == "json" else {"existingConfigMap": "measured"}
    objects = render(tmp_path, {"profile": own})
    pod = the("Deployment", objects)["spec"]["template"]["spec"]
    (volume,), (mount,) = pod["volumes"], container(objects)["volumeMounts"]
    assert volume["name"] == mount["name"]
    assert environment(objects)["SPECGATE_PROFILE"] == f"{mount['mountPath']}/profile.json"
    assert "subPath" not in mount, "a change would not reach it"
    if where == "json":
        config = the("ConfigMap", objects)
        assert config["metadata"]["name"] == volume["configMap"]["name"]
        assert config["data"] == {"profile.json": text}
    else:
        assert volume["configMap"]["name"] == "measured"


def test_another_profile_makes_another_pod(tmp_path: Path):
    one, other = (
        the("Deployment", render(tmp_path, {"profile": {"json": text}}))["spec"]["template"]
        for text in ('{"a": 1}', '{"a": 2}')
    )
    assert one["metadata"]["annotations"] != other["metadata"]["annotations"]


async def test_probes_ask_what_the_gate_answers(tmp_path: Path):
    gate_container = container(render(tmp_path))
    probes = {name: gate_container[f"{name}Probe"] for name in ("startup", "liveness", "readiness")}
    paths = {name: probe["httpGet"]["path"] for name, probe in probes.items()}
    async with ScriptedLane("spec") as spec:
        lost = "http://127.0.0.1:9"
        async with running_gate(spec.url, lost) as gate:
            codes = {name: (await gate.http.get(path)).status_code for name, path in paths.items()}
            assert codes == {"startup": 200, "liveness": 200, "readiness": 200}
        async with running_gate(lost, lost) as gate:
            codes = {name: (await gate.http.get(path)).status_code for name, path in paths.items()}
            assert codes == {"startup": 200, "liveness": 200, "readiness": 503}, "never restarted"


async def test_helm_test_passes_where_a_lane_is_healthy_and_fails_elsewhere(tmp_path: Path):
    objects = render(tmp_path)
    (pod,) = (each for each in objects if each["kind"] == "Pod")
    (asking,) = pod["spec"]["containers"]
    python, *script, host, port, scheme = asking["command"]
    assert (python, scheme) == ("python", "HTTP")
    assert host == the("Service", objects)["metadata"]["name"]
    assert int(port) == the("Service", objects)["spec"]["ports"][0]["port"]
    async with ScriptedLane("spec") as spec, running_gate(spec.url, "http://127.0.0.1:9") as gate:
        assert await exit_code_of(sys.executable, *script, gate.host, str(gate.port), scheme) == 0
        await spec.stop()
        while (await gate.http.get("/readyz")).status_code == 200:
            pass
        assert await exit_code_of(sys.executable, *script, gate.host, str(gate.port), scheme) == 1
