"""What is known of a connection that ended without an answer: that the engine cannot have had all
of the request, or that it may have."""

import asyncio
import socket

import pytest

from specgate.core.errors import ConnectFailed, LaneFault, NoAnswer, Unsent
from specgate.core.lanes import Lane
from specgate.upstream.base import Upstream
from specgate.upstream.tcp import taken_whole
from tests.contract.asking import OK, arriving, ask, get, post, upload
from tests.contract.conftest import POOLED
from tests.contract.engine import Engine, Peer, answers

LARGE = b"x" * 24_000_000
"""More than both ends' kernels take while nobody reads."""


async def fault_of(upstream: Upstream, engine: Engine, request) -> LaneFault:
    with pytest.raises(LaneFault) as caught:
        await ask(upstream, engine, request)
    assert caught.value.lane is Lane.SPEC
    return caught.value


def ends_unread(how: str, *, first: int = 0):
    """Answer so many, then read a head and no body, and end the connection a moment later."""

    async def play(peer: Peer) -> None:
        for _ in range(first):
            await peer.request()
            await peer.send(OK)
        await peer.head()
        await asyncio.sleep(0.05)
        peer.rst() if how == "rst" else peer.close()

    return play


@POOLED
@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_part_of_it_never_left(upstream: Upstream, how: str):
    async with Engine(ends_unread(how)) as engine:
        fault = await fault_of(upstream, engine, post(LARGE))
        assert isinstance(fault, Unsent)
        assert isinstance(fault, ConnectFailed), "as good as no connection"
        assert len(engine.connections) == 1


async def test_of_httpx_nobody_knows(upstream: Upstream):
    """Not even then: its library does not say how far it came."""
    async with Engine(ends_unread("rst")) as engine:
        fault = await fault_of(upstream, engine, post(LARGE))
        assert isinstance(fault, NoAnswer | Unsent)


@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_all_of_it_left(upstream: Upstream, how: str):
    """The engine may have read it, and may have worked on it."""

    async def play(peer: Peer) -> None:
        await peer.request()
        peer.rst() if how == "rst" else peer.close()

    async with Engine(play) as engine:
        fault = await fault_of(upstream, engine, post())
        assert isinstance(fault, NoAnswer)
        assert fault.unheard
        assert len(engine.connections) == 1


@POOLED
async def test_all_of_it_left_and_nobody_read_it(upstream: Upstream):
    """It lies in the engine's kernel: a reset does not say whether somebody has read it."""

    async def play(peer: Peer) -> None:
        await asyncio.sleep(0.05)
        peer.rst()

    async with Engine(play) as engine:
        assert isinstance(await fault_of(upstream, engine, post()), NoAnswer)


async def test_a_byte_of_an_answer_came(upstream: Upstream):
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"H")
        await asyncio.sleep(0.02)
        peer.close()

    async with Engine(play) as engine:
        fault = await fault_of(upstream, engine, post())
        assert isinstance(fault, NoAnswer)
        assert not fault.unheard or "httpx" in type(upstream).__name__.lower()


@POOLED
async def test_a_body_that_streams_is_gone(upstream: Upstream):
    async with Engine(ends_unread("rst")) as engine:
        fault = await fault_of(upstream, engine, upload(arriving([LARGE, LARGE])))
        assert isinstance(fault, NoAnswer)
        assert not isinstance(fault, Unsent)


@POOLED
async def test_a_reused_one_that_did_not_take_it_is_replaced_whenever_it_ends(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
):
    """It is certain, and so there is no haste about it."""
    monkeypatch.setattr("specgate.upstream.pool.RETRY_WITHIN_S", 0.0)
    async with Engine(ends_unread("rst", first=1), answers(OK, OK)) as engine:
        assert (await ask(upstream, engine)).body == b"ok"
        assert (await ask(upstream, engine, post(LARGE))).body == b"ok"
        assert len(engine.connections) == 2


@POOLED
async def test_a_reused_one_ends_and_its_engine_takes_no_more(upstream: Upstream):
    """It may have died of the request: that is no failure to connect."""

    async def dies(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await peer.request()
        engine._server.close()
        await asyncio.sleep(0.02)
        peer.close()

    async with Engine(dies) as engine:
        assert (await ask(upstream, engine)).body == b"ok"
        fault = await fault_of(upstream, engine, post())
        assert isinstance(fault, NoAnswer)
        assert fault.unheard


@POOLED
async def test_a_connection_that_had_ended_unnoticed_took_nothing(upstream: Upstream):
    """A reset is in the kernel, and the event loop has not come to it: writing fails at once."""
    async with Engine(answers(OK), answers(OK)) as engine:
        assert (await ask(upstream, engine, get())).body == b"ok"
        engine.connections[0].rst()
        await asyncio.sleep(0)
        assert (await ask(upstream, engine, post())).body == b"ok"


def test_what_a_fin_left_unacknowledged():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sock = socket.create_connection(listener.getsockname())
        peer, _ = listener.accept()
        assert taken_whole(sock)
        sock.sendall(b"x")
        assert peer.recv(1) == b"x"
        sock.settimeout(5)
        peer.close()
        assert sock.recv(1) == b""
        assert taken_whole(sock), "the FIN came after the byte was taken"
        sock.send(b"y")
        assert not taken_whole(sock), "nobody is there to take it"
        sock.close()
        assert taken_whole(sock), "nothing is known of it any more"
