"""Cases B: framing and bodies on the wire, through the whole gate.

Each runs over both upstreams where the upstream has a part in it. What the portable one, httpx,
cannot: an answer that comes before the end of a body waits for it (B07 c).

Not here: B02, as the gate alters no body and no length can go stale.
"""

import asyncio
import gzip
import json
import os
from collections.abc import Iterable
from typing import Any

import pytest

from specgate.core.events import Outcome
from tests.support.client import CHAT, JSON, chat, chunked, connect, request_bytes
from tests.support.invariants import rss_mb
from tests.support.lanes import (
    Connection,
    DontReadBody,
    Fin,
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
CHUNKED = (b"Transfer-Encoding", b"chunked")
GZIPPED = gzip.compress(b'{"text": "' + b"hello " * 100 + b'"}')


@UPSTREAMS
@pytest.mark.parametrize("asked", [True, False], ids=["asked for", "not asked for"])
async def test_b01_gzip_header_after_auto_decompress(upstream: str, asked: bool):
    """The client library had decoded the body, and its Content-Encoding stayed."""
    headers = [(b"content-encoding", b"gzip"), (b"content-type", b"application/json")]
    accepts = [(b"Accept-Encoding", b"gzip;q=0.5, br")] if asked else []
    async with stage(upstream=upstream) as on:
        on.spec.answer_next(response(200, GZIPPED, headers))
        reply = await on.ask(b"POST", CHAT, [JSON, *accepts], chat())
        assert reply.body.data == GZIPPED
        assert reply.values(b"content-encoding") == [b"gzip"]
        assert reply.values(b"content-length") == [b"%d" % len(GZIPPED)]
        (request,) = on.spec.requests
        assert request.values(b"accept-encoding") == [value for _, value in accepts]


@UPSTREAMS
async def test_b03_length_and_chunked_both_present(upstream: str):
    """A length was copied, and a coding added beside it."""
    body = b'{"text": "hello"}'
    async with stage(upstream=upstream) as on, connect(on.url) as client:
        on.spec.answer_next(
            response(200, body, [JSON]),
            [Send(head(200, [JSON, CHUNKED]) + chunked(body[:3], body[3:]))],
            [Send(head(200, [JSON, (b"connection", b"close")]) + body), Fin()],
        )
        framing = []
        for _ in range(3):
            reply = await client.request(b"POST", CHAT, [JSON], chat())
            assert reply.body.data == body
            assert reply.body.clean
            framing.append((reply.values(b"content-length"), reply.values(b"transfer-encoding")))
        assert framing == [([b"%d" % len(body)], []), ([], [b"chunked"]), ([], [b"chunked"])]


@UPSTREAMS
async def test_b04_upstream_sends_less_than_declared(upstream: str):
    """The client took a short body for a whole one."""
    short = head(200, [(b"content-length", b"100")]) + b"x" * 80
    async with stage(upstream=upstream) as on:
        for how in (Fin(), Rst()):
            on.spec.answer_next([Send(short), how])
            reply = await on.ask()
            assert reply.body.data == b"x" * 80
            assert not reply.body.clean
        assert (await on.ended(2)).outcome is Outcome.LANE_FAILED
        assert (await on.ask()).body.clean


@UPSTREAMS
async def test_b04_upstream_sends_more_than_declared(upstream: str):
    """The rest of one response was the beginning of the next."""
    evil = response(200, b"not yours").data
    async with stage(upstream=upstream) as on, connect(on.url) as client:
        for extra in (b"x" * 20, evil, b"\r\n" + evil):
            on.spec.answer_next(Send(head(200, [(b"content-length", b"80")]) + b"x" * 80 + extra))
            reply = await client.request(b"POST", CHAT, [JSON], chat())
            assert reply.body.data == b"x" * 80
            assert reply.body.clean
            # The connection may still be used below us: the next bytes are an own response's.
            on.spec.answer_next(response(200, b"mine"))
            reply = await client.request(b"POST", CHAT, [JSON], chat())
            assert reply.body.data == b"mine"
        numbers = [request.number for request in on.spec.requests]
        if upstream == "httpx":
            assert numbers == [1] * 6, "each has a connection of its own"
        else:
            assert numbers == [1, 1, 2, 1, 2, 1], "a connection with too much on it is left"


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
AMBIGUOUS: dict[str, tuple[list[tuple[bytes, bytes]], bytes]] = {
    "length and chunks": ([(b"Content-Length", b"5"), CHUNKED], chunked(b"hello")),
    "chunks and length": ([CHUNKED, (b"Content-Length", b"0")], chunked(b"hello") + SMUGGLED),
    "two lengths": ([(b"Content-Length", b"5"), (b"Content-Length", b"6")], b"hello!"),
    "a list of lengths": ([(b"Content-Length", b"5, 5")], b"hello"),
    "length with a sign": ([(b"Content-Length", b"+5")], b"hello"),
    "length in hex": ([(b"Content-Length", b"0x5")], b"hello"),
    "xchunked": ([(b"Transfer-Encoding", b"xchunked")], chunked(b"hello")),
    "chunked, identity": ([(b"Transfer-Encoding", b"chunked, identity")], chunked(b"hello")),
    "gzip, chunked": ([(b"Transfer-Encoding", b"gzip, chunked")], chunked(b"hello")),
    "two codings": ([CHUNKED, (b"Transfer-Encoding", b"identity")], chunked(b"hello")),
    "vertical tab": ([(b"Transfer-Encoding", b"\x0bchunked")], chunked(b"hello")),
    "space before the colon": ([(b"Transfer-Encoding ", b"chunked")], chunked(b"hello")),
    "nul in a value": ([(b"X", b"a\x00b"), CHUNKED], chunked(b"hello")),
    "obs-fold": ([(b"X", b"a\r\n Content-Length: 9"), CHUNKED], chunked(b"hello")),
    "chunk size with junk": ([CHUNKED], b"5 x\r\nhello\r\n0\r\n\r\n"),
    "chunk size with a sign": ([CHUNKED], b"+5\r\nhello\r\n0\r\n\r\n"),
    "chunk size in 0x": ([CHUNKED], b"0x5\r\nhello\r\n0\r\n\r\n"),
    "chunk size overflows": ([CHUNKED], b"10000000000000005\r\nhello\r\n0\r\n\r\n"),
    "bare LF after the size": ([CHUNKED], b"5\nhello\r\n0\r\n\r\n"),
    "bare LF after the data": ([CHUNKED], b"5\r\nhello\n0\r\n\r\n"),
    "bare LF at the end": ([CHUNKED], b"5\r\nhello\r\n0\r\n\n" + SMUGGLED),
    "data longer than its size": ([CHUNKED], b"3\r\nhello\r\n0\r\n\r\n"),
    "bare CR": ([(b"X", b"a\rContent-Length: 9"), CHUNKED], chunked(b"hello")),
}


@pytest.mark.parametrize("path", [CHAT, b"/v1/files"], ids=["read ahead", "passed on"])
async def test_b05_request_smuggling(path: bytes):
    """Two readers of one request saw two different ends of it."""
    async with stage() as on:
        for which, (headers, body) in AMBIGUOUS.items():
            on.spec.requests.clear()
            on.plain.requests.clear()
            async with connect(on.url) as client:
                await client.send(request_bytes(b"POST", path, headers) + body)
                await client.read_head()
                assert client.status == 400, which
                assert await client.ended() in ("fin", "reset"), which
            await asyncio.sleep(0.005)
            seen = on.spec.requests + on.plain.requests
            assert len(seen) <= 1, f"{which}: none, or one that was refused within its body"
            assert not any(request.complete for request in seen), which
            assert not any(b"smuggled" in request.target for request in seen), which


@UPSTREAMS
async def test_b06_compressed_request_body(upstream: str):
    """A body that is not JSON to us yet is none of our business."""
    body = gzip.compress(chat())
    async with stage(upstream=upstream) as on:
        reply = await on.ask(b"POST", CHAT, [JSON, (b"Content-Encoding", b"gzip")], body)
        assert reply.status == 400, "the scripted engine's own word"
        (request,) = on.spec.requests
        assert request.body == body
        assert request.values(b"content-encoding") == [b"gzip"]
        assert request.values(b"content-length") == [b"%d" % len(body)]


@UPSTREAMS
@pytest.mark.parametrize("engine", ["says 100", "does not"])
async def test_b07_expect_100_continue(upstream: str, engine: str):
    """A client held its body back for a second, or for ever."""
    body = chat(pad="x" * 2_000_000)

    async def says(request: Request, connection: Connection) -> None:
        if engine == "says 100":
            await connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        await connection.read_body()
        await connection.perform(response(200, b"done"))

    async with stage(upstream=upstream) as on, connect(on.url) as client:
        on.spec.answer_next([DontReadBody(), says])
        expect = (b"Expect", b"100-continue")
        length = (b"Content-Length", b"%d" % len(body))
        begun = asyncio.get_running_loop().time()
        await client.send(request_bytes(b"POST", CHAT, [JSON, expect, length]))
        line, _ = await client.read_head()
        assert line == b"HTTP/1.1 100 Continue"
        assert asyncio.get_running_loop().time() - begun < 0.5
        await client.send(body)
        await client.read_head()
        assert (client.status, (await client.read_body()).data) == (200, b"done")
        assert on.spec.requests[0].values(b"expect") == []
        assert on.spec.requests[0].body == body


async def test_b07_refusal_in_place_of_a_continue():
    """(c) An engine that answers 413 at once: it reaches the client, which stops sending."""
    refusal = json_response(413, {"error": {"message": "too large"}}, [(b"connection", b"close")])
    length = (b"Content-Length", b"50000000")
    async with stage() as on, connect(on.url) as client:
        on.spec.answer_next([DontReadBody(), refusal])
        expect = (b"Expect", b"100-continue")
        await client.send(request_bytes(b"POST", CHAT, [JSON, expect, length]))
        await client.read_until(b"\r\n\r\n")
        await client.send(b"x" * 300_000)
        await client.read_head()
        assert client.status == 413
        assert json.loads((await client.read_body()).data) == {"error": {"message": "too large"}}


@UPSTREAMS
async def test_b08_bodyless_responses(upstream: str):
    """204 and 304 got a chunked coding, or a stray chunk before the next response."""
    async with stage(upstream=upstream) as on, connect(on.url) as client:
        on.plain.answer_next(
            Send(head(204)),
            Send(head(304, [(b"etag", b'"x"'), (b"content-length", b"500")])),
            response(404),
            Send(head(200, [(b"content-length", b"500")])),
            response(200, b"ok"),
        )
        for status, method in ((204, b"GET"), (304, b"GET"), (404, b"GET"), (200, b"HEAD")):
            await client.send(request_bytes(method, b"/v1/thing"))
            await client.read_head()
            names = {name.lower() for name, _ in client.headers}
            assert client.status == status
            assert b"transfer-encoding" not in names
        reply = await client.request(b"GET", b"/v1/thing")
        assert (reply.status, reply.body.data) == (200, b"ok")


LARGE = 40_000_000


@pytest.mark.slow
@UPSTREAMS
@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_b09_large_bodies(upstream: str, framing: str):
    """Small default caps killed multimodal; and memory held one body several times over."""
    body = b'{"image": "' + b"A" * LARGE + b'"}'
    async with stage(upstream=upstream) as on, connect(on.url) as client:
        counted = 0

        async def counts(request: Request, connection: Connection) -> None:
            nonlocal counted
            end = b"0\r\n\r\n" if framing == "chunked" else b'A"}'
            tail = b""
            while not tail.endswith(end):
                piece = await connection.reader.read(65536)
                counted += len(piece)
                tail = (tail + piece)[-8:]
            request.complete = True
            await connection.perform(response(200, b"ok"))

        on.spec.answer_next([DontReadBody(), counts])
        before = rss_mb()
        if framing == "length":
            await client.send(request_bytes(b"POST", CHAT, [JSON], body))
        else:
            await client.send(request_bytes(b"POST", CHAT, [JSON, CHUNKED]))
            for at in range(0, len(body), 1_000_000):
                piece = body[at : at + 1_000_000]
                await client.send(b"%x\r\n%b\r\n" % (len(piece), piece))
            await client.send(b"0\r\n\r\n")
        await client.read_head()
        assert client.status == 200
        assert counted >= len(body)
        # The client's own copies are within this process too.
        assert rss_mb() - before < 2.5 * LARGE / 2**20


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_b09_limit_is_the_same_for_both_framings(framing: str):
    """The cap was skipped for chunked uploads, or had another status."""

    async def sent(on: Stage, size: int) -> Any:
        if framing == "length":
            return await on.ask(b"POST", CHAT, [JSON], b"x" * size)
        pieces = [b"x" * min(1000, size - at) for at in range(0, size, 1000)]
        return await on.ask(b"POST", CHAT, [JSON, CHUNKED], chunked(*pieces))

    async with stage(body_limit=10_000) as on:
        on.spec.answer("*", response(200, b"ok"))
        assert (await sent(on, 10_000)).status == 200
        reply = await sent(on, 10_001)
        assert reply.status == 413
        error = json.loads(reply.body.data)["error"]
        assert {"message", "type", "code"} <= error.keys()
        assert len(on.spec.requests) == 1


ODD: dict[str, bytes] = {
    "empty": b"",
    "list": b"[]",
    "text": b'"x"',
    "open": b"{",
    "null": b"null",
    "NaN": b'{"n": NaN}',
    "deep": b"[" * 100_000,
    "deep in a field": b'{"prompt": ' + b"[" * 100_000,
    "duplicate keys": b'{"n": 1, "n": 2, "stream": false, "stream": true}',
    "utf-16": '{"n": 1}'.encode("utf-16"),
    "bom": b'\xef\xbb\xbf{"n": 1}',
    "lone surrogate": b'{"prompt": "\\ud800"}',
    "bad utf-8": b'{"prompt": "\xff\xfe"}',
    "n is absurd": b'{"n": 99999999999999999999999999}',
    "n is text": b'{"n": "many"}',
}


async def test_b10_malformed_or_odd_json():
    """A body that the proxy could not read was a 500, and left the count up."""
    async with stage() as on, connect(on.url) as client:
        on.spec.answer("*", response(400, b"the engine's word"))
        for which, body in ODD.items():
            reply = await client.request(b"POST", CHAT, [JSON], body)
            assert (reply.status, reply.body.data) == (400, b"the engine's word"), which
            assert on.spec.requests[-1].body == body, which


@UPSTREAMS
async def test_b11_body_changed_by_reencoding(upstream: str):
    """Parsed and dumped again: white space, numbers, order and unknown keys were lost."""
    body = (
        b'{ "z":1e400,\t"a" : 12345678901234567890, "one": 1.0,\r\n "u": "\\u00e4\\/\xc3\xa4",'
        b' "unknown": {"b":[ ] , "a":-0.0}, "n":1,"n": 1 }\n'
    )
    async with stage(upstream=upstream) as on:
        on.spec.answer_next(response(200, b"ok"))
        assert (await on.ask(b"POST", CHAT, [JSON], body)).status == 200
        assert on.spec.requests[0].body == body


@UPSTREAMS
async def test_b12_empty_post(upstream: str):
    """It went up with a chunked coding, or with no framing at all."""
    lengths: Iterable[list[tuple[bytes, bytes]]] = ([], [(b"Content-Length", b"0")])
    async with stage(upstream=upstream, engine_admin="both") as on, connect(on.url) as client:
        for headers in lengths:
            on.spec.answer_next(response(200, b"flushed"))
            on.plain.answer_next(response(200, b"flushed"))
            reply = await client.request(b"POST", b"/flush_cache", headers)
            assert reply.body.data == b"flushed"
        assert on.spec.requests_total == on.plain.requests_total == 2
        for request in (*on.spec.requests, *on.plain.requests):
            assert request.values(b"content-length") == [b"0"]
            assert request.values(b"transfer-encoding") == []
            assert request.raw_body == b""


@UPSTREAMS
async def test_bodies_are_the_same_bytes_both_ways(upstream: str):
    """Any bytes, in pieces of any size, of any framing."""
    up, down = os.urandom(300_000), os.urandom(300_000)
    async with stage(upstream=upstream) as on:
        pieces = [down[at : at + 7001] for at in range(0, len(down), 7001)]
        on.spec.answer_next(sse_response(pieces), response(200, down))
        for _ in range(2):
            reply = await on.ask(b"POST", CHAT, [JSON], up)
            assert reply.body.data == down
            assert reply.body.clean
        assert [request.body for request in on.spec.requests] == [up, up]
