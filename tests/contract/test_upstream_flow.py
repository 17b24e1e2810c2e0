"""The contract of an upstream: slow sinks, failing ones, and leaving at any moment."""

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest

from specgate.core.errors import StreamBroken
from specgate.upstream.base import Request, Upstream
from tests.contract.asking import OK, Collect, ask, cancel, get, origin, post, upload
from tests.contract.conftest import POOLED
from tests.contract.engine import Engine, Peer, Play, answers, in_turn
from tests.support.client import chunked
from tests.support.invariants import rss_mb

TE = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
SIZE = 20_000_000


class Refusing(Collect):
    """A sink whose client is given up."""

    def __init__(self, full_each: int = 1) -> None:
        super().__init__(full_each=full_each)

    async def drain(self) -> None:
        raise ValueError("stalled")


def large(size: int, *, one_chunk: bool) -> bytes:
    body = b"x" * size
    if one_chunk:
        return TE + chunked(body)
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + body


@pytest.mark.parametrize("one_chunk", [True, False], ids=["one chunk", "length"])
async def test_slow_sink_holds_the_lane_back(upstream: Upstream, one_chunk: bool):
    raw = large(SIZE, one_chunk=one_chunk)
    sent = 0

    async def play(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        for at in range(0, len(raw), 100_000):
            await peer.send(raw[at : at + 100_000])
            sent = at

    opened = asyncio.Event()

    class Shut(Collect):
        async def drain(self) -> None:
            await opened.wait()
            await super().drain()

    async with Engine(play) as engine:
        sink = Shut(full_each=100_000)
        before = rss_mb()
        asking = asyncio.ensure_future(ask(upstream, engine, sink=sink))
        await asyncio.sleep(0.2)
        assert sent < SIZE * 0.75, "the kernel's buffers, and little else"
        assert sink.most_waiting < 1_000_000
        assert rss_mb() - before < 15
        opened.set()
        got = await asking
        assert len(got.body) == SIZE
        assert sink.most_waiting < 1_000_000, "at every pause"
        assert sink.drains > SIZE / 1_000_000


async def test_every_pace_of_a_sink(upstream: Upstream):
    """Full at each piece, at some, at the last one, at none."""
    pieces = [b"%d." % number * 50 for number in range(40)]
    raw = TE + chunked(*pieces)
    for full_each in (1, 200, 10_000, len(b"".join(pieces)), None):
        for pause_s in (0, 0.001):
            async with Engine(in_turn(raw, OK)) as engine:
                sink = Collect(full_each=full_each, pause_s=pause_s)
                assert (await ask(upstream, engine, sink=sink)).body == b"".join(pieces)
                assert (await ask(upstream, engine)).body == b"ok"


async def test_breaks_off_while_the_sink_is_full(upstream: Upstream):
    """What had come is delivered first."""

    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(TE + b"5\r\nhello\r\n", b"5\r\nworld\r\n", pause_s=0.02)
        peer.close()

    async with Engine(play) as engine:
        sink = Collect(full_each=1, pause_s=0.05)
        with pytest.raises(StreamBroken):
            await ask(upstream, engine, sink=sink)
        assert sink.data == b"helloworld"


@pytest.mark.parametrize("where", ["in the middle", "at the end"])
async def test_drain_that_raises(upstream: Upstream, where: str):
    """It comes out as it is, and the connection of a response that goes on is ended."""

    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(TE + b"5\r\nhello\r\n" if where == "in the middle" else OK)
        await peer.until_gone()

    async with Engine(play, answers(OK)) as engine:
        with pytest.raises(ValueError, match="stalled"):
            await ask(upstream, engine, sink=Refusing())
        if where == "in the middle":
            await engine.all_gone()


@POOLED
async def test_sink_that_was_full_to_the_last(upstream: Upstream):
    """Found by reading: the response was whole, so its connection went back to the pool, but with
    reading paused: the next request on it waited for ever."""
    for raw in (OK, large(3_000_000, one_chunk=False)):
        async with Engine(answers(raw, OK), answers(OK, OK)) as engine:
            full_each = len(raw) - raw.index(b"\r\n\r\n") - 4
            with pytest.raises(ValueError, match="stalled"):
                await ask(upstream, engine, sink=Refusing(full_each))
            for _ in range(2):
                assert (await ask(upstream, engine)).body == b"ok"


async def test_response_that_nobody_read_to_its_end(upstream: Upstream):
    """All of a large one had come, and its reader left before the first piece."""
    for size in (10, 100_000, 250_000, 3_000_000):
        async with Engine(answers(large(size, one_chunk=False), OK), answers(OK)) as engine:
            response = await upstream.send(origin(engine), get())
            await asyncio.sleep(0.03)
            await response.aclose()
            assert (await ask(upstream, engine)).body == b"ok"


async def test_body_that_came_before_it_was_asked_for(upstream: Upstream):
    for size in (10, 100_000, 3_000_000):
        async with Engine(in_turn(large(size, one_chunk=True), OK)) as engine:
            response = await upstream.send(origin(engine), get())
            await asyncio.sleep(0.03)
            sink = Collect()
            async with asyncio.timeout(5):
                await response.deliver(sink, None)
            await response.aclose()
            assert len(sink.data) == size
            assert (await ask(upstream, engine)).body == b"ok"


# Leaving


async def slow_steps(peer: Peer) -> None:
    """A request is read, and answered, step by step."""
    await peer.request()
    await asyncio.sleep(0.002)
    await peer.send(b"HTTP/1.1 103 Early Hints\r\n\r\n", pause_s=0.002)
    await peer.send(TE, *[b"1\r\nx\r\n"] * 10, b"0\r\n\r\n", pause_s=0.002)


async def in_steps() -> AsyncIterator[bytes]:
    for _ in range(5):
        yield b"piece"
        await asyncio.sleep(0.002)


@pytest.mark.parametrize("kind", ["get", "post", "upload"])
async def test_cancelled_at_any_moment(upstream: Upstream, kind: str):
    """No connection stays open, no task, no exception that nobody took (`quiet` sees to that)."""
    before = asyncio.all_tasks()
    async with Engine(slow_steps) as engine:
        for moment in range(30):
            request: Request = {
                "get": get,
                "post": post,
                "upload": lambda: upload(in_steps()),
            }[kind]()
            asking = asyncio.ensure_future(ask(upstream, engine, request))
            if moment < 12:
                for _ in range(moment):
                    await asyncio.sleep(0)
            else:
                await asyncio.sleep((moment - 12) * 0.002)
            await cancel(asking)
        await upstream.aclose()
        await engine.all_gone()
        left = {task for task in asyncio.all_tasks() - before if "Engine" not in repr(task)}
        assert not left


async def test_cancelled_as_its_connection_dies(upstream: Upstream):
    """Both at once: the fault has nobody to be told to."""

    def dies(raw: bytes, how: str) -> Play:
        async def play(peer: Peer) -> None:
            await peer.request()
            await peer.send(raw)
            died.set()
            peer.rst() if how == "rst" else peer.close()

        return play

    for raw in (b"", b"HTTP/1.1 2", TE, TE + b"5\r\nhel"):
        for how in ("rst", "fin"):
            died = asyncio.Event()
            async with Engine(dies(raw, how)) as engine:
                for turns in range(5):
                    for request in (get(), upload(in_steps())):
                        died.clear()
                        asking = asyncio.ensure_future(ask(upstream, engine, request))
                        async with asyncio.timeout(2):
                            await died.wait()
                        for _ in range(turns):
                            await asyncio.sleep(0)
                        asking.cancel()
                        await asyncio.gather(asking, return_exceptions=True)
                await engine.all_gone()
    gc.collect()


async def test_engine_sees_the_leaving_at_once(upstream: Upstream):
    """Before a head, and in mid-stream."""
    loop = asyncio.get_running_loop()
    for raw in (b"", TE + b"5\r\nhello\r\n"):

        async def play(peer: Peer, raw: bytes = raw) -> None:
            await peer.request()
            await peer.send(raw)

        async with Engine(play) as engine:
            asking = asyncio.ensure_future(ask(upstream, engine))
            await asyncio.sleep(0.05)
            left_at = loop.time()
            await cancel(asking)
            await engine.all_gone()
            assert loop.time() - left_at < 0.5
