"""`specgate sim` as a user runs it."""

import contextlib
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import httpx2
import pytest
from click.testing import CliRunner

from specgate.cli.sim import sim

RUN = "from specgate.cli.sim import sim; sim()"


@contextlib.contextmanager
def command(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", RUN, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_both_lanes_until_a_signal(stop: signal.Signals) -> None:
    arguments = ["--lane", "spec", "--port", "0", "--lane", "plain", "--port", "0"]
    with command(*arguments, "--time-scale", "20", "--model", "m") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = [process.stdout.readline() for _ in range(2)]
        for lane, line in zip(("spec", "plain"), lines, strict=True):
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            assert found is not None
            assert line.startswith(f"{lane} lane")
            assert "profile reference" in line
            with httpx2.Client(trust_env=False) as client:
                models = client.get(f"{found[0]}/v1/models").json()
            assert models["data"][0]["id"] == "m"
        process.send_signal(stop)
        assert process.wait(timeout=10) == 0
        assert process.stderr.read() == ""


def test_a_port_in_use_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(sim, ["--lane", "spec", "--port", str(port)])
    assert result.exit_code == 1
    assert result.output.count("\n") == 1
    assert f"127.0.0.1:{port}" in result.output
    assert "--port" in result.output


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--lane", "spec"], "--port"),
        (["--port", "1"], "--lane"),
        (["--lane", "fast", "--port", "1"], "--lane"),
        (["--lane", "spec", "--port", "70000"], "--port"),
        (["--lane", "spec", "--port", "x"], "--port"),
        (["--lane", "spec", "--lane", "plain", "--port", "1"], "pairs"),
        (["--lane", "spec", "--port", "1", "--lane", "spec", "--port", "2"], "--lane"),
        (["--lane", "spec", "--port", "0", "--profile", "none"], "--profile"),
        (["--lane", "spec", "--port", "0", "--time-scale", "0"], "--time-scale"),
        (["--lane", "spec", "--port", "0", "--time-scale", "nan"], "--time-scale"),
        (["--lane", "spec", "--port", "0", "--kappa", "2"], "--kappa"),
        (["--lane", "spec", "--port", "0", "--seed", "a"], "--seed"),
    ],
)
def test_bad_input_names_the_option(arguments: list[str], named: str) -> None:
    result = CliRunner().invoke(sim, arguments)
    assert result.exit_code == 2
    error = result.output.splitlines()[-1]
    assert error.startswith("Error: ")
    assert named in error
    assert "Traceback" not in result.output


def test_help_has_examples() -> None:
    result = CliRunner().invoke(sim, ["--help"])
    assert result.exit_code == 0
    assert "--lane spec --port 30000 --lane plain --port 30001" in result.output
