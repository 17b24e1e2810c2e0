"""What /metrics says, checked by Prometheus's own tool."""

import asyncio
import os
import shutil

import pytest

from tests.support.client import get
from tests.support.lanes import Rst, status_500
from tests.support.stage import stage


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        assert not os.environ.get("CI"), "promtool is missing; tests/check.sh installs it"
        pytest.skip("promtool is not installed; tests/check.sh installs it")
    return found


@pytest.mark.parametrize("threshold", ["8", "always", "never"])
async def test_promtool_has_nothing_to_say(promtool: str, threshold: str):
    async with stage(threshold=threshold) as on:
        for script in (None, status_500(), Rst()):
            for lane in (on.spec, on.plain):
                if script:
                    lane.answer_next(script)
            await on.ask()
        await on.ask(b"GET", b"/v1/models", body=None)
        scrape = await get(on.url + "/metrics")
        assert scrape.values(b"content-type")[0].startswith(b"text/plain")
        process = await asyncio.create_subprocess_exec(
            *(promtool, "check", "metrics"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate(scrape.body.data)
        assert (said.decode(), process.returncode) == ("", 0)
