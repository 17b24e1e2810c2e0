"""The contract of an upstream: heads and bodies of proper engines, of any framing."""

import asyncio

import pytest

from specgate.core.lanes import Lane
from specgate.upstream.base import Request, Upstream
from tests.contract.asking import HOST, OK, Collect, ask, get, origin, post
from tests.contract.conftest import POOLED, Form
from tests.contract.engine import Engine, answers, answers_and_closes, in_turn
from tests.support.client import chunked

EARLY = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
BODIES = {
    "length": b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\nhello world",
    "chunks": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    + chunked(b"hello", b" ", b"world"),
    "one chunk, odd sizes": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
    b"00B\r\nhello world\r\n000\r\n\r\n",
    "coding with space around it": b"HTTP/1.1 200 OK\r\nTransfer-Encoding:\t chunked  \r\n\r\n"
    b"b\r\nhello world\r\n0\r\n\r\n",
    "chunk extensions": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    b'5;a=1;b="x y"\r\nhello\r\n6;c\r\n world\r\n0;last\r\n\r\n',
    "trailers": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    b"b\r\nhello world\r\n0\r\nX-Sum: 1\r\nx-sum: 2\r\n\r\n",
    "early hints": EARLY * 3 + b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\nhello world",
    "processing, continue": b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
    b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\nhello world",
    "unknown interim": b"HTTP/1.1 104 Upload Resumption\r\nx: 1\r\n\r\n"
    + EARLY
    + b"HTTP/1.1 199 Odd\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\nhello world",
}
UNTIL_CLOSE = {
    "until close": b"HTTP/1.1 200 OK\r\n\r\nhello world",
    "http/1.0": b"HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\n\r\nhello world",
    "length, then close": b"HTTP/1.1 200 OK\r\nconnection: close\r\n"
    b"content-length: 11\r\n\r\nhello world",
    "chunks, then close": b"HTTP/1.1 200 OK\r\nconnection: close\r\n"
    b"transfer-encoding: chunked\r\n\r\n" + chunked(b"hello world"),
}


@pytest.mark.parametrize("raw", BODIES.values(), ids=BODIES)
async def test_body_of_each_framing_and_the_connection_goes_on(
    upstream: Upstream, form: Form, raw: bytes
):
    async with Engine(in_turn(raw, raw, OK)) as engine:
        for _ in range(2):
            got = await ask(upstream, engine)
            assert (got.status, got.reason, got.body) == (200, b"OK", b"hello world")
        assert (await ask(upstream, engine)).body == b"ok"
        assert len(engine.connections) == form.connections(3)


@POOLED
async def test_http10_kept_alive(upstream: Upstream):
    """Not of httpx: it keeps none."""
    raw = b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n" + OK.partition(b"\r\n")[2]
    async with Engine(answers(raw, raw)) as engine:
        for _ in range(2):
            assert (await ask(upstream, engine)).body == b"ok"
        assert len(engine.connections) == 1


@pytest.mark.parametrize("raw", UNTIL_CLOSE.values(), ids=UNTIL_CLOSE)
async def test_response_and_fin_in_one_packet(upstream: Upstream, raw: bytes):
    async with Engine(answers_and_closes(raw)) as engine:
        for _ in range(3):
            assert (await ask(upstream, engine)).body == b"hello world"
        assert len(engine.connections) == 3


@pytest.mark.parametrize("raw", (BODIES | UNTIL_CLOSE).values(), ids=BODIES | UNTIL_CLOSE)
async def test_response_cut_at_every_byte(upstream: Upstream, raw: bytes):
    """Each byte in a packet of its own, as far as the kernel lets them apart."""

    async def bytewise(peer):
        await peer.request()
        await peer.send(*(bytes([byte]) for byte in raw), pause_s=0)
        peer.close()

    async with Engine(bytewise) as engine:
        got = await ask(upstream, engine)
        assert (got.status, got.reason, got.body) == (200, b"OK", b"hello world")


async def test_closes_although_it_said_nothing_of_it(upstream: Upstream):
    """A length or chunks, and a FIN right behind them: whole, and the next one connects anew."""
    for raw in (BODIES["length"], BODIES["trailers"]):
        async with Engine(answers_and_closes(raw), answers(OK)) as engine:
            assert (await ask(upstream, engine)).body == b"hello world"
            await asyncio.sleep(0.02)
            assert (await ask(upstream, engine)).body == b"ok"


async def test_connection_close_is_not_used_again(upstream: Upstream):
    """The engine said so and waits for us to do it."""
    raw = b"HTTP/1.1 200 OK\r\nConnection: x, Close\r\ncontent-length: 2\r\n\r\nok"
    async with Engine(answers(raw, raw)) as engine:
        await ask(upstream, engine)
        await ask(upstream, engine)
        assert len(engine.connections) == 2
        await engine.all_gone()


@pytest.mark.parametrize(
    ("method", "raw"),
    [
        (b"HEAD", b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n"),
        (b"HEAD", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"),
        (b"HEAD", b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
        (b"GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        (b"GET", b"HTTP/1.1 304 Not Modified\r\ncontent-length: 500\r\n\r\n"),
        (b"GET", b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"),
        (b"GET", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
    ],
    ids=["head", "head, chunked", "head, empty", "204", "304", "length 0", "no chunks"],
)
async def test_no_body_and_the_connection_goes_on(
    upstream: Upstream, form: Form, method: bytes, raw: bytes
):
    async with Engine(in_turn(raw, raw, OK)) as engine:
        for _ in range(2):
            got = await ask(upstream, engine, get(method))
            assert got.body == b""
            assert b"%d" % got.status == raw.split(b" ")[1]
        assert (await ask(upstream, engine)).body == b"ok"
        assert len(engine.connections) == form.connections(3)


@POOLED
async def test_trailers_as_received(upstream: Upstream):
    """Not of httpx: it keeps none."""
    async with Engine(answers(BODIES["trailers"], OK)) as engine:
        got = await ask(upstream, engine)
        assert got.trailers == [(b"X-Sum", b"1"), (b"x-sum", b"2")]
        assert got.headers == [(b"transfer-encoding", b"chunked")]
        assert (await ask(upstream, engine)).trailers == []


async def test_head_as_received(upstream: Upstream):
    """Order, case, duplicates, empty and non-ASCII values, and the engine's own reason phrase."""
    pairs = [
        (b"X-B", b"1"),
        (b"x-a", b"\xe4\xb8\xad\xff"),
        (b"X-b", b"2, 3"),
        (b"Empty", b""),
        (b"Set-Cookie", b"a=1"),
        (b"Set-Cookie", b"b=2"),
        (b"Content-Length", b"2"),
    ]
    lines = b"".join(b"%b: %b\r\n" % pair for pair in pairs)
    raw = b"HTTP/1.1 299 Quite  OK, really\r\n" + lines + b"\r\nok"
    async with Engine(answers(raw)) as engine:
        got = await ask(upstream, engine)
        assert (got.status, got.reason, got.headers) == (299, b"Quite  OK, really", pairs)


@pytest.mark.parametrize("line", [b"HTTP/1.1 200 \r\n", b"HTTP/1.1 200\r\n"])
async def test_no_reason_phrase(upstream: Upstream, line: bytes):
    async with Engine(answers(line + b"content-length: 2\r\n\r\nok")) as engine:
        got = await ask(upstream, engine)
        assert (got.reason, got.body) == (b"", b"ok")


async def test_no_coding_is_undone(upstream: Upstream):
    """Bytes that claim to be gzip and are none arrive as they are."""
    raw = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\n\x1f\x8b??"
    async with Engine(answers(raw)) as engine:
        got = await ask(upstream, engine)
        assert got.body == b"\x1f\x8b??"
        assert (b"content-encoding", b"gzip") in got.headers


async def test_request_as_given(upstream: Upstream):
    """Target, header order and case, duplicates, and nothing added."""
    headers = [
        (b"host", b"lane.test"),  # first: httpx would put it there
        (b"X-B", b"1"),
        (b"x-b", b"\xe4"),
        (b"Accept", b""),
        (b"content-length", b"4"),
    ]
    target = b"/v1/a%2Fb/../%zz?x=&&y=1#f"
    request = Request(b"PROPFIND", target, headers, pieces=(b"a", b"bcd"))
    async with Engine(answers(OK)) as engine:
        await ask(upstream, engine, request)
        (peer,) = engine.connections
        lines = b"".join(b"%b: %b\r\n" % pair for pair in headers)
        assert peer.requests == [b"PROPFIND " + target + b" HTTP/1.1\r\n" + lines + b"\r\n"]
        assert peer.bodies == [b"abcd"]


async def test_chunked_body_in_memory(upstream: Upstream):
    headers = [HOST, (b"transfer-encoding", b"chunked")]
    for pieces in ((), (b"abc", b"", b"d" * 17)):
        request = Request(b"POST", b"/x", headers, chunked=True, pieces=pieces)
        async with Engine(answers(OK)) as engine:
            await ask(upstream, engine, request)
            body = engine.connections[0].bodies[0]
            assert body == b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in pieces if p) + (
                b"0\r\n\r\n"
            )


async def test_many_at_once_each_gets_its_own(upstream: Upstream, form: Form):
    async def echo(peer):
        while True:
            body = await peer.request()
            await asyncio.sleep(0.001 * (len(body) % 7))
            await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body), body)

    async def one(number: int) -> None:
        body = b"%d." % number * (number + 1)
        assert (await ask(upstream, engine, post(body))).body == body

    async with Engine(echo) as engine:
        for _ in range(3):
            await asyncio.gather(*(one(number) for number in range(40)))
        assert len(engine.connections) <= 40 * form.connections(3)


async def test_pieces_come_as_they_are_sent(upstream: Upstream):
    """A piece is in the sink before the next one is sent."""
    came = asyncio.Event()

    async def stepwise(peer):
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(20):
            await peer.send(b"1\r\nx\r\n")
            await came.wait()
            came.clear()
        await peer.send(b"0\r\n\r\n")

    class Telling(Collect):
        def write(self, piece: bytes) -> bool:
            came.set()
            return super().write(piece)

    async with Engine(stepwise) as engine:
        sink = Telling()
        assert (await ask(upstream, engine, sink=sink)).body == b"x" * 20
        assert sink.pieces == [b"x"] * 20


async def test_response_closed_before_its_end_closes_the_connection(upstream: Upstream):
    async with Engine(answers(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab")) as engine:
        response = await upstream.send(origin(engine), get())
        await response.aclose()
        await response.aclose()
        await engine.all_gone()


async def test_faults_name_the_lane_that_was_asked(upstream: Upstream):
    async with Engine(answers(OK, OK)) as engine:
        for lane in (Lane.SPEC, Lane.PLAIN):
            response = await upstream.send(origin(engine, lane), get())
            assert response.lane is lane
            await response.deliver(Collect(), None)
            await response.aclose()
