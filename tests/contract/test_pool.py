"""The connection pool: what is kept, for how long, and when a request is sent a second time."""

import asyncio
import socket

import pytest

from specgate.core.errors import NoAnswer
from specgate.core.lanes import Lane
from specgate.upstream import pool
from specgate.upstream.base import Origin, Upstream
from tests.contract.asking import OK, Collect, arriving, ask, get, origin, post, upload
from tests.contract.conftest import POOLED, Form
from tests.contract.engine import Engine, Peer, answers, silent

pytestmark = POOLED

FOREVER = answers(*[OK] * 1000)


def falls_at(number: int, *, after_s: float = 0, first: bytes = b"", how: str = "fin"):
    """Answer requests, but at this one (from 1) send these bytes, wait, and end the connection."""

    async def play(peer: Peer) -> None:
        for _ in range(number - 1):
            await peer.request()
            await peer.send(OK)
        await peer.request()
        await peer.send(first)
        await asyncio.sleep(after_s)
        peer.rst() if how == "rst" else peer.close()

    return play


async def test_last_in_first_out(upstream: Upstream):
    """The warmest is used again, and the others age out."""
    gate = asyncio.Event()

    async def play(peer: Peer) -> None:
        await peer.request()
        await gate.wait()
        await peer.send(OK)
        await FOREVER(peer)

    async with Engine(play) as engine:
        first = [asyncio.ensure_future(ask(upstream, engine)) for _ in range(3)]
        while len(engine.connections) < 3:
            await asyncio.sleep(0.01)
        gate.set()
        await asyncio.gather(*first)
        for _ in range(5):
            await ask(upstream, engine)
        assert sorted(len(peer.requests) for peer in engine.connections) == [1, 1, 6]


async def test_no_ceiling(upstream: Upstream):
    """I01: three hundred streams at once are three hundred connections, and none waits."""
    gate = asyncio.Event()

    async def play(peer: Peer) -> None:
        await peer.request()
        await gate.wait()
        await peer.send(OK)

    async with Engine(play) as engine:
        asking = [asyncio.ensure_future(ask(upstream, engine)) for _ in range(300)]
        async with asyncio.timeout(5):
            while sum(bool(peer.bodies) for peer in engine.connections) < 300:
                await asyncio.sleep(0.01)
        gate.set()
        assert {got.body for got in await asyncio.gather(*asking)} == {b"ok"}
        assert len(engine.connections) == 300


async def test_idle_ones_expire(upstream: Upstream, monkeypatch: pytest.MonkeyPatch):
    assert pool.IDLE_S + pool.SWEEP_S <= 5, "before the engines end it themselves"
    monkeypatch.setattr(pool, "IDLE_S", 0.1)
    monkeypatch.setattr(pool, "SWEEP_S", 0.05)
    async with Engine(FOREVER) as engine:
        await asyncio.gather(*(ask(upstream, engine) for _ in range(5)))
        assert engine.open == 5
        await asyncio.sleep(0.05)
        await ask(upstream, engine)
        await asyncio.sleep(0.07)
        assert engine.open >= 1, "the one that was used meanwhile"
        await engine.all_gone()
        await ask(upstream, engine)
        assert len(engine.connections) == 6


async def test_one_past_its_time_is_not_used(upstream: Upstream, monkeypatch: pytest.MonkeyPatch):
    """The sweep has yet to come by."""
    monkeypatch.setattr(pool, "IDLE_S", 0.05)
    async with Engine(FOREVER) as engine:
        await ask(upstream, engine)
        await asyncio.sleep(0.1)
        await ask(upstream, engine)
        assert len(engine.connections) == 2


@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_engine_closes_at_idle(upstream: Upstream, how: str):
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await asyncio.sleep(0.02)
        peer.rst() if how == "rst" else peer.close()

    async with Engine(play) as engine:
        for number in range(3):
            rest = arriving([b"not", b"replayable"])
            assert (await ask(upstream, engine, upload(rest))).body == b"ok"
            await asyncio.sleep(0.06)
            assert len(engine.connections) == number + 1


async def test_engine_closed_and_nobody_has_looked_yet(upstream: Upstream):
    """Its FIN is in the kernel, and the event loop has not come to it: a body that can be sent only
    once is not risked on it."""

    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)

    async with Engine(play) as engine:
        for number in range(3):
            await ask(upstream, engine, upload(arriving([b"once"])))
            await asyncio.sleep(0.01)
            engine.connections[-1].now(lambda sock: sock.shutdown(socket.SHUT_WR))
            assert len(engine.connections) == number + 1


async def test_bytes_at_idle_end_a_connection(upstream: Upstream):
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await asyncio.sleep(0.02)
        await peer.send(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")

    async with Engine(play) as engine:
        for number in range(3):
            assert (await ask(upstream, engine)).status == 200
            await asyncio.sleep(0.05)
            assert len(engine.connections) == number + 1
            assert engine.open == 0


async def test_trailer_named_connection(upstream: Upstream):
    """Found by fuzzing: to the parser it is a header too, and the next answer was refused."""
    chunks = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"
    async with Engine(answers(chunks + b"Connection: close\r\n\r\n", OK)) as engine:
        for number in range(3):
            assert (await ask(upstream, engine)).body == b"ok"
            assert len(engine.connections) == number + 1


# A second time


@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_reused_one_that_died_at_once_is_replaced(upstream: Upstream, how: str):
    async with Engine(falls_at(2, how=how)) as engine:
        for request in (get(), post(), post(b"x" * 100_000), get()):
            assert (await ask(upstream, engine, request)).body == b"ok"
        assert [len(peer.requests) for peer in engine.connections] == [2, 2, 2, 1]


async def test_fresh_one_that_died_is_not(upstream: Upstream):
    async with Engine(falls_at(1)) as engine:
        with pytest.raises(NoAnswer):
            await ask(upstream, engine, post())
        assert len(engine.connections) == 1


async def test_once_and_no_more(upstream: Upstream):
    async with Engine(falls_at(2), falls_at(1)) as engine:
        await ask(upstream, engine)
        with pytest.raises(NoAnswer):
            await ask(upstream, engine)
        assert len(engine.connections) == 2


@pytest.mark.parametrize("first", [b"H", b"HTTP/1.1 100 Continue\r\n\r\n", b"\r\n"])
async def test_not_after_a_byte_of_an_answer(upstream: Upstream, first: bytes):
    async with Engine(falls_at(2, first=first), FOREVER) as engine:
        await ask(upstream, engine)
        with pytest.raises(NoAnswer):
            await ask(upstream, engine, post())
        assert len(engine.connections) == 1


async def test_not_after_a_while(upstream: Upstream, monkeypatch: pytest.MonkeyPatch):
    """The engine had the request, and may have worked on it."""
    monkeypatch.setattr(pool, "RETRY_WITHIN_S", 0.05)
    async with Engine(falls_at(2, after_s=0.1), FOREVER) as engine:
        await ask(upstream, engine)
        with pytest.raises(NoAnswer):
            await ask(upstream, engine, post())
        assert len(engine.connections) == 1


async def test_not_with_a_body_that_can_be_read_once(upstream: Upstream):
    async with Engine(falls_at(2), FOREVER) as engine:
        await ask(upstream, engine)
        with pytest.raises(NoAnswer):
            await ask(upstream, engine, upload(arriving([b"a", b"b"])))
        assert len(engine.connections) == 1


# Whose it is


async def test_lanes_at_one_url_share_and_are_told_apart(upstream: Upstream):
    async with Engine(falls_at(2, first=b"HTTP")) as engine:
        await ask(upstream, origin(engine, Lane.SPEC))
        with pytest.raises(NoAnswer, match="plain lane") as caught:
            await ask(upstream, origin(engine, Lane.PLAIN))
        assert caught.value.lane is Lane.PLAIN
        assert len(engine.connections) == 1


async def test_origins_do_not_share(upstream: Upstream):
    async with Engine(FOREVER) as one, Engine(FOREVER) as other:
        for engine in (one, other, one, other):
            await ask(upstream, engine)
        assert len(one.connections) == len(other.connections) == 1


async def test_closing_the_pool(form: Form):
    """What rests ends now; what is in use ends with its response, and is not kept."""
    upstream = form.build()
    async with Engine(FOREVER) as engine, Engine(silent) as busy:
        await ask(upstream, engine)
        response = await upstream.send(origin(engine), get())
        other = asyncio.ensure_future(upstream.send(Origin.of(Lane.SPEC, busy.url), get()))
        await asyncio.sleep(0.02)
        await upstream.aclose()
        await upstream.aclose()
        await response.deliver(Collect(), None)
        await response.aclose()
        await engine.all_gone()
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)
        await busy.all_gone()
