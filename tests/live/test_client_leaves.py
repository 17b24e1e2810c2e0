"""A client that leaves is noticed within a second, in every phase: on asyncio, in this process, and
on uvloop, as `specgate serve` runs. tests/cases/test_e_disconnect.py has the reported cases."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from specgate.core.events import LaneFailed, Outcome, Phase, RequestEnded
from tests.support.client import CHAT, JSON, RawClient, chat_request, connect, request_bytes
from tests.support.invariants import assert_at_rest
from tests.support.lanes import (
    Connection,
    DontReadBody,
    ReadBody,
    Request,
    ScriptedLane,
    Send,
    Silent,
    chunk,
    delta,
    never_ending_stream,
    sse_head,
)
from tests.support.live import environment
from tests.support.process import serve_process
from tests.support.stage import stage

HOW = ["rst", "fin"]  # closing is one of them: a reset if something was left unread
FLOOD = [Send(sse_head()), *[Send(chunk(delta("x" * 100_000)))] * 200, Silent()]


@dataclass
class Gate:
    """`ended`: outcome and phase of the first request that ended. `told`: how many did."""

    url: str
    spec: ScriptedLane
    plain: ScriptedLane
    ended: Callable[[], Awaitable[tuple[str, str]]]
    told: Callable[[], int]


Opening = Callable[[], Any]


@asynccontextmanager
async def in_this_process() -> AsyncIterator[Gate]:
    async with stage() as on:
        facts = on.gate.facts

        async def ended() -> tuple[str, str]:
            fact = await facts.wait_for(RequestEnded, within_s=1.2)
            return fact.outcome, fact.phase

        yield Gate(on.url, on.spec, on.plain, ended, lambda: len(facts.of(RequestEnded)))
        assert facts.of(LaneFailed) == []


@asynccontextmanager
async def in_its_own() -> AsyncIterator[Gate]:
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        urls = {"spec_url": spec.url, "plain_url": plain.url}
        async with serve_process(environment(**urls, threshold="always")) as gate:
            for lane in ("spec", "plain"):
                await gate.logged("lane_health", count=1 + (lane == "plain"))

            async def ended() -> tuple[str, str]:
                line = await gate.logged("request", within_s=1.2)
                return line["outcome"], line["phase"]

            def told() -> int:
                return sum(line["event"] == "request" for line in gate.log)

            yield Gate(gate.url, spec, plain, ended, told)
            await assert_at_rest(gate.url, [spec, plain])
            assert not {line["event"] for line in gate.log if line.get("level") == "error"}
            assert "lane_failed" not in {line["event"] for line in gate.log}


@pytest.fixture(params=[in_this_process, in_its_own], ids=["asyncio", "uvloop"])
def gate(request: pytest.FixtureRequest) -> Opening:
    opening: Opening = request.param
    return opening


def leave(client: RawClient, how: str) -> None:
    client.rst() if how == "rst" else client.fin()


async def noticed(on: Gate, phase: Phase) -> None:
    """The fact of the leaving, and a lane that is rid of the request."""
    assert await on.ended() == (Outcome.CLIENT_GONE, phase)
    if on.spec.requests:
        await on.spec.saw_close()


@pytest.mark.parametrize("how", HOW)
async def test_in_mid_upload(how: str, gate: Opening):
    async with gate() as on, connect(on.url) as client:
        await client.send(request_bytes(b"POST", CHAT, [JSON, (b"Content-Length", b"1000")]))
        await asyncio.sleep(0.05)
        leave(client, how)
        await noticed(on, Phase.UPLOAD)
        assert on.spec.requests == []


async def test_in_an_upload_that_the_lane_does_not_read(gate: Opening):
    """The client is not read then either; the kernel knows of its reset. The lane is reset in
    turn: a FIN would lie behind what it has not read.

    Known limit: a client's FIN behind more than fits between the two has not been sent yet, and is
    noticed when the lane reads on. `test_while_pipelined_requests_wait` has the FIN that has
    arrived.
    """
    async with gate() as on, connect(on.url) as client:
        told = asyncio.Event()

        async def until_reset(request: Request, connection: Connection) -> None:
            sock = connection.writer.get_extra_info("socket")
            while not (error := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)):
                await asyncio.sleep(0.01)
            assert error == errno.ECONNRESET
            told.set()

        on.spec.answer_next([DontReadBody(), until_reset, ReadBody()])
        await client.send(request_bytes(b"POST", CHAT, [(b"Content-Length", b"100000000")]))
        with contextlib.suppress(TimeoutError):
            while True:
                async with asyncio.timeout(0.5):
                    await client.send(b"x" * 65536)
        client.rst()
        assert await on.ended() == (Outcome.CLIENT_GONE, Phase.UPLOAD)
        async with asyncio.timeout(1):
            await told.wait()
        await on.spec.saw_close()


@pytest.mark.parametrize("how", HOW)
async def test_while_it_waits_for_the_head(how: str, gate: Opening):
    async with gate() as on, connect(on.url) as client:
        on.spec.answer_next(Silent())
        await client.send(chat_request())
        await on.spec.saw_requests()
        leave(client, how)
        await noticed(on, Phase.PREFILL)


@pytest.mark.parametrize("how", HOW)
async def test_in_mid_stream(how: str, gate: Opening):
    async with gate() as on, connect(on.url) as client:
        on.spec.answer_next(never_ending_stream())
        await client.send(chat_request())
        await client.read_head()
        leave(client, how)
        await noticed(on, Phase.STREAM)


@pytest.mark.parametrize("how", HOW)
async def test_while_it_does_not_read(how: str, gate: Opening):
    """The gate waits to write then. A half-closed connection never drains, and never ended."""
    async with gate() as on, connect(on.url, receive_buffer=4096) as client:
        on.spec.answer_next(FLOOD)
        await client.send(chat_request())
        await client.read_head()
        client.stop_reading()
        await asyncio.sleep(0.3)
        leave(client, how)
        await noticed(on, Phase.STREAM)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("waiting", [1, 20], ids=["read", "not-read"])
async def test_while_pipelined_requests_wait(how: str, waiting: int, gate: Opening):
    """Behind as many as the gate reads ahead, and behind more: then it does not read at all."""
    async with gate() as on, connect(on.url) as client:
        on.spec.answer_next(Silent())
        await client.send(chat_request())
        await on.spec.saw_requests()
        for _ in range(waiting):
            await client.send(request_bytes(b"GET", b"/v1/thing"))
            await asyncio.sleep(0.002)
        leave(client, how)
        await noticed(on, Phase.PREFILL)
        assert on.plain.requests == [], "nobody is there to be answered"
        assert on.told() == 1


async def test_half_close_is_taken_for_leaving(gate: Opening):
    """What was answered by then arrives; what was not is cut, so that it cannot pass for whole."""
    async with gate() as on:
        async with connect(on.url) as client:
            on.spec.answer_next([Send(sse_head()), Send(chunk(delta("a"))), Silent()])
            await client.send(chat_request().replace(b"HTTP/1.1", b"HTTP/1.0"))
            await client.read_head()
            assert await client.read_exact(len(delta("a"))) == delta("a")
            client.fin()
            assert await client.ended() == "reset", "this body ends with its connection"
        await noticed(on, Phase.STREAM)
        async with connect(on.url) as client:
            await client.request(b"POST", CHAT, [JSON], b"{}")
            client.fin()
            assert await client.ended() == "fin"


async def test_client_that_leaves_an_own_route(gate: Opening):
    async with gate() as on:
        for how in HOW:
            async with connect(on.url) as client:
                head = request_bytes(b"PUT", b"/_specgate/mode", [(b"Content-Length", b"100")])
                await client.send(head)
                await asyncio.sleep(0.02)
                leave(client, how)
                await asyncio.sleep(0.02)
        assert on.told() == 0


async def test_keep_alive_client_that_leaves_between_requests(gate: Opening):
    async with gate() as on:
        for how in HOW:
            async with connect(on.url) as client:
                assert (await client.request(b"POST", CHAT, [JSON], b"{}")).status == 200
                leave(client, how)
        await asyncio.sleep(0.05)
        assert await on.ended() == (Outcome.COMPLETED, Phase.STREAM)
        assert on.told() == len(HOW)
