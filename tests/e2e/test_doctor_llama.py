"""`specgate doctor` on a real pair: what it says of llama.cpp's server is so."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from tests.support.llama import llama_pair

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300), pytest.mark.xdist_group("llama")]

SLOTS = 4


@pytest.fixture(scope="module")
async def urls(anyio_backend) -> AsyncIterator[tuple[str, str]]:
    async with llama_pair(slots=SLOTS) as pair:
        yield pair


async def run(*words: str) -> tuple[int, dict[str, Any]]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "specgate", "doctor", *words, "--json"),
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, json.loads(out)


async def test_the_pair_is_told_apart_and_nothing_is_wrong_with_it(urls):
    code, said = await run(*reversed(urls))
    assert [(each["lane"], each["speculates"]) for each in said["engines"]] == [
        ("plain", False),
        ("spec", True),
    ]
    assert {each["engine"] for each in said["engines"]} == {"llamacpp"}
    assert {each["model"] for each in said["engines"]} == {"gemma"}
    # Its n-gram drafts may or may not be worth something to so small a model.
    found = {each["check"]: each for each in said["findings"] if each["check"] != "accept-length"}
    assert set(found) == {"running-cap"}
    assert found["running-cap"]["evidence"][0] == f"/props total_slots: {SLOTS}"
    assert code == (1 if len(said["findings"]) > 1 else 0)
    # The drafter was seen at work, and the idle connection was watched to its end.
    unknown = " ".join(each["what"] for each in said["not_known"])
    assert "accept length" not in unknown.replace("break-even accept length", "")
    assert "idle connections" not in unknown


async def test_a_pair_that_is_the_wrong_way_round(urls):
    spec, plain = urls
    code, said = await run("--spec-url", plain, "--plain-url", spec)
    assert code == 1
    errors = {each["check"] for each in said["findings"] if each["severity"] == "error"}
    assert errors == {"spec-lane-plain", "plain-lane-speculates"}


async def test_requests_of_others_are_seen(urls):
    _, plain = urls
    body = {"prompt": "Once upon a time", "max_tokens": 400, "ignore_eos": True}
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as http:
        stranger = asyncio.ensure_future(http.post(plain + "/v1/completions", json=body))
        await asyncio.sleep(0.1)
        _, said = await run(plain)
        stranger.cancel()
        await asyncio.gather(stranger, return_exceptions=True)
        async with asyncio.timeout(30):  # or the next test's doctor sees it
            while any(slot["is_processing"] for slot in (await http.get(plain + "/slots")).json()):
                await asyncio.sleep(0.1)
    (busy,) = [each for each in said["findings"] if each["check"] == "busy"]
    assert busy["severity"] == "note"
    assert "llamacpp:requests_processing" in busy["evidence"][0]
