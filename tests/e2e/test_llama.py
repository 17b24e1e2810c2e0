"""The main job on a real engine: an unmodified OpenAI client, through the gate, to llama.cpp."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import anyio
import openai
import pytest

from specgate.core.profile import dumps
from specgate.engines.accepting import accept_length
from tests.support.client import CHAT, connect, get, request_bytes
from tests.support.invariants import assert_at_rest
from tests.support.llama import llama_pair, running_count
from tests.support.process import GateProcess, serve_process
from tests.support.profiles import with_accept_length

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300), pytest.mark.xdist_group("llama")]

ECHO = "Repeat this text word for word, and then once more: the gate counts what is in flight."


@dataclass
class Site:
    """A gate process in front of a real pair."""

    gate: GateProcess
    spec: str
    plain: str


@pytest.fixture(scope="module")
async def site(anyio_backend) -> AsyncIterator[Site]:
    async with llama_pair() as (spec, plain):
        environ = {
            "SPECGATE_SPEC_URL": spec,
            "SPECGATE_PLAIN_URL": plain,
            "SPECGATE_THRESHOLD": "3",
            "SPECGATE_SMOOTHING_S": "0.5",
            "SPECGATE_DWELL_S": "0.5",
            "SPECGATE_PROBE_INTERVAL_S": "0.2",
            "SPECGATE_ADMIN_TOKEN": "let-me-in",
        }
        async with serve_process(environ) as gate:
            await gate.logged("lane_health", count=2)
            yield Site(gate, spec, plain)


@pytest.fixture
async def at_rest(site: Site) -> AsyncIterator[None]:
    """Each test leaves the gate in auto mode and finds nothing in flight behind it."""
    yield
    await force(site, "auto")
    await assert_at_rest(site.gate.url)


async def force(site: Site, mode: str) -> None:
    async with connect(site.gate.url) as client:
        reply = await client.request(
            b"PUT",
            b"/_specgate/mode",
            headers=[
                (b"Authorization", b"Bearer let-me-in"),
                (b"Content-Type", b"application/json"),
            ],
            body=json.dumps({"mode": mode}).encode(),
        )
    assert reply.status == 200, reply.body.data


async def on_side(site: Site, side: str, within_s: float = 5) -> None:
    """Wait out the dwell that an earlier test may have left behind."""
    async with asyncio.timeout(within_s):
        while True:
            status = json.loads((await get(site.gate.url + "/_specgate/status")).body.data)
            if status["side"] == side:
                return
            await asyncio.sleep(0.05)


def chat_body(**fields: Any) -> dict[str, Any]:
    return {
        "model": "gemma",
        "messages": [{"role": "user", "content": ECHO}],
        "temperature": 0,
        "max_tokens": 48,
        "seed": 1,
        **fields,
    }


async def test_the_engine_is_recognised(site, at_rest):
    status = json.loads((await get(site.gate.url + "/_specgate/status")).body.data)
    assert [status["lanes"][lane]["engine"] for lane in ("spec", "plain")] == ["llamacpp"] * 2
    assert [status["lanes"][lane]["health"] for lane in ("spec", "plain")] == ["healthy"] * 2


async def test_the_openai_client_async(site, at_rest):
    async with openai.AsyncOpenAI(base_url=site.gate.url + "/v1", api_key="none") as client:
        whole = await client.chat.completions.create(**chat_body())
        stream = await client.chat.completions.create(
            **chat_body(stream=True, stream_options={"include_usage": True})
        )
        chunks = [chunk async for chunk in stream]
        models = [model.id async for model in client.models.list()]
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert text
    assert whole.usage.completion_tokens == chunks[-1].usage.completion_tokens
    assert models == ["gemma"]


async def test_the_openai_client_sync(site, at_rest):
    def ask() -> tuple[str, str]:
        with openai.OpenAI(base_url=site.gate.url + "/v1", api_key="none") as client:
            whole = client.chat.completions.create(**chat_body())
            raw = client.completions.with_raw_response.create(
                model="gemma", prompt=ECHO, max_tokens=16, temperature=0
            )
            stream = client.chat.completions.create(**chat_body(stream=True))
            text = "".join(c.choices[0].delta.content or "" for c in stream if c.choices)
        assert raw.headers["x-specgate-lane"] in ("spec", "plain")
        assert raw.parse().choices[0].text
        return whole.choices[0].message.content or "", text

    whole, streamed = await anyio.to_thread.run_sync(ask)
    assert whole == streamed != ""


async def test_an_error_of_the_engine_arrives_as_it_is(site, at_rest):
    async with openai.AsyncOpenAI(base_url=site.gate.url + "/v1", api_key="none") as client:
        wrong: Any = "not a list"
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(model="gemma", messages=wrong)
    body = json.dumps({"model": "gemma", "messages": "not a list"}).encode()
    async with connect(site.plain) as client:
        direct = await client.request(b"POST", CHAT, body=body)
    assert caught.value.response.content == direct.body.data


VARYING = re.compile(rb'"(id|created|system_fingerprint)":("[^"]*"|\d+)|"timings":\{[^}]*\}')


@pytest.mark.parametrize("lane", ["spec", "plain"])
async def test_a_forced_lane_s_stream_is_the_engine_s_own(site, at_rest, lane):
    await force(site, lane)
    request = request_bytes(
        b"POST",
        CHAT,
        headers=[(b"Content-Type", b"application/json")],
        body=json.dumps(
            chat_body(stream=True, stream_options={"include_usage": True}, cache_prompt=False)
        ).encode(),
    )
    engine = site.spec if lane == "spec" else site.plain
    seen = []
    for url in (engine, site.gate.url):
        async with connect(url) as client:
            await client.send(request)
            _, headers = await client.read_head()
            body = await client.read_body()
        assert body.clean
        assert body.data.endswith(b"data: [DONE]\n\n")
        own = {name.lower(): value for name, value in headers}
        seen.append((own[b"content-type"], VARYING.sub(b"", body.data)))
    assert seen[0] == seen[1]


async def test_both_lanes_serve_as_the_load_rises_and_falls(site, at_rest):
    await force(site, "auto")
    await on_side(site, "spec")
    used: list[Counter[str]] = []
    async with openai.AsyncOpenAI(base_url=site.gate.url + "/v1", api_key="none") as client:

        async def one() -> str:
            raw = await client.chat.completions.with_raw_response.create(
                **chat_body(temperature=1, max_tokens=24, stream=True)
            )
            async for _ in raw.parse():
                pass
            return str(raw.headers["x-specgate-lane"])

        for concurrency, rounds in ((1, 3), (8, 4), (1, 6)):
            lanes: Counter[str] = Counter()
            for _ in range(rounds):
                lanes.update(await asyncio.gather(*(one() for _ in range(concurrency))))
                await asyncio.sleep(0.3 if concurrency == 1 else 0)
            used.append(lanes)
    assert used[0]["plain"] == 0
    assert used[1]["plain"] > used[1]["spec"]
    assert used[2]["spec"] > 0
    status = json.loads((await get(site.gate.url + "/_specgate/status")).body.data)
    assert status["switches"] >= 2
    metrics = (await get(site.gate.url + "/metrics")).body.data.decode()
    for lane in ("spec", "plain"):
        found = re.search(
            rf'^specgate_requests_total{{lane="{lane}",route="chat",status="2xx"}} (\S+)',
            metrics,
            re.M,
        )
        assert found
        assert float(found[1]) > 0


@pytest.mark.parametrize("lane", ["spec", "plain"])
async def test_the_engine_stops_within_a_second_of_the_client_s_leaving(site, at_rest, lane):
    await force(site, lane)
    engine = site.spec if lane == "spec" else site.plain
    body = json.dumps(chat_body(stream=True, max_tokens=4000, temperature=1, ignore_eos=True))
    async with connect(site.gate.url) as client:
        asked = f"leaving-{lane}"
        named = ((b"X-Request-Id", asked.encode()),)
        await client.send(request_bytes(b"POST", CHAT, headers=named, body=body.encode()))
        await client.read_head()
        await client.read_until(b"\n\n", times=5)
        assert await running_count(engine) == 1
        client.rst()
        async with asyncio.timeout(1):
            while await running_count(engine):
                await asyncio.sleep(0.02)
    ended = await site.gate.logged("request", request_id=asked)
    assert ended["outcome"] == "client_gone"


async def test_the_live_accept_length_is_what_the_engine_counts(site, at_rest, tmp_path):
    file = tmp_path / "profile.json"
    file.write_text(any_profile(max_tokens=48, accept_length=2.0))
    environ = {
        "SPECGATE_SPEC_URL": site.spec,
        "SPECGATE_PLAIN_URL": site.plain,
        "SPECGATE_PROFILE": str(file),
        "SPECGATE_ADAPTIVE": "true",
        "SPECGATE_SCRAPE_INTERVAL_S": "0.3",
        "SPECGATE_PROBE_INTERVAL_S": "0.2",
    }
    async with serve_process(environ) as gate:
        await gate.logged("lane_health", count=2)
        await gate.logged("switched", side="spec")  # idle since its start
        await asyncio.sleep(1)
        before = (await get(site.spec + "/metrics")).body.data.decode()
        async with openai.AsyncOpenAI(base_url=gate.url + "/v1", api_key="none") as client:
            for _ in range(30):
                raw = await client.chat.completions.with_raw_response.create(**chat_body())
                assert raw.headers["x-specgate-lane"] == "spec"
        after = (await get(site.spec + "/metrics")).body.data.decode()
        await asyncio.sleep(1)
        seen = json.loads((await get(gate.url + "/_specgate/status")).body.data)
    counted = accept_length(before, after)
    assert counted is not None
    assert counted > 1.2
    assert seen["accept_length"]["live"] == pytest.approx(counted, rel=0.1)
    assert seen["accept_length"]["age_s"] < 5
    assert seen["beyond"] == 0


def any_profile(*, max_tokens: int, accept_length: float) -> str:
    """A published table, as if it were of this pair; it has no say in what the engine counts."""
    profile = with_accept_length("k26-int4-8xrtxpro6000-vllm-ctx10k", accept_length)
    engines = {
        arm: replace(engine, steps=None) for arm, engine in profile.fingerprint.engines.items()
    }
    return dumps(
        replace(
            profile,
            max_tokens=max_tokens,
            fingerprint=replace(profile.fingerprint, engines=engines),
        )
    )
