"""A response on its way down: framing kept, no stray byte, and no faster than its reader."""

import asyncio
import itertools

import pytest

from specgate.core.events import Outcome
from tests.support.client import CHAT, JSON, chat, chat_request, connect
from tests.support.invariants import rss_mb
from tests.support.lanes import (
    DONE,
    Connection,
    Request,
    Send,
    chunk,
    delta,
    head,
    json_response,
    response,
    sse_head,
    sse_response,
)
from tests.support.stage import stage

pytestmark = pytest.mark.usefixtures("form")

FRAMING = (b"content-length", b"transfer-encoding")


async def test_stream_passes_chunk_by_chunk():
    frames = [delta("a"), delta("b"), DONE]
    async with stage() as on:
        on.spec.answer_next(sse_response(frames, pause_s=0.02))
        reply = await on.ask()
        assert [piece for _, piece in reply.body.pieces] == frames
        assert reply.body.ending == "chunked"
        assert reply.values(b"content-length") == []
        assert (await on.ended()).outcome is Outcome.COMPLETED


async def test_length_is_kept():
    body = b"x" * 300_000
    async with stage() as on:
        on.spec.answer_next(response(200, body, [(b"content-type", b"text/plain")]))
        reply = await on.ask()
        assert reply.values(b"content-length") == [b"300000"]
        assert reply.values(b"transfer-encoding") == []
        assert reply.body.data == body


async def test_head_has_the_length_and_no_body():
    async with stage() as on, connect(on.url) as client:
        on.plain.answer_next(
            Send(head(200, [(b"content-length", b"500")])),
            Send(head(200, [(b"transfer-encoding", b"chunked")])),
            response(200, b"after"),
        )
        async with asyncio.timeout(1):
            reply = await client.request(b"HEAD", b"/v1/thing")
            assert reply.values(b"content-length") == [b"500"]
            assert (await client.request(b"HEAD", b"/v1/thing")).status == 200
            assert (await client.request(b"GET", b"/v1/thing")).body.data == b"after"
        assert [request.method for request in on.plain.requests] == [b"HEAD", b"HEAD", b"GET"]


async def test_response_that_has_no_body():
    async with stage() as on, connect(on.url) as client:
        for status in (204, 304):
            on.plain.answer_next(Send(head(status, [(b"etag", b'"1"')])), response(200, b"after"))
            reply = await client.request(b"GET", b"/v1/thing")
            assert (reply.status, reply.values(b"etag")) == (status, [b'"1"'])
            assert not any(reply.values(name) for name in FRAMING)
            assert (await client.request(b"GET", b"/v1/thing")).body.data == b"after"


async def test_304_may_tell_the_length_of_what_it_does_not_send():
    async with stage() as on, connect(on.url) as client:
        on.plain.answer_next(Send(head(304, [(b"content-length", b"100")])), response(200, b"x"))
        assert (await client.request(b"GET", b"/v1/thing")).status == 304
        assert (await client.request(b"GET", b"/v1/thing")).body.data == b"x"
        assert (await on.ended()).outcome is Outcome.COMPLETED


async def test_empty_body_with_a_length_of_zero():
    async with stage() as on, connect(on.url) as client:
        for status in (200, 404, 500):
            on.spec.answer_next(response(status), response(200, b"after"))
            reply = await client.request(b"POST", CHAT, [JSON], chat())
            assert (reply.status, reply.values(b"content-length")) == (status, [b"0"])
            assert reply.values(b"transfer-encoding") == []
            assert (await client.request(b"POST", CHAT, [JSON], chat())).body.data == b"after"


async def test_headers_pass_in_order_with_their_duplicates():
    pairs = [(b"set-cookie", b"a=1; Path=/"), (b"x-b", b"2"), (b"set-cookie", b"c=3")]
    async with stage() as on:
        on.spec.answer_next(json_response(200, {}, pairs))
        reply = await on.ask()
        assert [pair for pair in reply.headers if pair in pairs] == pairs
        await on.ask()
        assert on.spec.requests[1].values(b"cookie") == [], "the gate keeps no cookies"


async def test_status_is_the_engines():
    headers = [(b"location", b"http://elsewhere/x"), (b"www-authenticate", b"Bearer")]
    async with stage() as on:
        for status in (301, 307, 401, 429, 503):
            on.spec.answer_next(json_response(status, {"detail": "as it is"}, headers))
            reply = await on.ask()
            assert reply.status == status
            assert reply.body.data == b'{"detail": "as it is"}'
            assert set(headers) <= set(reply.headers)
        assert on.plain.requests == []


async def test_compressed_body_stays_compressed():
    packed = b"\x1f\x8b not really gzip \x00\xff"
    async with stage() as on:
        on.spec.answer_next(response(200, packed, [JSON, (b"content-encoding", b"gzip")]))
        reply = await on.ask()
        assert reply.values(b"content-encoding") == [b"gzip"]
        assert reply.body.data == packed
        assert on.spec.requests[0].values(b"accept-encoding") == []


async def test_client_that_does_not_read_stops_the_lane():
    """What is on the way fills the kernel's buffers and a bounded rest; the gate holds no more."""
    sent = 0

    async def flood(_request: Request, connection: Connection) -> None:
        nonlocal sent
        await connection.send(sse_head())
        for number in itertools.count():
            piece = chunk(delta(f"{number} " + "x" * 65536))
            await connection.send(piece)
            sent += len(piece)

    async with stage() as on:
        on.spec.answer_next(flood)
        async with connect(on.url, receive_buffer=4096) as client:
            await client.send(chat_request())
            await client.read_head()
            client.stop_reading()
            before = rss_mb()
            await _comes_to_a_stop(lambda: sent)
            assert sent < 32_000_000
            assert rss_mb() - before < 32
            assert (await on.gate.status())["in_flight"]["spec"] == 1
            client.rst()
        await on.spec.saw_close()
        assert (await on.ended()).outcome is Outcome.CLIENT_GONE


async def _comes_to_a_stop(count) -> None:
    """Wait until a count that grows grows no more."""
    async with asyncio.timeout(10):
        last = -1
        while last != count() or not last:
            last = count()
            await asyncio.sleep(0.3)


async def test_client_that_reads_slowly_gets_everything():
    frames = [delta(f"{number} " + "x" * 100_000) for number in range(40)]
    async with stage() as on:
        on.spec.answer_next(sse_response(frames))
        async with connect(on.url, receive_buffer=4096) as client:
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await client.send(chat_request())
            await asyncio.sleep(0.3)
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]
            await client.read_head()
            body = await client.read_body()
        assert body.data == b"".join(frames)
        assert body.clean
