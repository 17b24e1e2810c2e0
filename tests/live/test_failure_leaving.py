"""A table of leaving: in every phase of a request, streamed or not, by a FIN, a half-close and a
reset, over both forms. Each time the engine is told within a second and nothing stays in flight.

test_client_leaves.py has the own form on uvloop and what pipelining adds; test_queue.py the queue.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from specgate.core.events import LaneFailed, Outcome, Phase, RequestEnded
from specgate.core.lanes import Lane
from tests.support import live
from tests.support.client import CHAT, JSON, RawClient, chat, connect, request_bytes
from tests.support.lanes import (
    Fin,
    ReadBody,
    Send,
    Silent,
    chunk,
    delta,
    head,
    never_ending_stream,
    sse_head,
)
from tests.support.live import running_gate
from tests.support.stage import Stage, stage

WITHIN_S = 1.2
"""A second, and what the test itself takes."""

JSON_HEAD = [(b"content-type", b"application/json"), (b"content-length", b"50000000")]
MANY = b"x" * 50_000_000

Leave = Callable[[RawClient], Awaitable[None]]


async def by_fin(client: RawClient) -> None:
    """Both directions at once, as a client that is done."""
    await client.close()


async def by_half_close(client: RawClient) -> None:
    """It would go on reading: nothing tells it from one that is gone."""
    client.fin()


async def by_reset(client: RawClient) -> None:
    client.rst()


WAYS: dict[str, Leave] = {"fin": by_fin, "half-close": by_half_close, "rst": by_reset}


class Row(NamedTuple):
    """phase: as told in the fact. script: what the lane does. sends: what the client does. ready:
    what is waited for before it leaves. reached: whether the lane has the request by then."""

    phase: Phase
    script: Any
    sends: Callable[[RawClient, bool], Awaitable[None]]
    ready: Callable[[Stage, RawClient], Awaitable[None]]
    reached: bool = True


async def whole(client: RawClient, stream: bool) -> None:
    await client.send(request_bytes(b"POST", CHAT, [JSON], chat(stream=stream)))


async def half_a_body(client: RawClient, stream: bool) -> None:
    body = chat(stream=stream)
    pairs = [JSON, (b"Content-Length", b"%d" % (len(body) + 1))]
    await client.send(request_bytes(b"POST", CHAT, pairs) + body)


async def half_a_large_body(client: RawClient, stream: bool) -> None:
    pairs = [JSON, (b"Content-Length", b"1000000")]
    await client.send(request_bytes(b"POST", CHAT, pairs) + b" " * 300_000)


async def half_of_chunks(client: RawClient, stream: bool) -> None:
    pairs = [JSON, (b"Transfer-Encoding", b"chunked")]
    await client.send(request_bytes(b"POST", CHAT, pairs) + chunk(b" " * 100))


async def a_moment(on: Stage, client: RawClient) -> None:
    await asyncio.sleep(0.05)


async def lane_has_it(on: Stage, client: RawClient) -> None:
    await on.spec.saw_requests()


async def lane_has_begun(on: Stage, client: RawClient) -> None:
    """Its head has come, and waits in the gate for the first event."""
    await on.spec.saw_requests()
    await asyncio.sleep(0.1)


async def client_has_begun(on: Stage, client: RawClient) -> None:
    await client.read_head()


async def client_reads_no_more(on: Stage, client: RawClient) -> None:
    """All that lies between the two is full, or the end of it is on its way."""
    await client.read_head()
    client.stop_reading()
    await asyncio.sleep(0.3)


def whole_flood(stream: bool) -> Any:
    if stream:
        return [Send(sse_head()), *[Send(chunk(delta("x" * 100_000)))] * 200, Send(b"0\r\n\r\n")]
    return [Send(head(200, JSON_HEAD)), Send(MANY)]


TABLE: dict[str, Row] = {
    "upload, read ahead": Row(Phase.UPLOAD, Silent(), half_a_body, a_moment, reached=False),
    "upload, chunked": Row(Phase.UPLOAD, Silent(), half_of_chunks, a_moment, reached=False),
    "upload, passing through": Row(
        Phase.UPLOAD, [ReadBody(), Silent()], half_a_large_body, lane_has_it
    ),
    "prefill": Row(Phase.PREFILL, Silent(), whole, lane_has_it),
    "half a head": Row(Phase.PREFILL, [Send(b"HTTP/1.1 200"), Silent()], whole, lane_has_begun),
    "streaming": Row(Phase.STREAM, never_ending_stream(), whole, client_has_begun),
    "silent after its head": Row(
        Phase.STREAM,
        [Send(head(200, JSON_HEAD) + b"{"), Silent()],
        whole,
        client_has_begun,
    ),
}


@pytest.mark.parametrize("form", ["own", "portable"], indirect=True)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE)
async def test_leaving(row: Row, way: Leave, stream: bool, form: str):
    async with stage() as on, connect(on.url) as client:
        on.spec.answer_next(row.script)
        await row.sends(client, stream)
        await row.ready(on, client)
        await way(client)
        await gone(on, row.phase)
        if row.reached:
            await on.spec.saw_close(within_s=WITHIN_S)
        else:
            assert on.spec.requests == []


async def gone(on: Stage, phase: Phase) -> None:
    ended = await on.gate.facts.wait_for(RequestEnded, within_s=WITHIN_S)
    assert (ended.outcome, ended.phase) == (Outcome.CLIENT_GONE, phase)
    assert on.gate.service.gate.in_flight == 0
    assert on.gate.service.gate.carried == 0
    assert on.gate.facts.of(LaneFailed) == []


@pytest.mark.parametrize("form", ["own", "portable"], indirect=True)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_leaving_while_the_head_of_a_stream_is_held(way: Leave, form: str):
    async with stage() as on, connect(on.url) as client:
        on.spec.answer_next([Send(sse_head()), Silent()])
        await whole(client, stream=True)
        await lane_has_begun(on, client)
        await way(client)
        await gone(on, Phase.PREFILL)
        await on.spec.saw_close(within_s=WITHIN_S)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_leaving_at_the_end_that_it_does_not_read(way: Leave, stream: bool):
    """Closing: the engine has said all of it, or would, and the client's window is shut.

    Of the own form: through ASGI it is noticed when the client is read again, or by the time-out
    (docs/reference/portable-form.md).
    """
    async with stage() as on, connect(on.url, receive_buffer=4096) as client:
        on.spec.answer_next(whole_flood(stream))
        await whole(client, stream)
        await client_reads_no_more(on, client)
        await way(client)
        await gone(on, Phase.STREAM)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_leaving_before_the_error_of_a_broken_stream_was_read(way: Leave):
    """The gate waits a few seconds for it to be read; nobody waits for who has left."""
    async with stage() as on, connect(on.url, receive_buffer=4096) as client:
        flood = [Send(chunk(delta("x" * 10_000)))] * 40
        on.spec.answer_next([Send(sse_head()), *flood, Fin()])
        await whole(client, stream=True)
        await client_reads_no_more(on, client)
        await way(client)
        await on.gate.facts.wait_for(RequestEnded, within_s=WITHIN_S)
        assert on.gate.service.gate.carried == 0


@pytest.mark.parametrize("form", ["own", "portable"], indirect=True)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_leaving_while_the_gate_connects(way: Leave, form: str):
    """A lane whose host drops what comes: connecting takes until its time-out."""
    async with swallowing() as spec, stage() as on:
        settings: dict[str, Any] = {"probe_interval_s": 3600, "connect_timeout_s": 30}
        async with running_gate(
            spec, on.plain.url, threshold="always", ready=False, **settings
        ) as gate:
            async with connect(gate.url) as client:
                await whole(client, stream=True)
                async with asyncio.timeout(2):
                    while not gate.service.gate.in_flight:
                        await asyncio.sleep(0.01)
                await way(client)
                ended = await gate.facts.wait_for(RequestEnded, within_s=WITHIN_S)
            assert (ended.outcome, ended.phase) == (Outcome.CLIENT_GONE, Phase.PREFILL)
            assert ended.lane is Lane.SPEC
            assert (gate.service.gate.in_flight, gate.service.gate.carried) == (0, 0)
            assert on.plain.requests == [], "nobody is there to be rerouted for"
            assert live.PORTABLE is (form == "portable")


@asynccontextmanager
async def swallowing() -> AsyncIterator[str]:
    """The URL of a lane whose backlog is full: the kernel drops each SYN that comes."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(2):
            taken = stack.enter_context(socket.socket())
            taken.setblocking(False)
            taken.connect_ex(listener.getsockname())
        await asyncio.sleep(0.05)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
