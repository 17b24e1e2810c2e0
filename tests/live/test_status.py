"""What the control surface says, and the probes: over a real socket."""

import asyncio
import re

import pytest

from specgate import __version__
from tests.support.client import chat_request, connect, get
from tests.support.control import message, said
from tests.support.lanes import (
    ScriptedLane,
    Send,
    WaitFor,
)
from tests.support.live import running_gate
from tests.support.stage import stage
from tests.support.streams import held


async def test_status_has_the_fields_that_were_agreed():
    async with stage(threshold=8, band=0.25) as on:
        status = await on.gate.status()
        assert status.keys() >= {
            *("mode", "side", "threshold", "speculate_below", "plain_above", "load", "smoothed"),
            *("in_flight", "lanes", "switches", "version"),
        }
        assert (status["mode"], status["side"], status["threshold"]) == ("auto", "spec", 8)
        assert (status["speculate_below"], status["plain_above"]) == (6, 8)
        assert status["in_flight"] == {"total": 0, "spec": 0, "plain": 0, "oldest_s": None}
        known = {"health": "healthy", "engine": "unknown", "in_hand": 0}
        known |= {"draining": False, "asleep": False}
        assert status["lanes"] == {
            "spec": {"url": on.spec.url, **known},
            "plain": {"url": on.plain.url, **known},
        }
        assert (status["load"], status["smoothed"], status["switches"]) == (0, 0, 0)
        assert status["version"] == __version__


async def test_status_follows_the_load():
    end = asyncio.Event()
    async with stage(threshold=8) as on:
        on.spec.answer_next(held(end))
        async with connect(on.url) as client:
            await client.send(chat_request(n=3))
            await client.read_head()
            status = await on.gate.status()
            assert status["in_flight"].pop("oldest_s") > 0
            assert status["in_flight"] == {"total": 3, "spec": 3, "plain": 0}
            assert status["load"] == status["smoothed"] == 3
            end.set()
            await client.read_body()


async def test_an_engine_is_named_by_what_it_says_of_itself():
    models = Send(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 43\r\n\r\n"
        b'{"data": [{"id": "m", "owned_by": "vllm"}]}'
    )
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        plain.answer("/v1/models", models)
        async with running_gate(spec.url, plain.url) as gate, asyncio.timeout(2):
            while (await gate.status())["lanes"]["plain"]["engine"] != "vllm":
                await asyncio.sleep(0.02)


@pytest.mark.parametrize("path", ["/readyz", "/health", "/ready"])
async def test_it_is_ready_while_a_lane_serves_and_alive_whatever_the_lanes_do(path: str):
    async with stage() as on:

        async def becomes(status: int, lanes: dict[str, str]) -> None:
            async with asyncio.timeout(5):
                while True:
                    reply = await get(on.url + path)
                    if (reply.status, said(reply)["lanes"]) == (status, lanes):
                        assert said(reply)["ready"] is (status == 200)
                        return
                    await asyncio.sleep(0.02)

        await becomes(200, {"spec": "healthy", "plain": "healthy"})
        await on.spec.stop()
        await becomes(200, {"spec": "ejected", "plain": "healthy"})
        await on.plain.stop()
        await becomes(503, {"spec": "ejected", "plain": "ejected"})
        assert (await get(on.url + "/livez")).status == 200
        await on.spec.start()
        await becomes(200, {"spec": "healthy", "plain": "ejected"})


@pytest.mark.parametrize("path", [b"/livez", b"/readyz", b"/health", b"/ready"])
async def test_probes_answer_head_too(path: bytes):
    async with stage() as on:
        async with connect(on.url) as client:
            reply = await client.request(b"HEAD", path)
            assert reply.status == 200
            # Nothing of a body follows on the connection.
            assert (await client.request(b"GET", b"/livez")).status == 200
        assert not on.plain.requests


async def test_a_gate_that_knows_no_lane_yet_is_not_ready():
    async with ScriptedLane() as lane:
        lane.answer("/ready", WaitFor(asyncio.Event()))
        async with running_gate(lane.url, lane.url, ready=False) as gate:
            assert (await get(gate.url + "/readyz")).status == 503
            assert (await get(gate.url + "/livez")).status == 200


async def test_each_probe_has_a_connection_of_its_own():
    """An engine that closes idle connections as the next probe begins would look broken."""
    async with stage() as on, asyncio.timeout(5):
        while len(on.spec.probes) < 5:
            await asyncio.sleep(0.02)
        assert {probe.number for probe in on.spec.probes} == {1}


async def test_the_docs_page_asks_nobody_outside():
    async with stage() as on:
        page = await get(on.url + "/_specgate/docs")
        assert page.values(b"content-type")[0].startswith(b"text/html")
        html = page.body.data.decode()
        assert "//" not in re.sub(r"<!--.*?-->|^\s*//.*$", "", html, flags=re.S | re.M)
        asked = re.findall(r"""(?:src|href)="([^"]+)"|url: '([^']+)'""", html)
        paths = {path for pair in asked for path in pair if path}
        assert len(paths) >= 4
        for path in paths:
            reply = await get(on.url + path)
            assert (reply.status, path.startswith("/_specgate/")) == (200, True), path
            assert reply.body.data
        assert not on.plain.requests


async def test_openapi_describes_the_control_surface():
    async with stage() as on:
        reply = await get(on.url + "/_specgate/openapi.json")
        assert b"://" not in reply.body.data
        schema = said(reply)
        assert schema["info"]["version"] == __version__
        assert {(path, method) for path, item in schema["paths"].items() for method in item} == {
            ("/livez", "get"),
            ("/readyz", "get"),
            ("/metrics", "get"),
            ("/_specgate/status", "get"),
            ("/_specgate/switches", "get"),
            ("/_specgate/history", "get"),
            ("/_specgate/curves", "get"),
            ("/_specgate/events", "get"),
            ("/_specgate/lanes/{lane}/drain", "post"),
            ("/_specgate/lanes/{lane}/undrain", "post"),
            ("/_specgate/threshold", "put"),
            ("/_specgate/mode", "put"),
            ("/_specgate/reload", "post"),
        }


@pytest.mark.parametrize("path", ["/_specgate", "/_specgate/nothing", "/_specgate/docs/x"])
async def test_what_it_does_not_know_is_not_the_engines(path: str):
    async with stage() as on:
        reply = await get(on.url + path)
        assert reply.status == 404
        assert "/_specgate/docs" in message(reply)
        assert not on.plain.requests
