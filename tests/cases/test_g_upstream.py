"""Cases G03 and G12: connections that an engine closes as they are used again, and answers that
come early. The rest of G is about health and replies."""

import asyncio
import random
from typing import Any

import pytest

from specgate.core.events import LaneFailed, Outcome
from tests.support.client import CHAT, JSON, chat, connect, request_bytes
from tests.support.lanes import (
    Connection,
    DontReadBody,
    Fin,
    Pause,
    ReadBody,
    Request,
    Rst,
    Send,
    head,
    json_response,
    response,
    sse_response,
)
from tests.support.stage import Stage, stage

UPSTREAMS = pytest.mark.parametrize("upstream", ["pooled", "httpx"])
KEEP_ALIVE_S = 0.3
ROUNDS = 200


async def at_the_edge(on: Stage, dice: random.Random) -> None:
    """Two requests: the second one comes as the engine closes the first one's connection."""
    async with connect(on.url) as client:
        first = await client.request(b"POST", CHAT, [JSON], chat(stream=False))
        assert first.status == 200
        await asyncio.sleep(KEEP_ALIVE_S + dice.uniform(-0.006, 0.006))
        second = await client.request(b"POST", CHAT, [JSON], chat(stream=False))
        assert second.status == 200, second


async def test_g03_stale_keep_alive():
    """uvicorn closes after 5 s, scaled to 0.3 s here, and the proxy used the connection just then.

    Of the pooled one alone: httpx does not send again.
    """
    async with stage() as on:
        on.spec.keep_alive_s = KEEP_ALIVE_S
        dice = random.Random(3)
        for _ in range(4):
            await asyncio.gather(*(at_the_edge(on, dice) for _ in range(ROUNDS // 4)))
        assert on.spec.requests_total >= 2 * ROUNDS
        assert not on.gate.facts.of(LaneFailed)


@pytest.mark.parametrize("how", [Fin(), Rst()], ids=["fin", "rst"])
async def test_g03_closes_upon_the_second_request(how: Fin | Rst):
    """It has read the request, and answers with the connection's end."""

    async def second_ends(request: Request, connection: Connection) -> None:
        if request.number == 1:
            await connection.perform(response(200, b"ok"))
        else:
            await connection.perform(how)

    async with stage() as on, connect(on.url) as client:
        on.spec.answer("*", second_ends)
        for number in range(1, 11):
            reply = await client.request(b"POST", CHAT, [JSON], chat())
            assert (reply.status, reply.body.data) == (200, b"ok")
            assert on.spec.requests_total == 2 * number - 1, "asked again once, and not more"
        assert not on.gate.facts.of(LaneFailed)


async def test_g03_not_where_it_may_have_worked_on_it():
    """A first connection, or one byte of an answer: 502, and the engine was asked once."""

    async def second_begins(request: Request, connection: Connection) -> None:
        if request.number == 1:
            await connection.perform(response(200, b"ok"))
        else:
            await connection.perform([Send(b"HTTP/1.1 200"), Fin()])

    async with stage() as on, connect(on.url) as client:
        on.spec.answer_next(Fin())
        assert (await client.request(b"POST", CHAT, [JSON], chat())).status == 502
        assert on.spec.requests_total == 1
        on.spec.answer("*", second_begins)
        assert (await client.request(b"POST", CHAT, [JSON], chat())).status == 200
        assert (await client.request(b"POST", CHAT, [JSON], chat())).status == 502
        assert on.spec.requests_total == 3


@UPSTREAMS
async def test_g12_early_hints_before_the_answer(upstream: str):
    hints = b"HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n"
    going_on = b"HTTP/1.1 100 Continue\r\n\r\n"
    async with stage(upstream=upstream) as on, connect(on.url) as client:
        frames = [b"data: 1\n\n", b"data: 2\n\n"]
        on.spec.answer_next(
            [Send(hints), Pause(0.02), Send(hints + going_on), *sse_response(frames)],
            Send(hints + going_on + response(200, b"ok").data),
        )
        for body in (b"".join(frames), b"ok"):
            reply = await client.request(b"POST", CHAT, [JSON], chat())
            assert (reply.status, reply.body.data) == (200, body)
            assert reply.values(b"link") == [], "what an interim response says ends here"


@pytest.mark.parametrize("ending", ["stays", "closes", "resets"])
@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_g12_answer_before_the_body_was_sent(framing: str, ending: str):
    """A 400 while the body is on its way: it reaches the client, the upload stops, and no reset
    comes between. Of the pooled one alone: httpx sends all of a body before it reads."""
    refusal = json_response(400, {"error": {"message": "no"}})

    async def resets(request: Request, connection: Connection) -> None:
        await asyncio.sleep(0.05)
        connection.rst()
        raise ConnectionResetError

    endings: dict[str, list[Any]] = {"stays": [ReadBody()], "closes": [Fin()], "resets": [resets]}
    steps = endings[ending]
    async with stage() as on:
        for _ in range(5):
            async with connect(on.url) as client:
                on.spec.answer_next([DontReadBody(), refusal, *steps])
                size = (b"Content-Length", b"100000000")
                chunks = (b"Transfer-Encoding", b"chunked")
                pair = size if framing == "length" else chunks
                await client.send(request_bytes(b"POST", CHAT, [JSON, pair]))
                piece = b"x" * 50_000
                if framing == "chunked":
                    piece = b"%x\r\n%b\r\n" % (len(piece), piece)
                for _ in range(20):
                    # What a client does that is busy sending.
                    if client.reader._buffer:  # type: ignore[attr-defined]
                        break
                    await client.send(piece)
                    await asyncio.sleep(0.001)
                await client.read_head()
                assert client.status == 400
                body = await client.read_body()
                assert body.clean
                assert body.data == refusal.data.partition(b"\r\n\r\n")[2]
        assert on.spec.requests_total == 5
        ended = await on.ended(5)
        assert ended.outcome is Outcome.COMPLETED
    assert not any(request.complete for request in on.spec.requests)


async def test_g12_engine_speaks_first():
    """An answer to nobody, on a connection at rest, is never the answer to the next request."""

    async def speaks_up(request: Request, connection: Connection) -> None:
        await connection.perform([response(200, b"mine"), Pause(0.02)])
        await connection.send(head(408, [(b"content-length", b"0")]))

    async with stage() as on, connect(on.url) as client:
        on.spec.answer("*", speaks_up)
        for _ in range(3):
            reply = await client.request(b"POST", CHAT, [JSON], chat())
            assert (reply.status, reply.body.data) == (200, b"mine")
            await asyncio.sleep(0.05)
        assert {request.number for request in on.spec.requests} == {1}
