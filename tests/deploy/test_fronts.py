"""A gate behind nginx and Envoy, as deploy/ configures them: it serves as if it were alone."""

import asyncio
import json
from pathlib import Path

import pytest

from specgate.core.lanes import Lane
from specgate.sim.profiles import load_profile
from specgate.sim.server import SimLane, running
from tests.deploy.fronts import FRONTS, front
from tests.support.client import CHAT, JSON, chat, chat_request, connect, get
from tests.support.lanes import (
    DONE,
    Rst,
    Send,
    WaitFor,
    chunk,
    delta,
    head,
    refuses,
    sse_head,
)
from tests.support.live import running_gate
from tests.support.stage import stage
from tests.support.steps import Step

BOTH = pytest.mark.parametrize("name", FRONTS)


@BOTH
async def test_each_token_comes_when_it_is_made(name: str, tmp_path: Path):
    """The engine makes no token before the client has read the last: were one held back, all
    would stand still. The gate's X-Accel-Buffering is off: the configuration alone must do it. And
    the client takes compressed answers, which a compressor would wait for."""
    read = [asyncio.Event() for _ in range(5)]
    script: list[Step] = [Send(sse_head())]
    for number, event in enumerate(read):
        script += [Send(chunk(delta(f"token {number}"))), WaitFor(event)]
    script.append(Send(chunk(DONE) + b"0\r\n\r\n"))
    async with stage(accel_buffering=False) as on, front(name, on.url, tmp_path) as url:
        on.spec.answer_next(script)
        async with connect(url) as client, asyncio.timeout(10):
            await client.send(chat_request(headers=[(b"Accept-Encoding", b"gzip")]))
            await client.read_head()
            assert client.status == 200
            for number, event in enumerate(read):
                assert f"token {number}".encode() in await client.read_until(b"\n\n\r\n")
                event.set()
            assert (await client.read_body()).data == DONE


@BOTH
async def test_so_does_each_part_of_an_answer_whose_length_is_known(name: str, tmp_path: Path):
    read = asyncio.Event()
    pairs = [(b"content-type", b"application/json"), (b"content-length", b"8")]
    script: list[Step] = [Send(head(200, pairs) + b"half"), WaitFor(read), Send(b"half")]
    async with stage(accel_buffering=False) as on, front(name, on.url, tmp_path) as url:
        on.spec.answer_next(script)
        async with connect(url) as client, asyncio.timeout(10):
            await client.send(chat_request(stream=False))
            await client.read_head()
            assert await client.read_exact(4) == b"half"
            read.set()
            assert await client.read_exact(4) == b"half"


@BOTH
async def test_a_simulated_engines_stream_is_read_while_it_is_made(name: str, tmp_path: Path):
    lanes = [SimLane(lane=lane) for lane in Lane]
    async with (
        running(lanes, profile=load_profile("reference"), time_scale=5) as sims,
        running_gate(sims[Lane.SPEC].url, sims[Lane.PLAIN].url, threshold=3) as gate,
        front(name, gate.url, tmp_path) as url,
    ):
        # Some ten seconds of it; the first tokens come long before.
        async with connect(url) as client, asyncio.timeout(30):
            await client.send(chat_request(max_tokens=5000, model="sim"))
            _, pairs = await client.read_head()
            assert (b"x-specgate-lane", b"spec") in pairs
            for _ in range(20):
                assert b'"content"' in await client.read_until(b"\n\n\r\n")
            assert (await gate.status())["in_flight"]["spec"] == 1, "it goes on"
            assert sims[Lane.SPEC].engine.meters.in_flight == 1
        async with asyncio.timeout(10):
            while sims[Lane.SPEC].engine.meters.in_flight:
                await asyncio.sleep(0.02)
        # And one to its end.
        async with connect(url) as client, asyncio.timeout(30):
            await client.send(chat_request(max_tokens=20, model="sim"))
            await client.read_head()
            body = await client.read_body()
            assert body.clean
            assert body.data.endswith(DONE)


@BOTH
async def test_a_client_that_leaves_frees_its_engine(name: str, tmp_path: Path):
    never = asyncio.Event()
    async with stage() as on, front(name, on.url, tmp_path) as url:
        on.spec.answer_next([Send(sse_head() + chunk(delta("a"))), WaitFor(never)])
        async with connect(url) as client:
            await client.send(chat_request())
            await client.read_head()
        await on.spec.saw_close(within_s=3)


@BOTH
async def test_a_large_prompt_comes_through_unchanged(name: str, tmp_path: Path):
    body = chat(stream=False, padding="x" * 5_000_000)
    async with stage() as on, front(name, on.url, tmp_path) as url, connect(url) as client:
        response = await client.request(b"POST", CHAT, [JSON], body)
        assert response.status == 200
        (request,) = await on.spec.saw_requests()
        assert request.body == body


@BOTH
async def test_a_request_is_never_sent_twice(name: str, tmp_path: Path):
    async with stage() as on, front(name, on.url, tmp_path) as url, connect(url) as client:
        on.spec.answer_next([Rst()])
        response = await client.request(b"POST", CHAT, [JSON], chat())
        assert response.status == 502
        assert json.loads(response.body.data)["error"]["type"]
        await on.ended()
        assert on.spec.requests_total == 1
        assert on.plain.requests_total == 0


@BOTH
async def test_the_gates_refusals_come_through_with_their_advice(name: str, tmp_path: Path):
    with refuses() as spec, refuses() as plain:
        async with (
            running_gate(spec, plain) as gate,
            front(name, gate.url, tmp_path) as url,
            connect(url) as client,
        ):
            response = await client.request(b"POST", CHAT, [JSON], chat())
    assert response.status == 503
    assert response.values(b"retry-after")
    assert json.loads(response.body.data)["error"]["message"]


@BOTH
async def test_engines_errors_and_headers_come_through_as_they_are(name: str, tmp_path: Path):
    said = b'{"error": {"message": "no such model"}}'
    pairs = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(said)).encode()),
        (b"server", b"engine"),
        (b"x-request-id", b"abc"),
    ]
    async with stage() as on, front(name, on.url, tmp_path) as url, connect(url) as client:
        on.spec.answer_next([Send(head(404, pairs) + said)])
        response = await client.request(
            b"POST",
            CHAT,
            [JSON, (b"X-Request-Id", b"abc"), (b"Authorization", b"Bearer k")],
            chat(),
        )
        assert (response.status, response.body.data) == (404, said)
        assert response.values(b"server") == [b"engine"]
        assert response.values(b"x-request-id") == [b"abc"]
        (request,) = await on.spec.saw_requests()
        assert request.values(b"x-request-id") == [b"abc"]
        assert request.value(b"authorization") == b"Bearer k"


SPELLINGS = (
    "/metrics",
    "//metrics",
    "/%6detrics",
    "/./metrics",
    "/metrics?a=b",
    "/_specgate/status",
    "/_specgate",
    "//_specgate/status",
    "/%5Fspecgate/status",
    "/_specgate%2Fstatus",
    "/v1/../_specgate/status",
    "/v1/%2e%2e/_specgate/status",
    "/_specgate/docs",
)


@BOTH
async def test_the_gates_own_routes_are_not_for_clients(name: str, tmp_path: Path):
    """By no spelling: what the front lets through is an engine's answer or nothing."""
    async with stage() as on, front(name, on.url, tmp_path) as url:
        for path in ("/metrics", "/_specgate/status"):
            assert (await get(on.url + path)).status == 200
            assert (await get(url + path)).status == 404
        for path in SPELLINGS:
            body = (await get(url + path)).body.data
            assert b"specgate" not in body.lower(), path
        for path in ("/livez", "/readyz"):
            assert (await get(url + path)).status == 200, "balancers ask it"
