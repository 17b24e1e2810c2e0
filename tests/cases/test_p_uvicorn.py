"""Cases P01, P02, P03 and P05: what a server in front of the data path does to it.

P04 is in tests/settings/test_names.py. P06, forced requests that mix the pool, comes with the
policy's rules: nothing forces a single request to a lane yet. What of P01 and P05 holds for our
own connections alone is held the other way round in tests/live/test_portable_form.py.
"""

import asyncio

import pytest

from specgate.core.events import Outcome
from tests.support.client import CHAT, JSON, chat, chat_request, chunked, connect, request_bytes
from tests.support.lanes import Send, Silent, chunk, delta, response, sse_head, sse_response
from tests.support.refusals import read_refusal, refused
from tests.support.stage import stage

CHUNKED = (b"Transfer-Encoding", b"chunked")
OFFER = [
    (b"Connection", b"Upgrade, HTTP2-Settings"),
    (b"Upgrade", b"h2c"),
    (b"HTTP2-Settings", b"AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA"),
]


@pytest.mark.parametrize("framing", ["length", "chunked", "none"])
@pytest.mark.parametrize("size", [1, 100_000], ids=["in-pieces", "at-once"])
async def test_p01_h2c_upgrade_on_a_post(framing: str, size: int):
    """The offer made the parser drop the body, whose length went upstream all the same."""
    body = chat()[:300].ljust(300)
    if framing == "length":
        raw = request_bytes(b"POST", CHAT, [JSON, *OFFER], body)
    elif framing == "chunked":
        coded = chunked(body[:100], body[100:])[:-2] + b"X-Trailer: 1\r\n\r\n"
        raw = request_bytes(b"POST", CHAT, [JSON, *OFFER, CHUNKED], coded)
    else:
        raw, body = request_bytes(b"POST", CHAT, [JSON, *OFFER]), b""
    async with stage() as on, connect(on.url) as client:
        for _ in range(2):
            on.spec.answer_next(response(200, b"ok"))
            for at in range(0, len(raw), size):
                client.writer.write(raw[at : at + size])
                if size < 10:
                    await asyncio.sleep(0)
            await client.read_head()
            assert (client.status, (await client.read_body()).data) == (200, b"ok")
        assert [request.body for request in on.spec.requests] == [body, body]
        for name in (b"upgrade", b"http2-settings", b"connection", b"x-trailer"):
            assert on.spec.requests[0].values(name) == []


@pytest.mark.parametrize("path", [CHAT, b"/v1/files"])
async def test_p02_request_trailers(path: bytes):
    """Trailers were appended to the headers, and acted as such."""
    trailers = b"Authorization: Bearer x\r\nX-Specgate-Lane: spec\r\nContent-Type: evil\r\n"
    body = chat()
    coded = chunked(body[:9], body[9:])[:-2] + trailers + b"\r\n"
    plain = request_bytes(b"POST", path, [JSON], body)
    async with stage() as on, connect(on.url) as client:
        lane = on.spec if path == CHAT else on.plain
        lane.answer_next(response(200, b"1"), response(200, b"2"))
        await client.send(request_bytes(b"POST", path, [JSON, CHUNKED], coded) + plain)
        for number in (b"1", b"2"):
            await client.read_head()
            assert (await client.read_body()).data == number
        for request in lane.requests:
            assert request.body == body
            assert request.values(b"authorization") == []
            assert request.values(b"content-type") == [JSON[1]]
            assert b"evil" not in request.raw_head + request.raw_body


async def test_p03_client_that_stops_reading():
    """A zero window held the request's place for ever. More in tests/live/test_client_time.py."""
    big = chunk(delta("x" * 100_000))
    async with stage(send_timeout_s=0.5) as on, connect(on.url, receive_buffer=4096) as client:
        on.spec.answer_next([Send(sse_head()), *[Send(big)] * 200, Silent()])
        await client.send(chat_request())
        await client.read_head()
        client.stop_reading()
        await on.spec.saw_close(within_s=3)
        assert (await on.ended()).outcome is Outcome.CLIENT_STALLED
        assert await on.sample("specgate_client_stalls_total") == 1


async def test_p05_target_names_and_reason_are_kept():
    """What ASGI has no place for."""
    names = [(b"X-UPPER", b"1"), (b"x-Mixed", b"2"), (b"X-upper", b"3")]
    loud = b"X-LOUD: 1\r\nx-Quiet: 2\r\nX-Loud: 3\r\n"
    answer = b"HTTP/1.1 200 Fine By Me\r\n" + loud + b"content-length: 0\r\n\r\n"
    async with stage() as on, connect(on.url) as client:
        on.plain.answer_next(Send(answer), Send(answer.replace(b" Fine By Me", b"")))
        for reason in (b"HTTP/1.1 200 Fine By Me", b"HTTP/1.1 200 OK"):
            reply = await client.request(b"GET", b"/v1/thing?#frag", names)
            assert reply.status_line == reason
            kept = [(b"X-LOUD", b"1"), (b"x-Quiet", b"2"), (b"X-Loud", b"3")]
            assert reply.headers[:3] == kept
        (request, _) = on.plain.requests
        assert request.target == b"/v1/thing?#frag"
        assert [pair for pair in request.headers if pair in names] == names


async def test_p05_response_trailers_are_kept():
    """ASGI's extension for them is in no server's httptools protocol."""
    script = [Send(sse_head() + chunk(b"a") + b"0\r\nX-Sum: 1\r\n\r\n")]
    async with stage() as on, connect(on.url) as client:
        on.plain.answer_next(script)
        await client.send(request_bytes(b"GET", b"/v1/thing"))
        await client.read_head()
        assert await client.read_until(b"\r\n\r\n") == b"1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n"


async def test_p05_old_clients_get_no_chunks():
    """HTTP/1.0 clients got chunked framing. More in tests/live/test_pipelining.py."""
    async with stage() as on, connect(on.url) as client:
        on.spec.answer_next(sse_response([delta("a")]))
        await client.send(chat_request().replace(b"HTTP/1.1", b"HTTP/1.0"))
        await client.read_head()
        body = await client.read_body()
        assert (body.data, body.ending) == (delta("a"), "close")


async def test_p05_methods_and_bytes_that_the_parser_does_not_know():
    """Known limits, of llhttp: a method that is not on its list, and bytes above 127 in a target,
    which RFC 3986 has no place for, are refused."""
    async with stage() as on:
        await refused(on, b"FROB /v1/thing HTTP/1.1\r\nHost: h\r\n\r\n")
        await refused(on, "GET /v1/é HTTP/1.1\r\nHost: h\r\n\r\n".encode())


async def test_p05_heads_are_bounded():
    """A head of 5 MB was taken, and one that never ends waited for ever."""
    head = b"GET / HTTP/1.1\r\nHost: h\r\nX: "
    async with stage(head_timeout_s=0.3) as on:
        await refused(on, head + b"x" * 5_000_000 + b"\r\n\r\n", 431, "head_too_large")
        async with connect(on.url) as client:
            await client.send(head)
            await read_refusal(client, 408, "slow_head")
