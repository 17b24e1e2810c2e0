"""Cases I: many at once, for long, and much of it."""

import asyncio
import gc
import resource
import time
from asyncio import events
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import pytest

from specgate.core.config import PolicyConfig
from specgate.core.events import RequestEnded
from specgate.core.lanes import Lane
from specgate.core.routes import RouteClass
from specgate.core.rules import CONVERSATIONS_MOST, HELD_MOST, Asked, RulesConfig
from tests.perf.counting import allow_files, calls_per_request
from tests.support.client import CHAT, JSON, chat, chat_request, connect, get
from tests.support.invariants import rss_mb
from tests.support.lanes import (
    DONE,
    LAST_CHUNK,
    Connection,
    Request,
    ScriptedLane,
    Send,
    Silent,
    chunk,
    delta,
    json_response,
    sse_head,
    sse_response,
)
from tests.support.process import serve_process
from tests.support.scripted import manual_gate
from tests.support.stage import stage


async def test_i01_100_connection_ceiling():
    """The client library's pool took 100 connections, and the 101st stream waited, then failed."""
    assert allow_files(2048)
    async with stage() as on, AsyncExitStack() as clients:
        on.spec.answer(CHAT.decode(), [Send(sse_head() + chunk(delta("a"))), Silent()])
        for _ in range(300):
            client = await clients.enter_async_context(connect(on.url))
            await client.send(chat_request())
        await on.spec.saw_requests(300, within_s=20)
        assert on.spec.in_progress == on.spec.busy_connections == 300
        assert on.gate.service.gate.view().counts.spec == 300


async def test_i02_pool_cost_grows_with_connections():
    """Each request looked through all connections: at 1,024 streams the router did little else."""
    alone = await calls_per_request(20)
    among = await calls_per_request(20, connections_resting=256)
    assert among.total <= 1.1 * alone.total


async def test_i03_crash_at_1k():
    """Out of file descriptors, the router died or answered 500 for ever. (With few of them.)"""
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        spec.answer(CHAT.decode(), [Send(sse_head() + chunk(delta("a"))), Silent()])
        environ = {
            "SPECGATE_SPEC_URL": spec.url,
            "SPECGATE_PLAIN_URL": plain.url,
            "SPECGATE_THRESHOLD": "always",
        }
        async with serve_process(environ) as gate:
            await gate.logged("lane_health", count=2)
            _, hard = resource.prlimit(gate.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(gate.pid, resource.RLIMIT_NOFILE, (100, hard))
            async with AsyncExitStack() as clients:
                for _ in range(150):
                    client = await clients.enter_async_context(connect(gate.url))
                    await client.send(chat_request())
                await asyncio.sleep(0.5)
            assert gate.process.returncode is None
            spec.answer(CHAT.decode(), sse_response([delta("a"), DONE]))
            async with asyncio.timeout(10):
                while await _status(gate.url) != 200:
                    await asyncio.sleep(0.1)
            assert not [line for line in gate.log if line.get("outcome") == "gate_error"]


async def _status(url: str) -> int:
    try:
        async with connect(url) as client:
            return (await client.request(b"POST", CHAT, [JSON], chat())).status
    except (OSError, asyncio.IncompleteReadError):
        return 0


async def test_i04_unbounded_structures():
    """Each prompt, session id and model name that was seen stayed. (1,200 of each.)"""
    async with stage() as on:
        on.spec.answer("*", json_response(200, {"usage": {"completion_tokens": 1}}))
        on.plain.answer("*", json_response(200, {}))

        async def ask(numbers: range) -> int:
            async with connect(on.url) as client:
                for number in numbers:
                    headers = [
                        JSON,
                        (b"x-request-id", b"id-%d" % number),
                        (b"x-session-%d" % number, b"%d" % number),
                        (b"user-agent", b"agent/%d" % number),
                    ]
                    body = chat(False, model=f"m{number}", user=f"u{number}")
                    await client.request(b"POST", CHAT + b"?q=%d" % number, headers, body)
                    await client.request(b"GET", b"/v1/models/m%d" % number, headers)
            for lane in (on.spec, on.plain):
                lane.requests.clear()
                lane.probes.clear()
            await on.gate.facts.wait_for(RequestEnded)
            on.gate.facts.facts.clear()
            gc.collect()
            return len(gc.get_objects())

        before = await ask(range(200))
        after = await ask(range(200, 1400))
        assert after - before < 300


def test_i04_ids_and_conversations():
    """The same of what the gate keeps on purpose: 100,000 of each."""
    gate, clock, _ = manual_gate(PolicyConfig(threshold=4), RulesConfig(sticky_s=3600))
    origin = gate.origin(Lane.SPEC)
    for number in range(100_000):
        gate.learn(origin, f"resp_{number}")
        asked = Asked(state=f"unknown-{number}", conversation=number.to_bytes(16, "big"))
        with gate.admit(RouteClass.CHAT, 1, asked=asked):
            clock.advance(0.001)
    assert len(gate._rules._held) == HELD_MOST
    assert gate._rules._conversations is not None
    assert len(gate._rules._conversations) == CONVERSATIONS_MOST
    assert gate.holds("resp_99999")
    assert not gate.holds("resp_0")
    assert gate.view().counts.total == 0
    clock.advance(25 * 3600)
    assert not gate.holds("resp_99999")
    assert len(gate._rules._held) == 0


async def test_i05_loop_blocked_by_own_work():
    """A body of 20 MB was parsed in the event loop, and so was a scrape with many streams: each
    blocked it for long. (Processor time, so that a busy machine's pauses do not count.)"""
    big = chat(False, content="x" * 20_000_000)
    async with stage() as on, AsyncExitStack() as clients:
        on.spec.answer(CHAT.decode(), [Send(sse_head() + chunk(delta("a"))), Silent()])
        for _ in range(100):
            client = await clients.enter_async_context(connect(on.url))
            await client.send(chat_request())
        await on.spec.saw_requests(100, within_s=10)
        on.spec.answer(CHAT.decode(), json_response(200, {}))
        # Once in a process the first call of a route builds what the later ones use, in some 15 ms.
        await get(on.url + "/metrics")
        with longest_turn() as longest:
            async with connect(on.url) as client:
                assert (await client.request(b"POST", CHAT, [JSON], big)).status == 200
            for _ in range(5):
                assert (await get(on.url + "/metrics")).status == 200
        assert on.spec.requests[-1].body == big
        assert longest.s < 0.005 * SLACK, longest


SLACK = 3


class Longest:
    s = 0.0
    what = ""

    def __repr__(self) -> str:
        return f"{self.s * 1000:.1f} ms in {self.what}"


@contextmanager
def longest_turn():
    """The longest that one callback of the gate's holds the event loop, of all in the block."""
    longest = Longest()
    run = events.Handle._run

    def timed(handle: Any) -> None:
        start = time.thread_time()
        run(handle)
        took = time.thread_time() - start
        if took > longest.s and (what := _of_the_gate(handle)):
            longest.s, longest.what = took, what

    # As `specgate serve` does after its start: a collection of all that the tests have loaded is no
    # work of the gate's, and falls into whatever callback runs just then.
    gc.collect()
    gc.freeze()
    events.Handle._run = timed  # type: ignore[method-assign, assignment]
    try:
        yield longest
    finally:
        events.Handle._run = run  # type: ignore[method-assign]
        gc.unfreeze()


def _of_the_gate(handle: Any) -> str:
    """What of the gate's a callback runs; empty for the client's and the lanes'."""
    callback = getattr(handle, "_callback", None)
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        name = owner.get_name()
        return name if name in ("request", "connection", "upload") else ""
    protocol = owner.get_protocol() if isinstance(owner, asyncio.Transport) else owner
    module = type(protocol).__module__
    return f"{module} {callback}" if module.startswith("specgate.") else ""


@pytest.mark.slow
async def test_i06_buffering_whole_streams():
    """Streams were kept whole until their end. (200 MB.)"""
    piece = chunk(delta("x" * 65_000))
    pieces = 200_000_000 // len(piece)

    async def long(_request: Request, connection: Connection) -> None:
        await connection.send(sse_head())
        for _ in range(pieces):
            await connection.send(piece)
        await connection.send(chunk(DONE) + LAST_CHUNK)

    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        environ = {
            "SPECGATE_SPEC_URL": spec.url,
            "SPECGATE_PLAIN_URL": plain.url,
            "SPECGATE_THRESHOLD": "always",
        }
        async with serve_process(environ) as gate, connect(gate.url) as client:
            await gate.logged("lane_health", count=2)
            assert (await client.request(b"POST", CHAT, [JSON], chat())).status == 200
            spec.answer(CHAT.decode(), long)
            before, most, got = rss_mb(gate.pid), 0.0, 0
            await client.send(chat_request())
            await client.read_head()
            while got < pieces * len(piece):
                got += len(await client.reader.read(1 << 20))
                most = max(most, rss_mb(gate.pid))
            assert most - before < 8
            await spec.saw_requests(2)
