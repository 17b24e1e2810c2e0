"""What a lane may do to a probe: nothing of it is an error of the gate's."""

import asyncio
import contextlib
import socket
import struct
import threading
import time

import httpx2
import pytest
import uvloop

from specgate.control import prober
from specgate.control.prober import Prober, probe_client
from specgate.core.config import PolicyConfig
from specgate.core.events import Probed
from specgate.core.health import Sign
from specgate.core.lanes import Lane
from specgate.upstream.base import Origin
from tests.support.lanes import Rst, ScriptedLane, error_response, json_response
from tests.support.scripted import manual_gate
from tests.support.steps import response

RESET = struct.pack("ii", 1, 0)
TRIES = 300


def reset_all(listener: socket.socket) -> None:
    """Take every connection and reset it at once, until the listener is closed."""
    with contextlib.suppress(OSError):
        while True:
            link, _ = listener.accept()
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            link.close()


def test_a_connection_that_is_reset_as_it_is_made():
    """On uvloop, where the gate runs, one in some dozens was an AttributeError."""

    async def probes(url: str) -> None:
        async with probe_client() as client:
            for _ in range(TRIES):
                with contextlib.suppress(httpx2.TransportError):
                    async with asyncio.timeout(5):
                        await client.get(url)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        resetting = threading.Thread(target=reset_all, args=(listener,))
        resetting.start()
        try:
            uvloop.run(probes(f"http://127.0.0.1:{listener.getsockname()[1]}/ready"))
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            resetting.join()


async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """404 at /ready; a list of models that never ends, for as long as somebody reads it."""
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET /ready "):
            writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
        else:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
            while True:
                writer.write(b"[" * 65536)
                await writer.drain()
    writer.close()


async def test_an_answer_without_an_end_is_left_after_its_first_part():
    """Its status says enough. Read for as long as a probe may take, it was a gigabyte."""
    server = await asyncio.start_server(endless, "127.0.0.1", 0)
    async with server, probe_client() as client:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        gate, clock, facts = manual_gate(PolicyConfig())
        gate.set_origin(Origin.of(Lane.SPEC, url))
        prober = Prober(gate=gate, client=client, observe=facts, clock=clock)
        await prober.probe(Lane.SPEC)
    assert [fact.sign for fact in facts.of(Probed)] == [Sign.READY]


WITHOUT = error_response(404, "no such path")
READY = json_response(200, {"status": "ready", "healthy_workers": 1, "total_workers": 2})
NOT_READY = json_response(503, {"status": "not ready", "reason": "insufficient healthy workers"})


async def health(lane: ScriptedLane, probes: int = 3) -> str:
    """What so many probes make of it."""
    gate, clock, facts = manual_gate(PolicyConfig())
    gate.set_origin(Origin.of(Lane.SPEC, lane.url))
    async with probe_client() as client:
        prober = Prober(gate=gate, client=client, observe=facts, clock=clock)
        for _ in range(probes):
            await prober.probe(Lane.SPEC)
    return gate.lanes[Lane.SPEC].health


async def test_a_balancer_is_asked_whether_it_has_an_engine():
    async with ScriptedLane("spec") as lane:
        lane.answer("/ready", WITHOUT)
        for answer, expected in ((READY, "healthy"), (NOT_READY, "ejected")):
            lane.answer("/readiness", answer)
            assert await health(lane) == expected
        asked = [request.target for request in lane.requests]
        # Once whether it is SGLang; the models, which name nobody, once too.
        assert asked.count(b"/ready") == 2
        assert asked.count(b"/readiness") == 6


@pytest.mark.parametrize(
    "other",
    [
        WITHOUT,
        json_response(200, {"status": "fine"}),
        json_response(503, {"status": "starting"}),
        json_response(503, {"error": "not ready"}),
        response(200, b"<html>ready</html>"),
        Rst(),
    ],
    ids=lambda _: "",
)
async def test_any_other_page_there_is_no_word(other):
    async with ScriptedLane("spec") as lane:
        lane.answer("/ready", WITHOUT)
        lane.answer("/readiness", other)
        assert await health(lane) == "healthy"


async def test_an_engine_that_names_itself_is_not_asked():
    models = {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "vllm"}]}
    async with ScriptedLane("spec") as lane:
        lane.answer("/ready", WITHOUT)
        lane.answer("/v1/models", json_response(200, models))
        lane.answer("/readiness", NOT_READY)
        assert await health(lane) == "healthy"
        assert b"/readiness" not in [request.target for request in lane.requests]


async def test_what_was_a_balancer_and_is_an_engine_now_is_asked_for_its_models():
    async with ScriptedLane("spec") as lane:
        lane.answer("/ready", WITHOUT)
        lane.answer("/readiness", READY)
        gate, clock, facts = manual_gate(PolicyConfig())
        gate.set_origin(Origin.of(Lane.SPEC, lane.url))
        async with probe_client() as client:
            prober = Prober(gate=gate, client=client, observe=facts, clock=clock)
            await prober.probe(Lane.SPEC)
            models = {"object": "list", "data": [{"id": "m", "owned_by": "vllm"}]}
            lane.answer("/v1/models", json_response(200, models))
            lane.answer("/readiness", WITHOUT)
            for _ in range(2):
                await prober.probe(Lane.SPEC)
        assert gate.lanes[Lane.SPEC].engine == "vllm"
        assert gate.lanes[Lane.SPEC].health == "healthy"


async def test_a_gate_that_stood_still_is_no_verdict_on_a_lane(monkeypatch: pytest.MonkeyPatch):
    """A probe's connection was there, and the event loop looked only after its time was over."""
    monkeypatch.setattr(prober, "PROBE_CONNECT_S", 0.4)
    gate, clock, facts = manual_gate(PolicyConfig())
    async with ScriptedLane("spec") as lane, probe_client() as client:
        gate.set_origin(Origin.of(Lane.SPEC, lane.url))
        probing = Prober(gate=gate, client=client, observe=facts, clock=clock)
        asking = asyncio.ensure_future(probing.probe(Lane.SPEC))
        await asyncio.sleep(0)  # it connects
        time.sleep(1)
        await asking
        assert [fact.sign for fact in facts.of(Probed)] == [Sign.SLOW]
        assert gate.lanes[Lane.SPEC].health == "probing"
        await probing.probe(Lane.SPEC)
        assert gate.lanes[Lane.SPEC].health == "healthy"
