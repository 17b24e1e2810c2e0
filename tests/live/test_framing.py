"""What a client sends is read in one way or not at all: nothing ambiguous reaches a lane."""

import asyncio

import pytest

from specgate.core.events import Outcome, RequestEnded
from specgate.proxy.head import HEAD_LIMIT
from tests.support.client import CHAT, chat, chat_request, connect, request_bytes
from tests.support.lanes import response
from tests.support.refusals import read_refusal, refused
from tests.support.stage import stage

GET = b"GET /v1/thing HTTP/1.1\r\nHost: h\r\n\r\n"

HEADS = {
    "bare line feed after the request line": b"GET / HTTP/1.1\nHost: h\r\n\r\n",
    "bare line feed after a header": b"GET / HTTP/1.1\r\nHost: h\n\r\n",
    "bare line feed at the end": b"GET / HTTP/1.1\r\nHost: h\r\n\n",
    "folded header": b"GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n",
    "blank before the first header": b"GET / HTTP/1.1\r\n Host: h\r\n\r\n",
    "NUL in a value": b"GET / HTTP/1.1\r\nHost: h\r\nA: b\0c\r\n\r\n",
    "NUL in a target": b"GET /a\0b HTTP/1.1\r\nHost: h\r\n\r\n",
    "NUL in a name": b"GET / HTTP/1.1\r\nHost: h\r\nA\0: b\r\n\r\n",
    "carriage return in a value": b"GET / HTTP/1.1\r\nHost: h\r\nA: b\rc\r\n\r\n",
    "control character in a value": b"GET / HTTP/1.1\r\nHost: h\r\nA: b\x01\r\n\r\n",
    "blank before the colon": b"GET / HTTP/1.1\r\nHost : h\r\n\r\n",
    "no colon": b"GET / HTTP/1.1\r\nHost\r\n\r\n",
    "no name": b"GET / HTTP/1.1\r\n: h\r\n\r\n",
    "no Host": b"GET / HTTP/1.1\r\nA: b\r\n\r\n",
    "second Host": b"GET / HTTP/1.1\r\nHost: h\r\nhost: h\r\n\r\n",
    "method in small letters": b"get / HTTP/1.1\r\nHost: h\r\n\r\n",
    "very long method": b"A" * 100_000 + b" / HTTP/1.1\r\nHost: h\r\n\r\n",
    "unknown method": b"FROB / HTTP/1.1\r\nHost: h\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0",
    "TLS": b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + b"\xaa" * 200,
    "target that is no path": b"GET v1/thing HTTP/1.1\r\nHost: h\r\n\r\n",
    "blank in a target": b"GET /a b HTTP/1.1\r\nHost: h\r\n\r\n",
    "tab in a target": b"GET /a\tb HTTP/1.1\r\nHost: h\r\n\r\n",
    "asterisk of no OPTIONS": b"GET * HTTP/1.1\r\nHost: h\r\n\r\n",
    "asterisk before a path": b"OPTIONS */x HTTP/1.1\r\nHost: h\r\n\r\n",
}

POST = b"POST /v1/files HTTP/1.1\r\nHost: h\r\n"
FRAMINGS = {
    "length and chunks": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "the same length twice": b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "list of lengths": b"Content-Length: 5, 5\r\n\r\nhello",
    "length with a sign": b"Content-Length: +5\r\n\r\nhello",
    "negative length": b"Content-Length: -5\r\n\r\nhello",
    "hexadecimal length": b"Content-Length: 0x5\r\n\r\nhello",
    "length with an underscore": b"Content-Length: 1_0\r\n\r\nhellohello",
    "empty length": b"Content-Length:\r\n\r\n",
    "length beyond 64 bits": b"Content-Length: 18446744073709551621\r\n\r\nhello",
    "length of many digits": b"Content-Length: " + b"0" * 5000 + b"5\r\n\r\nhello",
    "coding that is like chunked": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked and another": b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "chunked twice": b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "two codings": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "chunked with a parameter": b"Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n",
    "quoted chunked": b'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n',
    "vertical tab before chunked": b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    "empty coding": b"Transfer-Encoding:\r\n\r\n",
    "identity": b"Transfer-Encoding: identity\r\n\r\n",
    "coding under the chunks": b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "empty element before chunked": b"Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n",
}

CHUNKS = {
    "junk in a size": b"3x\r\nabc\r\n0\r\n\r\n",
    "negative size": b"-3\r\nabc\r\n0\r\n\r\n",
    "size with a sign": b"+3\r\nabc\r\n0\r\n\r\n",
    "size with a prefix": b"0x3\r\nabc\r\n0\r\n\r\n",
    "size beyond 64 bits": b"10000000000000003\r\nabc\r\n0\r\n\r\n",
    "no size": b"\r\nabc\r\n0\r\n\r\n",
    "blank before a size": b" 3\r\nabc\r\n0\r\n\r\n",
    "blank after a size": b"3 \r\nabc\r\n0\r\n\r\n",
    "bare line feed after a size": b"3\nabc\r\n0\r\n\r\n",
    "bare line feed after the data": b"3\r\nabc\n0\r\n\r\n",
    "bare line feed after the last size": b"3\r\nabc\r\n0\n\r\n",
    "bare line feed at the end": b"3\r\nabc\r\n0\r\n\n",
    "data that is longer": b"3\r\nabcd\r\n0\r\n\r\n",
    "nothing after the data": b"3\r\nabc0\r\n\r\n",
    "carriage return in an extension": b"3;a\rx\r\nabc\r\n0\r\n\r\n",
    "bare line feed after an extension": b"3;a\nabc\r\n0\r\n\r\n",
    "NUL in an extension": b"3;a\0\r\nabc\r\n0\r\n\r\n",
    "line break in a quoted extension": b'3;a="x\r\ny"\r\nabc\r\n0\r\n\r\n',
    "length in a trailer": b"0\r\nContent-Length: 5\r\n\r\n",
    "coding in a trailer": b"0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "folded trailer": b"0\r\nA: b\r\n c\r\n\r\n",
}


async def test_heads_that_can_be_read_in_two_ways_are_refused():
    async with stage() as on:
        for name, raw in HEADS.items():
            try:
                await refused(on, raw + GET)
            except BaseException as error:
                error.add_note(name)
                raise
        ended = on.gate.facts.of(RequestEnded)
        assert len(ended) == len(HEADS)
        assert {fact.outcome for fact in ended} == {Outcome.REFUSED}


async def test_versions_that_are_not_1_0_or_1_1_are_refused():
    async with stage() as on:
        for head in (
            b"GET /\r\n\r\n",
            b"GET / HTTP/0.9\r\nHost: h\r\n\r\n",
            b"GET / HTTP/2.0\r\nHost: h\r\n\r\n",
        ):
            await refused(on, head, 505, "version_refused")
        await refused(on, b"GET / HTTP/1.2\r\nHost: h\r\n\r\n")
        await refused(on, b"GET / HTTP/11\r\nHost: h\r\n\r\n")


@pytest.mark.parametrize("size", [100_000, 37], ids=["at-once", "in-pieces"])
async def test_framing_that_can_be_read_in_two_ways_is_refused(size: int):
    async with stage() as on:
        for name, raw in FRAMINGS.items():
            whole = POST + raw + GET
            try:
                async with connect(on.url) as client:
                    for at in range(0, len(whole), size):
                        await client.send(whole[at : at + size])
                        await asyncio.sleep(0)
                    await read_refusal(client, 400, "bad_http")
                assert on.plain.requests == []
            except BaseException as error:
                error.add_note(name)
                raise


async def test_chunks_of_http_1_0_are_refused():
    """RFC 9112 §6.1: a sender that knows no chunks may have forwarded the field as it was."""
    old = POST.replace(b"1.1", b"1.0")
    async with stage() as on:
        for connection in (b"", b"Connection: keep-alive\r\n"):
            chunked = connection + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            await refused(on, old + chunked + GET)


@pytest.mark.parametrize("target", [CHAT, b"/v1/files"], ids=["generation", "other"])
async def test_chunks_that_can_be_read_in_two_ways_are_refused(target: bytes):
    head = request_bytes(b"POST", target, [(b"Transfer-Encoding", b"chunked")])
    async with stage() as on:
        for name, raw in CHUNKS.items():
            try:
                await refused(on, head + raw + GET)
            except BaseException as error:
                error.add_note(name)
                raise


async def test_bad_chunk_in_mid_upload_ends_the_upload():
    """The lane has the beginning by then; it must not take it for the whole."""
    head = request_bytes(b"POST", b"/v1/files", [(b"Transfer-Encoding", b"chunked")])
    async with stage() as on, connect(on.url) as client:
        on.plain.answer_next(response(200, b"ok"))
        await client.send(head + b"3\r\nabc\r\n")
        (request,) = await on.plain.saw_requests()
        async with asyncio.timeout(2):
            while request.body != b"abc":
                await asyncio.sleep(0.01)
        await client.send(b"zz\r\n" + GET)
        await read_refusal(client, 400, "bad_http")
        await on.plain.saw_close()
        assert not request.complete
        assert len(on.plain.requests) == 1
        assert (await on.ended()).outcome is Outcome.REFUSED


async def test_floods_beside_a_body_are_refused():
    """What the parser passes over, or gathers, without end: extensions, trailers, one trailer."""
    head = request_bytes(b"POST", CHAT, [(b"Transfer-Encoding", b"chunked")])
    flood = HEAD_LIMIT + 300_000
    floods = {
        "extension": b"3;" + b"a" * flood,
        "zeros of a size": b"0" * flood,
        "trailers": b"0\r\n" + b"a: b\r\n" * (flood // 6),
        "trailer": b"0\r\na: " + b"b" * flood,
    }
    async with stage() as on:
        for raw in floods.values():
            await refused(on, head + raw, 431, "head_too_large")


async def test_extensions_and_trailers_of_a_good_body_end_here():
    body = chat()
    chunks = b'%x;a=b;c="d e"\r\n%b\r\n0;last\r\nX-Trailer: 1\r\nHost: evil\r\n\r\n'
    head = request_bytes(b"POST", CHAT, [(b"Transfer-Encoding", b"Chunked")])
    async with stage() as on, connect(on.url) as client:
        for _ in range(2):
            await client.send(head + chunks % (len(body), body))
            await client.read_head()
            assert client.status == 200
            assert (await client.read_body()).clean
        for request in on.spec.requests:
            assert request.body == body
            assert request.raw_body.endswith(b"\r\n0\r\n\r\n")
            assert b"railer" not in request.raw_head + request.raw_body


async def test_line_breaks_before_a_request_are_passed_over():
    """RFC 9112 §2.2: some clients end a body with one too many."""
    async with stage() as on, connect(on.url) as client:
        for _ in range(2):
            await client.send(b"\r\n\r\n" + chat_request())
            await client.read_head()
            assert (await client.read_body()).clean
    assert len(on.spec.requests) == 2


async def test_data_after_the_last_request_is_nobodys():
    """`Connection: close` was the client's last word."""
    last = request_bytes(b"GET", b"/v1/thing", [(b"Connection", b"close")])
    async with stage() as on, connect(on.url) as client:
        on.plain.answer_next(response(200, b"one"))
        await client.send(last + GET)
        await client.read_head()
        assert (await client.read_body()).data == b"one"
        assert await client.ended() == "fin"
        assert len(on.plain.requests) == 1


async def test_absolute_targets_lose_their_host_and_nothing_else():
    targets = {
        b"http://evil.example/v1/thing?a=/b": b"/v1/thing?a=/b",
        b"http://evil.example": b"/",
        b"http://evil.example?x=1/2": b"/?x=1/2",
        b"HTTP://u:p@evil.example:80/a%2Fb": b"/a%2Fb",
    }
    async with stage() as on, connect(on.url) as client:
        for target, asked in targets.items():
            on.plain.answer_next(response(200, b"ok"))
            assert (await client.request(b"GET", target)).status == 200
            assert on.plain.requests[-1].target == asked
            assert on.plain.requests[-1].values(b"host") == [on.plain.url[7:].encode()]
        own = await client.request(b"GET", b"http://evil.example/livez")
        assert own.status == 200
        assert len(on.plain.requests) == len(targets)
