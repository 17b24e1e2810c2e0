"""`specgate demo`: what a newcomer runs first."""

import asyncio
import json
import signal
import subprocess
import sys

import pytest

from tests.support.client import get

DEMO = (sys.executable, "-m", "specgate", "demo")


@pytest.mark.timeout(120)
def test_the_ramp_goes_up_and_down_and_the_side_follows(tmp_path):
    file = tmp_path / "demo.json"
    command = [*DEMO, "--once", "--port", "0", "--json", str(file), "--level-seconds", "4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    result = json.loads(file.read_text())
    assert result["errors"] == 0
    assert result["in_flight_at_end"] == 0
    assert result["requests"] == sum(lane["requests"] for lane in result["lanes"].values())
    assert all(lane["tokens"] > 0 for lane in result["lanes"].values())
    sides = {level["concurrency"]: level["side"] for level in result["levels"]}
    assert result["levels"][0]["side"] == "spec"
    assert sides[16] == "plain"
    assert result["levels"][-1]["side"] == "spec"
    assert result["switches"] >= 2
    assert all(level["tok_s"] > 0 for level in result["levels"])
    assert "cross at a load of 2.93" in done.stdout


@pytest.mark.parametrize("wrong", [("--profile", "nonesuch"), ("--level-seconds", "0")])
def test_a_wrong_option_is_named(wrong):
    done = subprocess.run([*DEMO, *wrong], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert wrong[0] in done.stderr
    assert "Traceback" not in done.stderr


async def test_it_stays_up_after_the_ramp_until_it_is_stopped():
    process = await asyncio.create_subprocess_exec(
        *DEMO, "--port", "0", "--level-seconds", "0.5", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    url = ""
    try:
        async with asyncio.timeout(40):
            async for line in process.stdout:
                if b"stays up at" in line:
                    url = line.split(b"stays up at ")[1].split(b";")[0].decode()
                    break
        assert (await get(url + "/readyz")).status == 200
    finally:
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(10):
            _, status = await asyncio.gather(process.stdout.read(), process.wait())
    assert status == 0
