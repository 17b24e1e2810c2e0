"""The contract of an upstream: a request's body on its way up, and answers that come before it is
all sent."""

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator

import pytest
import trustme

from specgate.core.errors import ClientGone, NoAnswer, StreamBroken
from specgate.upstream.base import Upstream
from tests.contract.asking import OK, Collect, arriving, ask, cancel, get, origin, post, upload
from tests.contract.conftest import POOLED, Form
from tests.contract.engine import Engine, Peer, Play, answers, silent
from tests.support.client import chunked

TOO_LARGE = b"HTTP/1.1 413 Too Large\r\ncontent-length: 5\r\n\r\nlarge"


async def endless(piece: bytes = b"x" * 65536, pause_s: float = 0) -> AsyncIterator[bytes]:
    while True:
        yield piece
        await asyncio.sleep(pause_s)


async def leaves(after: int = 1, error: BaseException | None = None) -> AsyncIterator[bytes]:
    """A client that sends some pieces and is gone."""
    for _ in range(after):
        await asyncio.sleep(0.01)
        yield b"piece"
    await asyncio.sleep(0.01)
    raise error or ClientGone("the client left")


async def test_body_arrives_as_it_was_framed(upstream: Upstream, form: Form):
    pieces = [b"a", b"bc" * 50_000, b"d"]
    whole = b"".join(pieces)
    async with Engine(answers(OK, OK)) as engine:
        await ask(upstream, engine, upload(arriving(pieces), len(whole)))
        await ask(upstream, engine, upload(arriving(pieces)))
        bodies = [body for peer in engine.connections for body in peer.bodies]
        assert bodies == [whole, chunked(*pieces)]
        assert len(engine.connections) == form.connections(2)


async def test_empty_piece_does_not_end_a_chunked_body(upstream: Upstream):
    async with Engine(answers(OK)) as engine:
        await ask(upstream, engine, upload(arriving([b"", b"a", b"", b"b", b""])))
        assert engine.connections[0].bodies == [chunked(b"a", b"b")]


async def test_first_piece_is_there_before_the_last(upstream: Upstream):
    there = asyncio.Event()

    async def play(peer: Peer) -> None:
        await peer.head()
        await peer.reader.readuntil(b"first\r\n")
        there.set()
        await peer.reader.readuntil(b"0\r\n\r\n")
        await peer.send(OK)

    async def waits() -> AsyncIterator[bytes]:
        yield b"first"
        await there.wait()
        yield b"last"

    async with Engine(play) as engine:
        assert (await ask(upstream, engine, upload(waits()))).body == b"ok"


async def test_lane_that_does_not_read_holds_the_body_back(upstream: Upstream):
    taken = 0

    async def counted() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(1000):
            taken += 65536
            yield b"x" * 65536

    go_on = asyncio.Event()

    async def play(peer: Peer) -> None:
        await peer.head()
        await go_on.wait()
        await peer.reader.readexactly(65_536_000)
        await peer.send(OK)

    async with Engine(play) as engine:
        asking = asyncio.ensure_future(ask(upstream, engine, upload(counted(), 65_536_000)))
        await asyncio.sleep(0.1)
        assert taken < 12_000_000, "kernel buffers and no more"
        go_on.set()
        assert (await asking).body == b"ok"


async def test_continue_from_the_engine(upstream: Upstream):
    """G12: it says 100 to a request that did not ask for it."""

    async def play(peer: Peer) -> None:
        await peer.head()
        await peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        await peer.reader.readuntil(b"0\r\n\r\n")
        await peer.send(OK)

    async with Engine(play) as engine:
        assert (await ask(upstream, engine, upload(arriving([b"a", b"b"])))).body == b"ok"


@POOLED
async def test_answer_before_the_end_of_the_body(upstream: Upstream):
    """G12: it comes at once, the upload stops and the connection is not used again.

    Not of httpx: it sends all of a body before it reads anything.
    """

    async def play(peer: Peer) -> None:
        await peer.head()
        await peer.send(TOO_LARGE)
        await peer.until_gone()

    async with Engine(play, answers(OK)) as engine:
        got = await ask(upstream, engine, upload(endless(pause_s=0.01)))
        assert (got.status, got.body) == (413, b"large")
        await engine.all_gone()
        assert (await ask(upstream, engine)).body == b"ok"


@POOLED
@pytest.mark.parametrize("busy", [True, False], ids=["busy client", "silent client"])
async def test_answer_with_connection_close_stops_the_upload(upstream: Upstream, busy: bool):
    """The sending ends with the response, whatever its rest would still do."""
    ended = asyncio.Event()

    async def rest() -> AsyncIterator[bytes]:
        try:
            yield b"x"
            if not busy:
                await asyncio.Event().wait()
            async for piece in endless(pause_s=0.01):
                yield piece
        finally:
            ended.set()

    async def play(peer: Peer) -> None:
        await peer.head()
        await peer.send(TOO_LARGE.replace(b"\r\n", b"\r\nconnection: close\r\n", 1))

    async with Engine(play) as engine:
        before = asyncio.all_tasks()
        got = await ask(upstream, engine, upload(rest()))
        assert (got.status, got.body) == (413, b"large")
        await asyncio.sleep(0.05)
        assert ended.is_set()
        assert not {task for task in asyncio.all_tasks() - before if task.get_name() == "upload"}


@POOLED
@pytest.mark.parametrize("how", ["close", "rst"])
async def test_answer_is_not_masked_by_the_reset_behind_it(upstream: Upstream, how: str):
    """An engine that answers and closes with bytes unread resets the connection: our next write
    fails, and the answer that came before lies in the kernel, unread."""

    async def play(peer: Peer) -> None:
        await peer.head()
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(0.01)
        await peer.send(TOO_LARGE)
        if how == "rst":
            await asyncio.sleep(0.001)
            peer.rst()
        else:
            peer.close()

    lost = 0
    async with Engine(play) as engine:
        for _ in range(40):
            try:
                got = await ask(upstream, engine, upload(endless(b"x" * 4096)))
            except (NoAnswer, StreamBroken):
                lost += 1
            else:
                assert (got.status, got.body) == (413, b"large")
        await engine.all_gone()
    assert not lost


@POOLED
@pytest.mark.parametrize("pause_s", [0, 0.001])
async def test_connection_with_half_a_request_on_it_is_not_used_again(
    upstream: Upstream, pause_s: float
):
    """Found here: an upload that stopped because the answer had come counted as sent, and the next
    request went into the middle of its body."""

    async def play(peer: Peer) -> None:
        await peer.head()
        await peer.send(TOO_LARGE)
        await peer.until_gone()

    async with Engine(play) as engine:
        for number in range(10):
            got = await ask(upstream, engine, upload(endless(b"x" * 100, pause_s=pause_s)))
            assert got.status == 413
            assert len(engine.connections) == number + 1
        await engine.all_gone()


async def test_client_leaves_in_mid_upload(upstream: Upstream):
    """What reading the body raises comes out as it is, and the engine sees the end at once."""
    async with Engine(silent) as engine:
        for request in (upload(leaves()), upload(leaves(), 1000), upload(leaves(after=0))):
            with pytest.raises(ClientGone):
                await ask(upstream, engine, request)
        await engine.all_gone()


@POOLED
async def test_client_leaves_after_the_head_came(upstream: Upstream):
    """The response has begun while the body was still being sent: half a request gets no rest."""

    async def play(peer: Peer) -> None:
        await peer.head()
        await peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n")
        await peer.until_gone()

    async with Engine(play) as engine:
        sink = Collect()
        with pytest.raises(ClientGone):
            await ask(upstream, engine, upload(leaves(after=3)), sink=sink)
        assert sink.data == b"hi"
        await engine.all_gone()


@POOLED
async def test_upload_that_fails_is_nobodys_exception(upstream: Upstream):
    """An answer came, whole, and only then the client left: nothing is logged of it."""

    async def play(peer: Peer) -> None:
        await peer.head()
        await peer.send(TOO_LARGE.replace(b"\r\n", b"\r\nconnection: close\r\n", 1))
        await peer.until_gone()

    async with Engine(play) as engine:
        response = await upstream.send(origin(engine), upload(leaves(after=1)))
        await asyncio.sleep(0.05)
        await response.deliver(Collect(), None)
        await response.aclose()
        await engine.all_gone()


async def test_engine_dies_in_mid_upload(upstream: Upstream):
    async def play(peer: Peer) -> None:
        await peer.head()
        await peer.reader.readexactly(10)
        peer.rst()

    async with Engine(play) as engine:
        with pytest.raises(NoAnswer):
            await ask(upstream, engine, upload(endless(pause_s=0.01)))
        assert len(engine.connections) == 1


async def test_cancelled_in_mid_upload(upstream: Upstream):
    for rest in (endless(), endless(pause_s=0.01), leaves(after=10_000)):
        async with Engine(silent) as engine:
            sending = asyncio.ensure_future(upstream.send(origin(engine), upload(rest)))
            await asyncio.sleep(0.05)
            assert engine.open == 1
            await cancel(sending)
            await engine.all_gone()


def stops_reading(stopped: asyncio.Event) -> Play:
    """Read a head, and then nothing more."""

    async def play(peer: Peer) -> None:
        await peer.head()
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        stopped.set()
        await asyncio.Event().wait()

    return play


async def until_reset(peer: Peer, within_s: float = 2) -> None:
    """Wait for a reset, which the kernel tells of whether anyone reads or not."""
    found: list[int] = []
    async with asyncio.timeout(within_s):
        while not found or found[-1] == 0:
            peer.now(lambda s: found.append(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)))
            await asyncio.sleep(0.01)
    assert found[-1] == errno.ECONNRESET


@POOLED
@pytest.mark.parametrize("how", ["cancelled while it waits", "the client leaves", "sent whole"])
@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
async def test_lane_that_does_not_read_sees_the_end_of_what_was_not_sent(
    form: Form, how: str, secure: bool
):
    """A FIN would lie behind what the lane has yet to read, and the lane would know nothing."""
    stopped = asyncio.Event()
    left = asyncio.Event()
    # TLS is read ahead of whoever does not read, by 256 KiB.
    size = 150_000 if secure else 50_000

    async def rest() -> AsyncIterator[bytes]:
        await stopped.wait()
        for _ in range(1000 if how.startswith("cancelled") else 4):
            yield b"x" * size
        if how == "the client leaves":
            left.set()
            await asyncio.sleep(0.2)
            raise ClientGone("it left")
        left.set()

    server, client = contexts() if secure else (None, None)
    upstream = form.build(tls=client)
    async with Engine(stops_reading(stopped), tls=server) as engine:
        # Little room for what is not read.
        engine._server.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sending = asyncio.ensure_future(upstream.send(origin(engine), upload(rest())))
        await stopped.wait()
        if how == "the client leaves":
            with pytest.raises(ClientGone):
                await sending
        else:
            await asyncio.sleep(0.3)
            assert left.is_set() is (how == "sent whole")
            await cancel(sending)
        await until_reset(engine.connections[0])
    await upstream.aclose()


@POOLED
async def test_lane_that_read_a_whole_request_sees_a_fin(upstream: Upstream):
    """Nothing lies before it then."""
    ends: list[bytes] = []

    async def play(peer: Peer) -> None:
        await peer.request()
        ends.append(await peer.reader.read())

    async with Engine(play) as engine:
        for request in (post(), upload(arriving([b"a", b"b"]))):
            sending = asyncio.ensure_future(upstream.send(origin(engine), request))
            await asyncio.sleep(0.2)
            await cancel(sending)
            await engine.all_gone()
    assert ends == [b"", b""], "a reset would have raised"


def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's and a client's side of TLS."""
    ca = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(server)
    client = ssl.create_default_context()
    ca.configure_trust(client)
    return server, client


async def test_body_of_a_response_before_the_request_ended_is_read_by_none(upstream: Upstream):
    """After an upload that was not whole the next request is on a connection of its own."""
    async with Engine(silent, answers(OK)) as engine:
        with pytest.raises(ClientGone):
            await ask(upstream, engine, upload(leaves()))
        assert (await ask(upstream, engine, get())).body == b"ok"
        assert len(engine.connections) == 2
