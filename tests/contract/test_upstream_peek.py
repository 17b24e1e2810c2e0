"""Looking at a body before it is delivered: what is seen is delivered all the same, once."""

import asyncio

import pytest

from specgate.core.errors import StreamBroken
from specgate.upstream.base import PEEK_LIMIT, Peeked, Response, Upstream
from tests.contract.asking import OK, Collect, ask, origin, post
from tests.contract.engine import Engine, Peer, answers

TE = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
HELLO, WORLD, END = b"5\r\nhello\r\n", b"5\r\nworld\r\n", b"0\r\n\r\n"
LIMIT_S = 20


def sends(*pieces: bytes, pause_s: float = 0.05, then: bytes = END, end: str = ""):
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(*pieces, pause_s=pause_s)
        await peer.send(then)
        if end == "rst":
            await asyncio.sleep(0.02)
            peer.rst()
        elif end == "fin":
            peer.close()
        else:
            await answers(OK)(peer)

    return play


async def rest(response: Response) -> bytes:
    sink = Collect()
    try:
        await response.deliver(sink, None)
    finally:
        await response.aclose()
    return sink.data


async def test_until_there_is_anything(upstream: Upstream):
    async with Engine(sends(TE, HELLO, WORLD)) as engine:
        response = await upstream.send(origin(engine), post())
        assert await response.peek(lambda body: not body, LIMIT_S) == Peeked(b"hello", False)
        assert await rest(response) == b"helloworld"


async def test_until_it_is_whole(upstream: Upstream):
    async with Engine(sends(TE, HELLO, WORLD), answers(OK)) as engine:
        response = await upstream.send(origin(engine), post())
        assert await response.peek(lambda _: True, LIMIT_S) == Peeked(b"helloworld", True)
        assert await rest(response) == b"helloworld"
        assert (await ask(upstream, engine)).body == b"ok"


@pytest.mark.parametrize("body", [b"", b"ok"])
async def test_what_came_with_the_head(upstream: Upstream, body: bytes):
    whole = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    async with Engine(answers(whole)) as engine:
        response = await upstream.send(origin(engine), post())
        assert await response.peek(lambda _: True, LIMIT_S) == Peeked(body, True)
        assert await rest(response) == body


async def test_until_the_time_is_over(upstream: Upstream):
    """And what comes a moment later is not lost."""
    async with Engine(sends(TE, HELLO, WORLD, pause_s=0.1)) as engine:
        loop = asyncio.get_running_loop()
        response = await upstream.send(origin(engine), post())
        began = loop.time()
        assert await response.peek(lambda _: True, 0.05) == Peeked(b"", False)
        assert loop.time() - began < 0.1
        assert await rest(response) == b"helloworld"


async def test_until_there_is_enough(upstream: Upstream):
    """The engine is not read on and on while somebody looks."""
    piece = b"x" * 10_000
    flood = (b"2710\r\n" + piece + b"\r\n") * 100
    async with Engine(sends(TE, flood, pause_s=0)) as engine:
        response = await upstream.send(origin(engine), post())
        seen = await response.peek(lambda _: True, LIMIT_S)
        assert not seen.complete
        assert PEEK_LIMIT <= len(seen.body) < 10 * PEEK_LIMIT
        assert await rest(response) == piece * 100


@pytest.mark.parametrize("end", ["fin", "rst"])
async def test_breaks_off_before_anything_came(upstream: Upstream, end: str):
    async with Engine(sends(TE, then=b"", end=end)) as engine:
        response = await upstream.send(origin(engine), post())
        with pytest.raises(StreamBroken):
            await response.peek(lambda _: True, LIMIT_S)
        await response.aclose()


@pytest.mark.parametrize("end", ["fin", "rst"])
async def test_breaks_off_later(upstream: Upstream, end: str):
    """What came is given, and then the break."""
    async with Engine(sends(TE, HELLO, then=b"", end=end)) as engine:
        response = await upstream.send(origin(engine), post())
        assert await response.peek(lambda _: True, LIMIT_S) == Peeked(b"hello", False)
        sink = Collect()
        with pytest.raises(StreamBroken):
            await response.deliver(sink, None)
        assert sink.data == b"hello"
        await response.aclose()


async def test_closed_without_being_delivered(upstream: Upstream):
    async with Engine(sends(TE, HELLO, WORLD, pause_s=0.1)) as engine:
        for undecided in (lambda body: not body, lambda _: True):
            response = await upstream.send(origin(engine), post())
            await response.peek(undecided, 0.15)
            await response.aclose()
        await engine.all_gone()


async def test_cancelled_while_it_waits(upstream: Upstream):
    async with Engine(sends(TE, then=b"")) as engine:
        response = await upstream.send(origin(engine), post())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await response.peek(lambda _: True, LIMIT_S)
        await response.aclose()
        await engine.all_gone()
