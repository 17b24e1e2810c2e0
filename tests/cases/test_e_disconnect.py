"""Cases E: clients that leave, at every moment of a request."""

import asyncio
import itertools
import random
from typing import Any

import pytest
from starlette.middleware.base import BaseHTTPMiddleware

from specgate.core.config import ProxyConfig, TimeoutConfig
from specgate.core.events import LaneFailed, Outcome, Phase, RequestEnded
from specgate.proxy.app import ProxyApp
from specgate.proxy.keys import Keyring
from tests.support.client import CHAT, JSON, RawClient, chat, chat_request, connect, request_bytes
from tests.support.figures import total
from tests.support.invariants import assert_at_rest, pending_tasks
from tests.support.lanes import (
    Pause,
    ScriptedLane,
    Send,
    Signal,
    Silent,
    chunk,
    delta,
    never_ending_stream,
    sse_head,
)
from tests.support.process import serve_process
from tests.support.scripted import ScriptedDownstream, ScriptedUpstream, bench
from tests.support.stage import stage

FRAME_END = b"\n\n\r\n"

EVERY_SETTING = {
    "expose_headers": "true",
    "accel_buffering": "true",
    "first_byte_timeout_s": "30",
    "idle_timeout_s": "30",
    "send_timeout_s": "30",
    "admin_token": "secret",
    "log_level": "debug",
    "log_format": "json",
    "smoothing_s": "10",
    "dwell_s": "10",
}


async def leave(client: RawClient, how: str) -> None:
    """Go away: with a reset, or as a client does that closes."""
    client.rst() if how == "rst" else await client.close()


@pytest.mark.parametrize("how", ["rst", "close"])
async def test_e01_mid_stream_client_close(how: str):
    """The engine went on generating for a client that had left in the middle of its stream."""
    async with stage() as on:
        on.spec.answer_next(never_ending_stream())
        async with connect(on.url) as client:
            await client.send(chat_request())
            await client.read_head()
            await client.read_until(FRAME_END, times=3)
            await leave(client, how)
            await on.spec.saw_close(within_s=1)
        ended = await on.ended()
        assert (ended.outcome, ended.phase) == (Outcome.CLIENT_GONE, Phase.STREAM)
        assert on.gate.facts.of(LaneFailed) == []
        metrics = await on.gate.metrics()
        assert total(metrics, "specgate_client_disconnects_total", phase="stream") == 1
        assert total(metrics, "specgate_upstream_errors_total") == 0
        assert (await on.gate.status())["lanes"]["spec"]["health"] == "healthy"


@pytest.mark.parametrize("how", ["rst", "close"])
async def test_e01_client_close_while_it_does_not_read(how: str):
    """A client left with a full window; the gate was waiting to write and did not look."""
    async with stage() as on:
        big = delta("x" * 100_000)
        on.spec.answer_next([Send(sse_head()), *[Send(chunk(big))] * 200, Silent()])
        async with connect(on.url, receive_buffer=4096) as client:
            await client.send(chat_request())
            await client.read_head()
            client.stop_reading()
            await asyncio.sleep(0.2)
            await leave(client, how)
            await on.spec.saw_close(within_s=1)
        assert (await on.ended()).outcome is Outcome.CLIENT_GONE
        assert on.gate.facts.of(LaneFailed) == []


async def test_e02_middleware_hides_the_disconnect():
    """A middleware on the data path swallowed the disconnect."""
    settings: dict[str, Any] = EVERY_SETTING
    async with stage(**settings) as on:
        app = on.gate.service.app
        assert app.user_middleware == []
        layer: Any = app.middleware_stack
        while layer is not app.router:
            assert not isinstance(layer, BaseHTTPMiddleware)
            assert type(layer).__module__.startswith(("starlette.", "fastapi.")), layer
            layer = layer.app
        mounted = [getattr(route, "app", None) for route in app.routes]
        assert sum(isinstance(app, ProxyApp) for app in mounted) == 1


async def test_e02_disconnect_with_every_optional_setting_on():
    """With the options on, a disconnect was seen late, or logged as something else."""
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        environ = {f"SPECGATE_{name.upper()}": value for name, value in EVERY_SETTING.items()}
        environ |= {"SPECGATE_SPEC_URL": spec.url, "SPECGATE_PLAIN_URL": plain.url}
        async with serve_process({**environ, "SPECGATE_THRESHOLD": "8"}) as gate:
            spec.answer_next(never_ending_stream())
            async with connect(gate.url) as client:
                await client.send(chat_request())
                await client.read_head()
                await client.read_until(FRAME_END, times=3)
                client.rst()
                await spec.saw_close(within_s=1)
            line = await gate.logged("request")
            assert (line["status"], line["outcome"], line["phase"]) == (
                499,
                "client_gone",
                "stream",
            )
            assert "lane_failed" not in {entry["event"] for entry in gate.log}
            await assert_at_rest(gate.url, lanes=[spec, plain])


async def test_e03_background_task_not_run_on_cancel():
    """Clean-up that is not in a `finally` was skipped: 21 requests in flight for ever."""
    seeded = random.Random(3)
    moments = [
        (seeded.uniform(0, 0.6), seeded.choice(["rst", "close"]), seeded.random() < 0.3)
        for _ in range(200)
    ]

    async def one(url: str, after_s: float, how: str, slow_head: bool) -> None:
        async with connect(url) as client:
            await client.send(chat_request(slow_head=slow_head))
            await asyncio.sleep(after_s)
            await leave(client, how)

    async def answer(request: Any, connection: Any) -> None:
        if request.json["slow_head"]:
            await asyncio.sleep(0.3)
        await never_ending_stream(0.02)(request, connection)

    async with stage(threshold=100) as on:
        on.spec.answer("*", answer)
        on.plain.answer("*", answer)
        async with asyncio.TaskGroup() as clients:
            for after_s, how, slow_head in moments:
                clients.create_task(one(on.url, after_s, how, slow_head))
        await assert_at_rest(on.url, [on.spec, on.plain])
        ended = on.gate.facts.of(RequestEnded)
        # A reset right after the request may take it back before it was read.
        assert 150 <= len(ended) <= 200
        assert {fact.outcome for fact in ended} == {Outcome.CLIENT_GONE}
        assert on.gate.facts.of(LaneFailed) == []


@pytest.mark.parametrize("how", ["rst", "close"])
@pytest.mark.parametrize("sent", [0, 100, 400_000])
async def test_e05_close_in_mid_upload(how: str, sent: int):
    """Two readers of the request's messages: the one that saw the disconnect was not the one."""
    async with stage() as on:
        async with connect(on.url) as client:
            start = request_bytes(b"POST", CHAT, [JSON, (b"Content-Length", b"1000000")])
            await client.send(start + b" " * sent)
            # Too large to be read ahead: the lane gets it as it comes, and its end as well.
            await on.spec.saw_requests(1)
            await asyncio.sleep(0.05)
            await leave(client, how)
            await on.spec.saw_close(within_s=1)
        ended = await on.ended()
        assert (ended.outcome, ended.phase) == (Outcome.CLIENT_GONE, Phase.UPLOAD)
        assert on.gate.facts.of(LaneFailed) == []
        assert not on.spec.requests[0].complete


@pytest.mark.parametrize("how", ["rst", "close"])
@pytest.mark.parametrize("sent", [0, 100])
async def test_e05_close_in_mid_upload_of_what_is_read_ahead(how: str, sent: int):
    async with stage() as on:
        async with connect(on.url) as client:
            start = request_bytes(b"POST", CHAT, [JSON, (b"Content-Length", b"1000")])
            await client.send(start + b" " * sent)
            await asyncio.sleep(0.05)
            await leave(client, how)
        ended = await on.ended()
        assert (ended.outcome, ended.phase) == (Outcome.CLIENT_GONE, Phase.UPLOAD)
        assert on.spec.requests == []


@pytest.mark.parametrize("how", ["rst", "close"])
async def test_e05_close_between_body_end_and_headers(how: str):
    """A client left before the response began; the engine went on with its prefill."""
    async with stage() as on:
        on.spec.answer_next(Silent())
        async with connect(on.url) as client:
            body = chat()
            head = request_bytes(b"POST", CHAT, [JSON, (b"Content-Length", b"%d" % len(body))])
            await client.send(head)
            for byte in body[:20]:
                await client.send(bytes([byte]))
                await asyncio.sleep(0.002)
            await client.send(body[20:])
            await on.spec.saw_requests(1)
            await leave(client, how)
            await on.spec.saw_close(within_s=1)
        ended = await on.ended()
        assert (ended.outcome, ended.phase) == (Outcome.CLIENT_GONE, Phase.PREFILL)
        assert ended.status is None
        assert on.gate.facts.of(LaneFailed) == []
        metrics = await on.gate.metrics()
        assert total(metrics, "specgate_client_disconnects_total", phase="prefill") == 1
        assert total(metrics, "specgate_requests_total", status="gone") == 1


async def test_e05_one_owner_of_receive():
    """Two tasks waited for the client's messages at once, and each ate some of the other's."""
    messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    waiting = most = 0

    async def receive() -> dict[str, Any]:
        nonlocal waiting, most
        waiting += 1
        most = max(most, waiting)
        try:
            return await messages.get()
        finally:
            waiting -= 1

    async def send(message: Any) -> None:
        await asyncio.sleep(0)

    on = bench(ScriptedUpstream(head=asyncio.Event().wait))  # type: ignore[arg-type]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/chat/completions",
        "raw_path": CHAT,
        "query_string": b"",
        "headers": [(b"host", b"gate"), (b"transfer-encoding", b"chunked")],
    }
    serving = asyncio.ensure_future(ProxyApp(on.forwarder, Keyring())(scope, receive, send))
    body = chat()
    for byte in body:
        messages.put_nowait({"type": "http.request", "body": bytes([byte]), "more_body": True})
        await asyncio.sleep(0)
    messages.put_nowait({"type": "http.request", "body": b"", "more_body": False})
    while not on.gate.view().counts.total:
        await asyncio.sleep(0)
    messages.put_nowait({"type": "http.disconnect"})
    async with asyncio.timeout(1):
        await serving
    assert most == 1
    (ended,) = on.facts.of(RequestEnded)
    assert (ended.outcome, ended.phase) == (Outcome.CLIENT_GONE, Phase.PREFILL)
    assert on.gate.view().counts.total == 0


LIMITS = [TimeoutConfig(), TimeoutConfig(first_byte_s=5, idle_s=5, send_s=5)]
TURNS = range(5)
"""Turns of the event loop between the leaving and the moment: to fall before, on and after it."""


@pytest.mark.parametrize("who", ["client", "server", "both"])
@pytest.mark.parametrize("where", ["head", "given", "starting"])
async def test_e07_cancel_during_response_start(who: str, where: str):
    """Cancelled as the head came or went, a request was not taken out of the count."""
    for limits, turns in itertools.product(LIMITS, TURNS):
        before = pending_tasks()
        down = ScriptedDownstream()

        def cut() -> None:
            if who != "server":
                down.left.set()  # noqa: B023
            if who != "client":
                serving.get_loop().call_soon(serving.cancel)  # noqa: B023

        async def hook() -> None:
            cut()
            for _ in range(turns):  # noqa: B023
                await asyncio.sleep(0)

        pieces = [delta("x")] * 100
        match where:
            case "head":
                upstream = ScriptedUpstream(pieces, head=hook)
            case "given":
                upstream = ScriptedUpstream(pieces, given=cut)
            case _:
                upstream = ScriptedUpstream(pieces)
                down = ScriptedDownstream(starting=hook)
        on = bench(upstream, ProxyConfig(timeouts=limits))
        serving = asyncio.ensure_future(on.forwarder.carry(down))
        (raised,) = await asyncio.gather(serving, return_exceptions=True)
        await asyncio.sleep(0)

        assert on.gate.view().counts.total == 0
        assert all(response.closed for response in upstream.responses)
        assert pending_tasks() == before
        (ended,) = on.facts.of(RequestEnded)
        if who == "client":
            assert raised is None
            assert ended.outcome is Outcome.CLIENT_GONE
        else:
            assert isinstance(raised, asyncio.CancelledError)
            assert ended.outcome is Outcome.GATE_ERROR
        assert on.facts.of(LaneFailed) == []


async def test_e07_client_resets_as_the_head_arrives():
    """The same over sockets: the reset and the head cross in the gate."""
    seeded = random.Random(7)
    async with stage() as on:
        for turn in range(60):
            ready = asyncio.Event()
            head_after = max(0.0, seeded.uniform(-0.002, 0.002))
            on.spec.answer_next(
                [Signal(ready), Pause(head_after), Send(sse_head() + chunk(delta("a"))), Silent()]
            )
            async with connect(on.url) as client:
                await client.send(chat_request())
                await ready.wait()
                await asyncio.sleep(max(0.0, seeded.uniform(-0.002, 0.003)))
                await leave(client, "rst" if turn % 2 else "close")
            await on.spec.saw_close(within_s=1, request=on.spec.requests[-1])
        await on.ended(60)
        await assert_at_rest(on.url, [on.spec, on.plain])
        assert {fact.outcome for fact in on.gate.facts.of(RequestEnded)} == {Outcome.CLIENT_GONE}
        assert on.gate.facts.of(LaneFailed) == []
