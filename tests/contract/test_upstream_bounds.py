"""The contract of an upstream: an engine that goes on for ever where nobody can be made to wait."""

import asyncio

import pytest

from specgate.core.errors import StreamBroken
from specgate.upstream.base import Upstream
from specgate.upstream.reading import HEAD_LIMIT
from tests.contract.asking import OK, Collect, ask, get, origin
from tests.contract.conftest import POOLED
from tests.contract.engine import Engine, Peer, answers

BEGUN = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n"
PIECE = 16 * 1024
FLOODS = {
    "trailers": (b"0\r\n", b"x: " + b"y" * (PIECE - 5) + b"\r\n", b"\r\n"),
    "one trailer": (b"0\r\nx: ", b"y" * PIECE, b"\r\n\r\n"),
    "a chunk's extension": (b"2;", b"y" * PIECE, b"\r\nok\r\n0\r\n\r\n"),
}


@POOLED
@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
@pytest.mark.parametrize("share", [0.5, 8], ids=["within", "beyond"])
async def test_what_is_no_body_is_bounded(
    upstream: Upstream, flood: tuple[bytes, bytes, bytes], share: float
):
    """None of it waits for the client, so all of it would be kept, or read for ever. httpx has
    bounds of its own."""
    first, piece, last = flood

    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(BEGUN + first)
        for _ in range(int(share * HEAD_LIMIT) // PIECE):
            await peer.send(piece)
        await peer.send(last)
        await peer.until_gone()

    async with Engine(play, answers(OK)) as engine:
        if share < 1:
            assert (await ask(upstream, engine)).body.startswith(b"ok")
            return
        response = await upstream.send(origin(engine), get())
        async with asyncio.timeout(10):
            with pytest.raises(StreamBroken, match="too large"):
                await response.deliver(Collect(), None)
        await response.aclose()
        assert (await ask(upstream, engine)).body == b"ok", "on another connection"


@POOLED
async def test_a_long_body_of_small_pieces_is_none_of_that(upstream: Upstream):
    pieces = HEAD_LIMIT // 6
    async with Engine(answers(BEGUN + b"1\r\nx\r\n" * 2 * pieces + b"0\r\n\r\n")) as engine:
        assert len((await ask(upstream, engine)).body) == 2 + 2 * pieces
