"""Several requests on one connection: in order, each whole, whatever the one before it was."""

import asyncio

import pytest

from specgate.core.events import RequestEnded
from specgate.proxy.protocol import PIPELINE_LIMIT
from tests.support.client import CHAT, JSON, RawClient, chat, chunked, connect, request_bytes
from tests.support.lanes import (
    DONE,
    Fin,
    Pause,
    Rst,
    Script,
    Send,
    Step,
    delta,
    head,
    response,
    sse_response,
)
from tests.support.stage import stage

CHUNKED = (b"Transfer-Encoding", b"chunked")


async def echo(request, connection) -> None:
    """Answer with the target, later the earlier it came."""
    await asyncio.sleep(0.02 * (10 - int(request.target[-1:])))
    await connection.perform(response(200, request.target + b" " + request.body))


@pytest.mark.usefixtures("form")
async def test_ten_at_once_are_answered_in_order():
    async with stage() as on, connect(on.url) as client:
        on.plain.answer("*", echo)
        raw, expected = b"", []
        for number in range(10):
            target = b"/v1/thing/%d" % number
            match number % 4:
                case 0:
                    raw += request_bytes(b"GET", target)
                    expected.append(target + b" ")
                case 1:
                    raw += request_bytes(b"POST", target, [], b"body")
                    expected.append(target + b" body")
                case 2:
                    raw += request_bytes(b"GET", b"/livez")
                    expected.append(b"")
                case _:
                    raw += request_bytes(b"POST", target, [CHUNKED], chunked(b"bo", b"dy"))
                    expected.append(target + b" body")
        await client.send(raw)
        for body in expected:
            await client.read_head()
            assert client.status == 200
            got = (await client.read_body()).data
            assert got == body or not body
        assert len(on.plain.requests) == 8
        assert on.plain.most_in_progress == 1


async def test_hundreds_at_once():
    """More than are read ahead; some offer an upgrade, which made each a call deeper."""
    offer = [(b"Connection", b"Upgrade"), (b"Upgrade", b"h2c")]
    async with stage() as on, connect(on.url) as client:
        on.plain.answer("*", lambda request, connection: connection.perform(response(200, b"ok")))
        one = request_bytes(b"GET", b"/v1/thing", offer) + request_bytes(b"GET", b"/v1/thing")
        sending = asyncio.ensure_future(client.send(one * 450))
        for _ in range(900):
            await client.read_head()
            assert (client.status, (await client.read_body()).data) == (200, b"ok")
        await sending


async def test_thousands_in_one_read_are_refused():
    """Each took a hundred times the memory of its bytes; no client means that."""
    async with stage() as on, connect(on.url) as client:
        sending = asyncio.ensure_future(
            client.send(b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n" * 9000)
        )
        answered = 0
        while (await client.read_head()) and client.status == 200:
            await client.read_body()
            answered += 1
        assert client.status == 400
        assert PIPELINE_LIMIT <= answered < 9000
        await client.read_body()
        await sending
        assert await client.ended(within_s=4) == "fin"


async def still_good(client: RawClient) -> None:
    reply = await client.request(b"POST", CHAT, [JSON], chat(stream=False))
    assert (reply.status, reply.body.clean) == (200, True)


@pytest.mark.usefixtures("form")
async def test_connection_is_used_again_after_each_kind():
    async with stage() as on, connect(on.url) as client:
        scripts: list[Script] = [
            response(200, b"length"),
            response(500, b""),
            sse_response([delta("a"), DONE]),
            [Send(head(200, [(b"connection", b"close")]) + b"to the end"), Fin()],
            Send(head(204)),
            Send(head(304)),
        ]
        for script in scripts:
            on.plain.answer_next(script)
            await client.request(b"GET", b"/v1/thing")
            await still_good(client)
        on.plain.answer_next(Send(head(200, [(b"content-length", b"5")])))
        await client.request(b"HEAD", b"/v1/thing")
        await still_good(client)
        assert (await client.request(b"GET", b"/metrics")).status == 200
        await still_good(client)
        assert (await client.request(b"GET", b"/_specgate/none")).status == 404
        await still_good(client)
        on.plain.answer_next([Send(b"HTT"), Rst()])
        reply = await client.request(b"GET", b"/v1/thing")
        assert reply.status == 502, "the lane's end is not the client's"
        await still_good(client)


async def test_http_1_0():
    """No chunks, and the end of the connection unless it asks for more."""
    frames = [delta("a"), DONE]
    stream = request_bytes(b"POST", CHAT, [JSON], chat()).replace(b"HTTP/1.1", b"HTTP/1.0")
    async with stage() as on:
        async with connect(on.url) as client:
            on.spec.answer_next(sse_response(frames))
            await client.send(stream)
            _, headers = await client.read_head()
            assert not [value for name, value in headers if name == b"transfer-encoding"]
            assert (b"connection", b"close") in headers
            body = await client.read_body()
            assert (body.data, body.ending) == (b"".join(frames), "close")
        async with connect(on.url) as client:
            on.spec.answer_next(response(200, b"length"))
            await client.send(stream.replace(b"Host: gate\r\n", b""))
            await client.read_head()
            assert (await client.read_body()).ending == "length"
            assert await client.ended() == "fin"


async def test_http_1_0_with_keep_alive():
    keep = (b"Connection", b"keep-alive")
    get = request_bytes(b"GET", b"/v1/thing", [keep]).replace(b"HTTP/1.1", b"HTTP/1.0")
    async with stage() as on, connect(on.url) as client:
        on.plain.answer_next(response(200, b"one"), response(404, b""), sse_response([DONE]))
        for body in (b"one", b""):
            await client.send(get)
            _, headers = await client.read_head()
            assert (b"connection", b"keep-alive") in headers
            assert (await client.read_body()).data == body
        await client.send(get)
        _, headers = await client.read_head()
        assert (b"connection", b"close") in headers, "nothing else can end this body"
        assert (await client.read_body()).data == DONE


async def test_stream_that_its_lane_cuts_looks_cut():
    """To a client of HTTP/1.0 a FIN is the end of the body: it gets a reset."""
    script: list[Step] = [Send(head(200)), Send(b"part"), Pause(0.1), Rst()]
    async with stage() as on:
        for version, ending in ((b"1.1", "cut"), (b"1.0", "reset")):
            async with connect(on.url) as client:
                on.plain.answer_next(script)
                raw = request_bytes(b"GET", b"/v1/thing")
                await client.send(raw.replace(b"HTTP/1.1", b"HTTP/" + version))
                await client.read_head()
                body = await client.read_body()
                assert (body.data, body.ending) == (b"part", ending)
        assert len(on.gate.facts.of(RequestEnded)) == 2


async def test_pipeline_ends_with_the_request_that_is_refused():
    """What follows may be meant otherwise than it reads: nothing behind it is answered."""
    good = request_bytes(b"GET", b"/v1/thing")
    bad = request_bytes(b"GET", b"/v1/thing", [(b"host", b"a"), (b"host", b"b")])
    async with stage() as on, connect(on.url) as client:
        on.plain.answer_next(response(200, b"good"), response(200, b"never"))
        await client.send(good + bad + good)
        await client.read_head()
        assert (await client.read_body()).data == b"good"
        await client.read_head()
        assert client.status == 400
        await client.read_body()
        assert await client.ended() == "fin"
        assert len(on.plain.requests) == 1
