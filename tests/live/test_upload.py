"""A request on its way up: target, method, headers and body reach the lane as they were sent."""

import asyncio
import os

import pytest

from specgate.core.events import Outcome
from tests.support.client import CHAT, JSON, chat, chunked, connect, request_bytes
from tests.support.invariants import rss_mb
from tests.support.lanes import DontReadBody, ReadBody, ScriptedLane, Send, WaitFor, response
from tests.support.stage import Stage, stage

pytestmark = pytest.mark.usefixtures("form")

CHUNKED = (b"Transfer-Encoding", b"chunked")
TARGETS = [
    b"/v1/models/org%2Fname",
    b"/v1/a%20b%25c%C3%A9+d;v=1",
    b"/v1/%zz/%2e%2e/%2E/x",
    b"/v1//x/",
    b"//v1/x",
    b"/v1/../x",
    b"/v1/~!$&'()*,:@|^`\"{}[]",
    b"/?a=1&a=2&b=%2F&c&d=",
    b"/v1/x??a=/?&%00%0d%0aX-Evil:1",
    b"/v1/chat/completions/?x=%41",
    b"/",
]


def lane_of(on: Stage, *, generation: bool) -> ScriptedLane:
    return on.spec if generation else on.plain


async def test_target_is_the_same_bytes():
    async with stage() as on, connect(on.url) as client:
        for target in TARGETS:
            on.plain.answer_next(response(200, b"ok"))
            assert (await client.request(b"GET", target)).body.data == b"ok", target
        assert [request.target for request in on.plain.requests] == TARGETS


async def test_line_break_in_a_path_is_the_engines():
    async with stage() as on:
        on.plain.answer_next(response(200, b"ok"))
        reply = await on.ask(b"GET", b"/v1/x%0d%0aX-Evil:1", [])
        assert reply.body.data == b"ok"


async def test_generation_is_known_by_its_decoded_path():
    async with stage() as on, connect(on.url) as client:
        targets = [b"/v1/chat%2Fcompletions", CHAT + b"?x=%2F", CHAT + b"/"]
        for target in targets:
            assert (await client.request(b"POST", target, [JSON], chat())).status == 200
        assert [request.target for request in on.spec.requests] == targets


async def test_base_path_of_a_lane_goes_before():
    async with stage(spec_base="/pool/a%20b", plain_base="/plain/") as on:
        # By its path: behind the base, the gate's own probes and scrapes are requests like any.
        on.plain.answer("/plain/v1/x%2Fy", response(200, b"ok"))
        assert (await on.ask(target=CHAT + b"?q=1", body=chat())).status == 200
        assert (await on.ask(b"GET", b"/v1/x%2Fy?z", [])).status == 200
        asked = [request.target for request in on.spec.requests + on.plain.requests]
        assert b"/pool/a%20b" + CHAT + b"?q=1" in asked
        assert b"/plain/v1/x%2Fy?z" in asked
        assert {b"/pool/a%20b/ready", b"/plain/ready"} <= set(asked), "probes too"


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_methods_carry_a_body(framing):
    methods = [b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"PROPFIND", b"GET"]
    body = b'{"key": "\xe4\xff\x00"}'
    async with stage() as on, connect(on.url) as client:
        for method in methods:
            on.plain.answer_next(response(200, method))
            if framing == "length":
                reply = await client.request(method, b"/v1/thing", [JSON], body)
            else:
                raw = chunked(body[:4], body[4:])
                reply = await client.request(method, b"/v1/thing", [JSON, CHUNKED], raw)
            assert reply.body.data == method
        for method, request in zip(methods, on.plain.requests, strict=True):
            assert request.method == method
            assert request.body == body
            lengths = [b"%d" % len(body)] if framing == "length" else []
            assert request.values(b"content-length") == lengths
            assert request.values(b"transfer-encoding") == ([] if lengths else [b"chunked"])


async def test_request_without_a_body():
    async with stage() as on, connect(on.url) as client:
        for method in (b"GET", b"DELETE", b"POST"):
            on.plain.answer_next(response(200, b"ok"))
            await client.request(method, b"/v1/thing")
        assert on.plain.requests_total == 3
        for request in on.plain.requests:
            assert request.raw_body == b""
            assert request.values(b"transfer-encoding") == []
            lengths = [b"0"] if request.method == b"POST" else []
            assert request.values(b"content-length") == lengths


@pytest.mark.parametrize("path", [CHAT, b"/v1/files"], ids=["generation", "other"])
@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_large_body_arrives_byte_for_byte(path, framing):
    body = os.urandom(5 * 1024 * 1024)
    async with stage() as on:
        lane = lane_of(on, generation=path == CHAT)
        lane.answer_next(response(200, b"ok"))
        if framing == "length":
            reply = await on.ask(b"POST", path, [JSON], body)
        else:
            pieces = (body[at : at + 100_003] for at in range(0, len(body), 100_003))
            reply = await on.ask(b"POST", path, [JSON, CHUNKED], chunked(*pieces))
        assert reply.body.data == b"ok"
        assert lane.requests[0].body == body


async def test_upload_passes_as_it_comes():
    """A body of no generation is not collected first: the lane sees its beginning."""
    async with stage() as on, connect(on.url) as client:
        on.plain.answer_next(response(200, b"ok"))
        await client.send(request_bytes(b"POST", b"/v1/files", [CHUNKED]) + b"3\r\nabc\r\n")
        (request,) = await on.plain.saw_requests()
        async with asyncio.timeout(2):
            while request.body != b"abc":
                await asyncio.sleep(0.01)
        assert not request.complete
        await client.send(b"1\r\nd\r\n0\r\n\r\n")
        await client.read_head()
        assert (client.status, request.body) == (200, b"abcd")


async def test_lane_that_does_not_read_stops_the_client():
    """The gate holds a bounded part of an upload, whatever the lane does.

    A client that leaves meanwhile: tests/live/test_client_leaves.py, and for the portable form its
    page. Here the lane reads on, so that both forms notice.
    """
    sent = 0
    piece = b"x" * 65536
    reads_on = asyncio.Event()
    async with stage() as on:
        on.spec.answer_next([DontReadBody(), WaitFor(reads_on), ReadBody()])
        async with connect(on.url) as client:
            before = rss_mb()
            await client.send(request_bytes(b"POST", CHAT, [(b"Content-Length", b"1000000000")]))
            try:
                while True:
                    async with asyncio.timeout(1):
                        await client.send(piece)
                    sent += len(piece)
            except TimeoutError:
                pass
            assert sent < 32_000_000
            assert rss_mb() - before < 32
            client.rst()
        reads_on.set()
        await on.spec.saw_close()
        assert (await on.ended()).outcome is Outcome.CLIENT_GONE


async def test_headers_pass_in_order_with_their_duplicates():
    pairs = [(b"x-a", b"1"), (b"x-b", b"2"), (b"x-a", b"3"), (b"cookie", b"k=v")]
    async with stage() as on:
        await on.ask(headers=[JSON, *pairs, (b"Authorization", b"Bearer sk-1")])
        (request,) = on.spec.requests
        assert [pair for pair in request.headers if pair in pairs] == pairs
        assert request.values(b"authorization") == [b"Bearer sk-1"]
        # Nothing of ours but these: no agent, no accepted encodings, no connection.
        names = {name.lower() for name, _ in request.headers}
        assert names - {name for name, _ in pairs} == {
            *(b"host", b"content-type", b"content-length", b"authorization", b"x-request-id"),
        }


async def test_requests_of_one_connection_stay_apart():
    async with stage() as on, connect(on.url) as client:
        first, second = chat(stream=False, seed=1), chat(stream=False, seed=2)
        both = request_bytes(b"POST", CHAT, [JSON], first)
        await client.send(both + request_bytes(b"POST", CHAT, [JSON], second))
        for _ in range(2):
            await client.read_head()
            assert (await client.read_body()).clean
        assert [request.body for request in on.spec.requests] == [first, second]


async def test_early_answer_reaches_a_client_that_still_sends():
    """A lane that refuses a body answers, and closes, without reading it all."""
    refusal = response(413, b"too large")
    async with stage() as on, connect(on.url) as client:
        on.plain.answer_next([DontReadBody(), Send(refusal.data)])
        await client.send(request_bytes(b"POST", b"/v1/files", [(b"Content-Length", b"900000")]))
        sending = asyncio.ensure_future(client.send(b"x" * 900_000))
        await client.read_head()
        assert client.status == 413
        assert (await client.read_body()).data == b"too large"
        await sending
