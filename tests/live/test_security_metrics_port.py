"""`/metrics` and the probes on a port of their own."""

import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from specgate.settings import SettingsError
from tests.support.client import CHAT, JSON, Response, chat, connect, get
from tests.support.lanes import ScriptedLane
from tests.support.live import LiveGate, environment, gate_in
from tests.support.process import serve_process

both_forms = pytest.mark.usefixtures("form")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@asynccontextmanager
async def with_own_port(**settings: object) -> AsyncIterator[tuple[LiveGate, str, ScriptedLane]]:
    """The gate, its metrics port's URL, and its plain lane."""
    port = free_port()
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        environ = environment(spec_url=spec.url, plain_url=plain.url, metrics_port=port, **settings)
        async with gate_in(environ) as gate:
            yield gate, f"http://127.0.0.1:{port}", plain


@both_forms
async def test_metrics_are_there_and_not_on_the_main_port():
    async with with_own_port(api_keys="k", admin_token="t") as (gate, own, plain):
        page = await get(own + "/metrics")
        assert page.status == 200
        assert b"specgate_load" in page.body.data
        for path in ("/livez", "/readyz", "/health", "/ready"):
            assert (await get(own + path)).status == 200
            assert (await get(gate.url + path)).status == 200
        for spelling in ("/metrics", "/metrics?x", "/%6detrics", "/metrics#x"):
            reply = await get(gate.url + spelling)
            assert (reply.status, b"no_route" in reply.body.data) == (404, True), spelling
        assert plain.requests == []


@both_forms
async def test_nothing_else_is_on_it():
    async with with_own_port(admin_token="t") as (_, own, plain):
        for method, path in (
            (b"GET", b"/_specgate/status"),
            (b"POST", b"/_specgate/reload"),
            (b"GET", b"/_specgate/openapi.json"),
            (b"GET", b"/openapi.json"),
            (b"GET", b"/docs"),
            (b"POST", CHAT),
            (b"GET", b"/v1/models"),
            (b"GET", b"//metrics"),
            (b"GET", b"/"),
            (b"POST", b"/metrics"),
            (b"PUT", b"/livez"),
        ):
            reply = await asked(own, method, path)
            assert reply.status == 404, (method, path)
            assert b'"code": "no_route"' in reply.body.data
        assert plain.requests == []


async def asked(url: str, method: bytes, path: bytes) -> Response:
    headers = [JSON, (b"Authorization", b"Bearer t")]
    async with connect(url) as client:
        body = chat() if method == b"POST" else None
        return await client.request(method, path, headers, body)


async def test_it_has_the_limits_of_the_main_port():
    async with with_own_port(head_timeout_s=0.3) as (_, own, _), connect(own) as client:
        await client.send(b"GET /metrics HT")
        await client.read_head()
        assert client.status == 408


async def test_without_the_setting_metrics_are_on_the_main_port():
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        environ = environment(spec_url=spec.url, plain_url=plain.url)
        async with gate_in(environ) as gate:
            assert (await get(gate.url + "/metrics")).status == 200
            assert gate.service.metrics_port is None


async def test_a_taken_port_stops_the_start_with_a_line_that_names_it():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        environ = environment(
            spec_url="http://127.0.0.1:1", plain_url="http://127.0.0.1:2", metrics_port=port
        )
        with pytest.raises(SettingsError, match=f"SPECGATE_METRICS_PORT={port}: .*in use"):
            async with gate_in(environ, ready=False):
                pass
        async with serve_process(environ, listening=False) as gate:
            assert await gate.stopped() == 1
            line = await gate.logged("not_listening")
    assert re.search(f"SPECGATE_METRICS_PORT={port}: .*in use", line["message"])
    assert "Traceback" not in str(list(gate.log))
