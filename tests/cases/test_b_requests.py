"""Cases B05, B07, B08 and B09, on the client's side of the gate."""

import asyncio

import pytest

from specgate.core.events import Outcome
from tests.support.client import CHAT, JSON, RawClient, chunked, connect, request_bytes
from tests.support.invariants import rss_mb
from tests.support.lanes import DontReadBody, Pause, ReadBody, Send, Step, chunk, head, response
from tests.support.refusals import read_refusal, refused
from tests.support.stage import Stage, stage

CHUNKED = (b"Transfer-Encoding", b"chunked")
SMUGGLED = b"GET /v1/smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
MIB = 1024 * 1024


@pytest.mark.parametrize("target", [CHAT, b"/v1/files"], ids=["generation", "other"])
async def test_b05_request_smuggling(target: bytes):
    """A second request hidden in the body of the first. `tests/live/test_framing.py` has the rest
    of the ways in which a message can be read in two ways."""
    line = b"POST " + target + b" HTTP/1.1\r\nHost: h\r\n"
    length = b"Content-Length: %d\r\n" % len(SMUGGLED)
    async with stage() as on:
        for framing in (
            length + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"Transfer-Encoding: chunked\r\n" + length + b"\r\n0\r\n\r\n",
            b"Content-Length: 0\r\n" + length + b"\r\n",
            length + b"Content-Length: 0\r\n\r\n",
            length + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
            b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
            b"Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n",
            b"Transfer-Encoding: chunked\r\n\r\n0\n\r\n",
            b"Transfer-Encoding: chunked\r\n\r\n1\r\nZ\r\n0\r\n\n",
        ):
            await refused(on, line + framing + SMUGGLED)
    # A body that looks like a request is a body.
    async with stage() as on:
        assert (await on.ask(b"POST", target, [], SMUGGLED)).status in (200, 400, 404)
        lane = on.spec if target == CHAT else on.plain
        assert [request.body for request in lane.requests] == [SMUGGLED]


async def to_be_continued(on: Stage, client: RawClient, size: int) -> None:
    """Send a head that waits for its 100 Continue, and take that: promptly."""
    headers = [(b"Content-Length", b"%d" % size), (b"Expect", b"100-continue")]
    async with asyncio.timeout(0.5):
        await client.send(request_bytes(b"POST", b"/v1/files", headers))
        line, pairs = await client.read_head()
    assert (line, pairs) == (b"HTTP/1.1 100 Continue", [])


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("lane_continues", [True, False])
async def test_b07_expect_100_continue(lane_continues: bool):
    """Clients with a large body waited a second for a word that nobody said."""
    body = b"x" * 2 * MIB
    interim: list[Step] = [DontReadBody(), Send(b"HTTP/1.1 100 Continue\r\n\r\n"), ReadBody()]
    async with stage() as on, connect(on.url) as client:
        on.plain.answer_next([*(interim if lane_continues else []), response(200, b"ok")])
        await to_be_continued(on, client, len(body))
        await client.send(body)
        await client.read_head()
        assert (client.status, (await client.read_body()).data) == (200, b"ok")
        (request,) = on.plain.requests
        assert request.body == body
        assert request.values(b"expect") == []


async def test_b07_expect_and_the_lane_refuses():
    """The lane's 413 got lost in a reset, or came after the whole body."""
    async with stage() as on, connect(on.url) as client:
        on.plain.answer_next([DontReadBody(), response(413, b"too large")])
        await to_be_continued(on, client, 2 * MIB)
        await client.read_head()
        assert (client.status, (await client.read_body()).data) == (413, b"too large")
        await client.send(b"x" * 2 * MIB)
        assert await client.ended(within_s=4) == "fin"


async def test_b07_expect_is_told_in_its_turn():
    """A word to go on came in the middle of another request's response; or a wait of the gate's
    own was held against the client."""
    first = request_bytes(b"GET", b"/v1/slow")
    headers = [(b"Content-Length", b"2"), (b"Expect", b"100-continue")]
    async with stage(body_timeout_s=0.2) as on, connect(on.url) as client:
        on.plain.answer_next([Pause(0.5), response(200, b"one")], response(200, b"two"))
        await client.send(first + request_bytes(b"POST", b"/v1/files", headers))
        await client.read_head()
        assert (client.status, (await client.read_body()).data) == (200, b"one")
        assert (await client.read_head())[0] == b"HTTP/1.1 100 Continue"
        await client.send(b"{}")
        await client.read_head()
        assert (client.status, (await client.read_body()).data) == (200, b"two")


async def test_b07_no_word_to_go_on_where_none_is_due():
    """Nothing to send, nothing that will be taken, or a client of HTTP/1.0."""
    expect = (b"Expect", b"100-continue")
    async with stage(body_limit=10) as on, connect(on.url) as client:
        on.plain.answer_next(response(200, b"ok"), response(200, b"old"))
        assert (await client.request(b"GET", b"/v1/thing", [expect])).status == 200
        old = request_bytes(b"POST", b"/v1/old", [expect, (b"Connection", b"keep-alive")], b"{}")
        await client.send(old.replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert (await client.read_head())[0] == b"HTTP/1.1 200 OK"
        await client.read_body()
        await client.send(request_bytes(b"POST", CHAT, [expect, (b"Content-Length", b"11")]))
        await read_refusal(client, 413, "body_too_large")


@pytest.mark.usefixtures("form")
async def test_b08_responses_without_a_body():
    """204 and 304 got a `Transfer-Encoding: chunked`, or a stray chunk before the next response."""
    bare = [(204, []), (304, []), (304, [(b"etag", b'"1"')])]
    async with stage() as on, connect(on.url) as client:
        for status, pairs in bare:
            on.plain.answer_next(Send(head(status, pairs)), response(404), response(200, b"next"))
            reply = await client.request(b"GET", b"/v1/thing")
            assert reply.status == status
            assert reply.values(b"transfer-encoding") == reply.values(b"content-length") == []
            empty = await client.request(b"GET", b"/v1/thing")
            assert (empty.status, empty.values(b"content-length")) == (404, [b"0"])
            assert empty.values(b"transfer-encoding") == []
            assert (await client.request(b"GET", b"/v1/thing")).body.data == b"next"


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_b09_large_bodies(framing: str):
    """A cap of the proxy's refused images; memory grew by several bodies."""
    image = b'{"messages": [], "image": "' + b"QUJD" * (10 * MIB) + b'"}'
    async with stage() as on:
        before = rss_mb()
        if framing == "length":
            reply = await on.ask(b"POST", CHAT, [JSON], image)
        else:
            pieces = [image[at : at + MIB] for at in range(0, len(image), MIB)]
            reply = await on.ask(b"POST", CHAT, [JSON, CHUNKED], chunked(*pieces))
        assert reply.status == 200
        assert on.spec.requests[0].body == image
        # The client and the lane of this process hold their copies, of which there are four.
        assert rss_mb() - before < 6 * 40


@pytest.mark.parametrize("target", [CHAT, b"/v1/files"], ids=["generation", "other"])
async def test_b09_body_limit(target: bytes):
    """The cap was skipped for chunked uploads, or answered with another status."""
    limit = 300_000
    async with stage(body_limit=limit) as on:
        lane = on.spec if target == CHAT else on.plain
        for body, headers in (
            (b"x" * limit, []),
            (chunked(b"x" * 100_000, b"x" * (limit - 100_000)), [CHUNKED]),
        ):
            lane.answer_next(response(200, b"ok"))
            assert (await on.ask(b"POST", target, headers, body)).status == 200
            assert len(lane.requests[-1].body) == limit
        await on.ended(2)
        async with connect(on.url) as client:
            await client.send(
                request_bytes(b"POST", target, [(b"Content-Length", b"%d" % (limit + 1))])
            )
            reply = await read_refusal(client, 413, "body_too_large")
            assert reply.values(b"content-type") == [b"application/json"]
        assert len(lane.requests) == 2, "its length was enough to refuse it"
        async with connect(on.url) as client:
            await client.send(request_bytes(b"POST", target, [CHUNKED]))
            for _ in range(4):
                await client.send(chunk(b"x" * 100_000))
                await asyncio.sleep(0.02)
            await read_refusal(client, 413, "body_too_large")
        assert not any(request.complete for request in lane.requests[2:])
        ended = await on.ended(4)
        assert (ended.outcome, ended.status) == (Outcome.REFUSED, 413)
