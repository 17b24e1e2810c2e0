"""The contract of an upstream, of both forms: engines that break off, or speak no proper HTTP.

Whatever comes, an exchange ends: with the response, with NoAnswer before its head, with
StreamBroken after it. And nothing odd leaves a connection behind that is used again.
"""

import asyncio
import socket

import pytest

from specgate.core.errors import ConnectFailed, FailureKind, NoAnswer, StreamBroken
from specgate.core.lanes import Lane
from specgate.upstream.base import Origin, Upstream
from specgate.upstream.reading import HEAD_LIMIT
from tests.contract.asking import OK, Collect, ask, get, origin
from tests.contract.conftest import POOLED, Form
from tests.contract.engine import Engine, Peer, answers, silent
from tests.support.client import chunked
from tests.support.lanes import refuses

HEAD = b"HTTP/1.1 200 OK\r\n"
TE = HEAD + b"transfer-encoding: chunked\r\n\r\n"
CL = HEAD + b"content-length: 5\r\n"

NO_HEAD = {
    "nothing": b"",
    "half a line": b"HTTP/1.",
    "half a head": CL,
    "only an interim": b"HTTP/1.1 100 Continue\r\n\r\n",
    "interim and half a head": b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + CL,
}
NO_HTTP = {
    "garbage": b"\x16\x03\x01\x02\x00\x01\x00",
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "http/0.9": b"<html>hello</html>\r\n\r\n",
    "a request": b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
    "a status of letters": b"HTTP/1.1 2xx OK\r\n\r\n",
    "a status of four digits": b"HTTP/1.1 2000 OK\r\ncontent-length: 0\r\n\r\n",
    "status 099": b"HTTP/1.1 099 Low\r\ncontent-length: 0\r\n\r\n",
    "status 000": b"HTTP/1.1 000 None\r\n\r\n",
    "length with a sign": HEAD + b"content-length: +5\r\n\r\nhello",
    "negative length": HEAD + b"content-length: -5\r\n\r\nhello",
    "length in hex": HEAD + b"content-length: 0x5\r\n\r\nhello",
    "length too large": HEAD + b"content-length: 99999999999999999999\r\n\r\nhello",
    "two lengths": CL + b"content-length: 6\r\n\r\nhello!",
    "length before chunks": CL + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "length after chunks": TE[:-2] + b"content-length: 5\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "gzip, chunked": HEAD + b"transfer-encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "gzip": HEAD + b"transfer-encoding: gzip\r\n\r\nhello",
    "xchunked": HEAD + b"transfer-encoding: xchunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "chunked, chunked": HEAD + b"transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "chunked twice": TE[:-2] + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n",  # found by fuzzing
    "space before the colon": HEAD + b"content-length : 5\r\n\r\nhello",
    "nul in a value": CL + b"x: a\x00b\r\n\r\nhello",
    "a line that is no header": CL + b"no colon here\r\n\r\nhello",
    "an unasked upgrade": b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n"
    b"connection: upgrade\r\n\r\n",
}
# Not of httpx: it waits for the end of a head that is none, and for as many bytes as it is told of,
# and where a length stands beside chunks it believes the chunks.
NO_HTTP_STRICT = {
    "a tab after chunked": HEAD + b"transfer-encoding: chunked\t\r\n\r\n0\r\n\r\n",
} | {
    name: NO_HTTP.pop(name)
    for name in (
        "another protocol",
        "length too large",
        "length before chunks",
        "length after chunks",
    )
}
BROKEN_BODY = {
    "short of its length": CL + b"\r\nhel",
    "no chunk": TE,
    "within a chunk": TE + b"5\r\nhel",
    "between chunks": TE + b"3\r\nhel\r\n",
    "within the last chunk": TE + b"3\r\nhel\r\n0\r\n",
    "within trailers": TE + b"3\r\nhel\r\n0\r\nx-sum: 1\r\n",
}
BAD_CHUNKS = {
    "size of letters": TE + b"3\r\nhel\r\nxyz\r\n",
    "size with a sign": TE + b"3\r\nhel\r\n+2\r\nlo\r\n0\r\n\r\n",
    "size is empty": TE + b"3\r\nhel\r\n\r\nlo\r\n0\r\n\r\n",
    "chunk longer than said": TE + b"3\r\nhello\r\n0\r\n\r\n",
    "bad trailer": TE + b"3\r\nhel\r\n0\r\nno colon here\r\n\r\n",
}


def dies(raw: bytes, how: str):
    """Read a request, send these bytes, then FIN or RST."""

    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(raw)
        if how == "rst":
            await asyncio.sleep(0.02)
            peer.rst()
        else:
            peer.close()

    return play


@pytest.mark.parametrize("how", ["fin", "rst"])
@pytest.mark.parametrize("raw", NO_HEAD.values(), ids=NO_HEAD)
async def test_dies_before_its_head(upstream: Upstream, raw: bytes, how: str):
    async with Engine(dies(raw, how)) as engine:
        with pytest.raises(NoAnswer) as caught:
            await ask(upstream, engine)
        assert caught.value.lane is Lane.SPEC
        await engine.all_gone()
        assert len(engine.connections) == 1, "it was not asked again"


@pytest.mark.parametrize("raw", NO_HTTP.values(), ids=NO_HTTP)
async def test_speaks_no_http(upstream: Upstream, raw: bytes):
    """It goes on to wait for us: it is our side that has to end this."""
    async with Engine(answers(raw), answers(OK)) as engine:
        with pytest.raises(NoAnswer):
            await ask(upstream, engine)
        await engine.all_gone()
        assert (await ask(upstream, engine)).body == b"ok"


@POOLED
@pytest.mark.parametrize("raw", NO_HTTP_STRICT.values(), ids=NO_HTTP_STRICT)
async def test_speaks_no_http_strictly(upstream: Upstream, raw: bytes):
    await test_speaks_no_http(upstream, raw)


@pytest.mark.parametrize("how", ["fin", "rst"])
@pytest.mark.parametrize("raw", BROKEN_BODY.values(), ids=BROKEN_BODY)
async def test_breaks_off(upstream: Upstream, raw: bytes, how: str):
    sink = Collect()
    async with Engine(dies(raw, how), answers(OK)) as engine:
        with pytest.raises(StreamBroken) as caught:
            await ask(upstream, engine, sink=sink)
        assert (caught.value.lane, caught.value.kind) == (Lane.SPEC, FailureKind.BROKEN)
        assert sink.data == (b"hel" if b"hel" in raw else b""), "what came before is delivered"
        await engine.all_gone()
        assert (await ask(upstream, engine)).body == b"ok"


@POOLED
async def test_chunk_size_overflows(upstream: Upstream):
    """Not of httpx: it waits for as many bytes as it is told of."""
    await test_bad_chunks(upstream, TE + b"3\r\nhel\r\nfffffffffffffffff\r\n")


@pytest.mark.parametrize("raw", BAD_CHUNKS.values(), ids=BAD_CHUNKS)
async def test_bad_chunks(upstream: Upstream, raw: bytes):
    sink = Collect()
    async with Engine(answers(raw), answers(OK)) as engine:
        with pytest.raises((StreamBroken, NoAnswer)):
            await ask(upstream, engine, sink=sink)
        assert b"hel".startswith(sink.data)
        await engine.all_gone()
        assert (await ask(upstream, engine)).body == b"ok"


async def test_reset_within_a_body_until_close(upstream: Upstream):
    """A FIN ends such a body, and a RST breaks it."""
    sink = Collect()
    async with Engine(dies(HEAD + b"\r\nhel", "rst")) as engine:
        with pytest.raises(StreamBroken):
            await ask(upstream, engine, sink=sink)
        assert sink.data == b"hel"


async def test_waits_for_a_head_as_long_as_it_takes_to_leave(upstream: Upstream):
    """An engine that accepts and dies a while later, without a byte."""

    async def play(peer: Peer) -> None:
        await peer.request()
        await asyncio.sleep(0.1)
        peer.close()

    async with Engine(play) as engine:
        with pytest.raises(NoAnswer):
            await ask(upstream, engine)
        assert len(engine.connections) == 1


@pytest.mark.parametrize("pause_s", [None, 0.0, 0.01], ids=["same packet", "next", "later"])
@pytest.mark.parametrize("first", ["length", "chunks", "204", "head"])
async def test_bytes_beyond_the_end_are_nobodys(
    upstream: Upstream, first: str, pause_s: float | None
):
    """B04: more than was declared never turns up in the next response."""
    raw = {
        "length": OK,
        "chunks": TE + chunked(b"ok"),
        "204": b"HTTP/1.1 204 No Content\r\n\r\n",
        "head": HEAD + b"content-length: 2\r\n\r\n",
    }[first]
    evil = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil"
    for extra in (b"X", b"\r\nX", evil, evil * 2, b"HTT", b"\x00"):

        async def play(peer: Peer, extra: bytes = extra) -> None:
            await peer.request()
            if pause_s is None:
                await peer.send(raw + extra)
            else:
                await peer.send(raw, extra, pause_s=pause_s)

        async with Engine(play, answers(OK)) as engine:
            got = await ask(upstream, engine, get(b"HEAD" if first == "head" else b"GET"))
            assert got.body == (b"ok" if first in ("length", "chunks") else b"")
            await asyncio.sleep(0.02)
            assert (await ask(upstream, engine)).body == b"ok"
            assert len(engine.connections) == 2
            await asyncio.sleep(0.02)
            assert engine.connections[0].gone.is_set()


@POOLED
async def test_bytes_that_came_just_before_the_next_request(upstream: Upstream):
    """They are in the kernel, and the event loop has not read them: they answer nothing."""

    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK, pause_s=0.02)

    evil = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil"
    async with Engine(play, answers(OK)) as engine:
        await ask(upstream, engine)
        await asyncio.sleep(0.05)
        engine.connections[0].now(lambda sock: sock.send(evil))
        assert (await ask(upstream, engine)).body == b"ok"
        await asyncio.sleep(0.02)
        assert engine.connections[0].gone.is_set()


async def test_head_of_a_legal_size(upstream: Upstream):
    """C07: sixty kilobytes of headers, which no engine sends, pass."""
    lines = b"".join(b"x-%d: %b\r\n" % (number, b"v" * 1000) for number in range(60))
    async with Engine(answers(HEAD + lines + b"content-length: 2\r\n\r\nok")) as engine:
        got = await ask(upstream, engine)
        assert len(got.headers) == 61
        assert got.body == b"ok"


@pytest.mark.parametrize("shape", ["many", "one", "reason"])
async def test_head_without_end(upstream: Upstream, shape: str):
    """C07: a head that goes on and on is given up, with a connection that is ended."""
    line = b"x: " + b"v" * 1000 + b"\r\n" if shape == "many" else b"v" * 1000
    begin = {"one": HEAD + b"x: ", "reason": b"HTTP/1.1 200 ", "many": HEAD}[shape]
    assert await sent_before_the_end(upstream, begin, line * 10) < 10_000_000


@POOLED
async def test_interim_responses_without_end(upstream: Upstream):
    """Not of httpx: it waits behind them for ever."""
    line = b"HTTP/1.1 103 Early Hints\r\nx: " + b"v" * 1000 + b"\r\n\r\n"
    assert await sent_before_the_end(upstream, b"", line * 10) < 10_000_000


async def sent_before_the_end(upstream: Upstream, begin: bytes, lines: bytes) -> int:
    """Bytes of a head without end that were sent until the upstream had enough."""
    sent = 0

    async def play(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        await peer.send(begin)
        while sent < 20_000_000 and not peer.writer.is_closing():
            await peer.send(lines)
            sent += len(lines)

    async with Engine(play) as engine:
        with pytest.raises(NoAnswer):
            await ask(upstream, engine)
        await engine.all_gone()
    return sent


@POOLED
@pytest.mark.parametrize("size", [200_000, 262_000, 263_000, 300_000])
@pytest.mark.parametrize("cut", [1, 100_000, None])
async def test_head_limit_is_of_the_head(upstream: Upstream, size: int, cut: int | None):
    """Whatever packets it comes in, and however much of a body comes with it."""
    head = HEAD + b"x: " + b"v" * size + b"\r\ncontent-length: 400000\r\n\r\n"
    raw = head + b"b" * 400_000

    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(*((raw,) if cut is None else (raw[:cut], raw[cut:])), pause_s=0.01)

    async with Engine(play) as engine:
        if size < HEAD_LIMIT:
            assert (await ask(upstream, engine)).body == b"b" * 400_000
        else:
            with pytest.raises(NoAnswer, match="too large"):
                await ask(upstream, engine)


@POOLED
async def test_small_head_before_a_large_body(upstream: Upstream):
    """Found by reading: the body that came with the end of the head counted as head."""
    raw = HEAD + b"content-length: 3000000\r\n\r\n" + b"b" * 3_000_000

    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(raw[:5], pause_s=0.02)
        await peer.send(raw[5:])

    async with Engine(play) as engine:
        assert len((await ask(upstream, engine)).body) == 3_000_000


async def test_idle_between_pieces(upstream: Upstream):
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(TE, pause_s=0.05)
        await peer.send(*([b"1\r\nx\r\n"] * 6), pause_s=0.05)
        await peer.until_gone()

    sink = Collect()
    async with Engine(play) as engine:
        begun = asyncio.get_running_loop().time()
        with pytest.raises(StreamBroken) as caught:
            await ask(upstream, engine, sink=sink, idle_s=0.15)
        took_s = asyncio.get_running_loop().time() - begun
        assert caught.value.kind is FailureKind.IDLE_TIMEOUT
        assert sink.data == b"x" * 6, "shorter pauses are none"
        assert took_s < 0.3 + 2 * 0.15 + 0.2
        await engine.all_gone()


async def test_nobody_listens(upstream: Upstream):
    with refuses() as url:
        with pytest.raises(ConnectFailed) as caught:
            await ask(upstream, Origin.of(Lane.PLAIN, url))
        assert caught.value.lane is Lane.PLAIN
        assert str(caught.value)


@pytest.mark.parametrize("host", ["nowhere.invalid", "a" * 70 + ".test", "x" * 300])
async def test_name_that_is_none(upstream: Upstream, host: str):
    with pytest.raises(ConnectFailed):
        await ask(upstream, Origin.of(Lane.SPEC, f"http://{host}:1"))


async def test_takes_no_connection_in_time(form: Form):
    """A full backlog: the kernel drops the SYN, and connecting has an end of its own."""
    upstream = form.build(connect_timeout_s=0.2)
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        first.setblocking(False)
        second.setblocking(False)
        first.connect_ex(address)
        second.connect_ex(address)
        await asyncio.sleep(0.05)
        with pytest.raises(ConnectFailed):
            await ask(upstream, Origin.of(Lane.SPEC, f"http://127.0.0.1:{address[1]}"))
    await upstream.aclose()


async def test_fault_tells_what_and_no_secret(upstream: Upstream):
    async with Engine(dies(b"", "fin")) as engine:
        with pytest.raises(NoAnswer) as caught:
            await ask(upstream, engine)
        assert str(caught.value)
        assert "completions" not in str(caught.value)


async def test_nothing_is_left_waiting(upstream: Upstream):
    """A silent engine: cancelled, gone."""
    async with Engine(silent) as engine:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await upstream.send(origin(engine), get())
        await engine.all_gone()
