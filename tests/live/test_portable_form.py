"""docs/reference/portable-form.md: each difference of the portable form, as the page has it.

The other column is held by the tests of our own connections: test_framing, test_client_time,
test_client_leaves and test_pipelining here, and tests/cases.
"""

import asyncio
from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest

from specgate.core.events import Outcome, RequestEnded
from specgate.proxy.head import HEAD_LIMIT
from tests.support import live
from tests.support.client import CHAT, JSON, chat, chat_request, chunked, connect, request_bytes
from tests.support.lanes import Send, Silent, chunk, delta, response, sse_head, sse_response
from tests.support.stage import Stage, stage

CHUNKED = (b"Transfer-Encoding", b"chunked")
OFFER = [(b"Connection", b"Upgrade"), (b"Upgrade", b"h2c")]


@pytest.fixture(autouse=True)
def portable() -> Iterator[None]:
    live.PORTABLE = True
    yield
    live.PORTABLE = False


async def test_target_loses_what_is_next_to_nothing():
    async with stage() as on, connect(on.url) as client:
        for target in (b"/v1/thing?", b"/v1/thing#frag"):
            on.plain.answer_next(response(200, b"ok"))
            await client.request(b"GET", target)
        assert [request.target for request in on.plain.requests] == [b"/v1/thing"] * 2


async def test_names_reason_and_trailers():
    answer = b"HTTP/1.1 200 Fine\r\nX-Loud: 1\r\ntransfer-encoding: chunked\r\n\r\n"
    trailers = chunk(b"a") + b"0\r\nX-Sum: 1\r\n\r\n"
    async with stage() as on, connect(on.url) as client:
        on.plain.answer_next(Send(answer + trailers))
        await client.send(request_bytes(b"GET", b"/v1/thing", [(b"X-Upper", b"1")]))
        line, headers = await client.read_head()
        assert line == b"HTTP/1.1 200 OK"
        assert headers[0] == (b"x-loud", b"1")
        assert await client.read_until(b"0\r\n") == b"1\r\na\r\n0\r\n"
        assert await client.read_exact(2) == b"\r\n"
        assert (b"x-upper", b"1") in on.plain.requests[0].headers


async def test_http_1_0_gets_chunks_and_the_end():
    keep = (b"Connection", b"keep-alive")
    async with stage() as on, connect(on.url) as client:
        on.spec.answer_next(sse_response([delta("a")]))
        raw = request_bytes(b"POST", CHAT, [JSON, keep], chat())
        await client.send(raw.replace(b"HTTP/1.1", b"HTTP/1.0"))
        await client.read_head()
        assert (await client.read_body()).ending == "chunked"
        assert await client.ended() == "fin"


async def test_trailers_in_one_read_with_the_head_act_as_headers():
    coded = chunked(chat())[:-2] + b"X-Trailer: 1\r\n\r\n"
    head = request_bytes(b"POST", CHAT, [JSON, CHUNKED])
    async with stage() as on, connect(on.url) as client:
        on.spec.answer_next(response(200), response(200))
        await client.send(head + coded)
        await client.read_head()
        await client.send(head)
        await asyncio.sleep(0.1)
        await client.send(coded)
        await client.read_head()
        assert [request.values(b"x-trailer") for request in on.spec.requests] == [[b"1"], []]


async def test_offer_of_h2c_loses_the_body():
    async with stage() as on:
        reply = await on.ask(headers=[JSON, *OFFER])
        assert reply.status == 400
        assert reply.values(b"connection") == [b"close"]
        assert on.spec.requests == []
        on.spec.answer_next(response(200))
        reply = await on.ask(headers=[JSON, CHUNKED, *OFFER], body=chunked(chat()))
        assert on.spec.requests[0].body == b""


async def test_what_is_no_http_is_uvicorns():
    async with stage() as on:
        async with connect(on.url) as client:
            await client.send(b"GET / HTTP/1.1\nHost: h\r\n\r\n")
            _, headers = await client.read_head()
            assert client.status == 400
            assert (b"content-type", b"text/plain; charset=utf-8") in headers
        assert on.gate.facts.of(RequestEnded) == []
        async with connect(on.url) as client:
            on.plain.answer_next(response(200))
            await client.send(b"GET /v1/thing HTTP/2.0\r\nHost: h\r\n\r\n")
            await client.read_head()
            assert client.status == 200


async def test_limits_are_not_applied():
    async with stage(body_limit=10, head_timeout_s=0.2, body_timeout_s=0.2) as on:
        long = (b"X-Long", b"x" * (HEAD_LIMIT + 1000))
        async with connect(on.url) as client:
            on.spec.answer_next(response(200, b"ok"))
            raw = request_bytes(b"POST", CHAT, [JSON], chat())
            for piece in (raw[:20], raw[20:-10], raw[-10:]):
                await client.send(piece)
                await asyncio.sleep(0.4)
            await client.read_head()
            assert client.status == 200
        on.plain.answer_next(response(200, b"ok"))
        async with connect(on.url) as client:
            await client.send(request_bytes(b"GET", b"/v1/thing", [long]))
            await client.read_head()
            assert client.status == 200


async def test_socket_of_a_client_that_does_not_read_stays():
    big = chunk(delta("x" * 100_000))
    async with stage(send_timeout_s=0.4) as on, connect(on.url, receive_buffer=4096) as client:
        on.spec.answer_next([Send(sse_head()), *[Send(big)] * 200, Silent()])
        await client.send(chat_request())
        await client.read_head()
        client.stop_reading()
        await on.spec.saw_close(within_s=3)
        assert (await on.ended()).outcome is Outcome.CLIENT_STALLED
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert await client.ended() == "fin", "what the buffers held was there to be read"


async def test_leaving_while_it_is_not_read_is_noticed_late():
    async with stage() as on, connect(on.url) as client:
        on.spec.answer_next(Silent())
        await client.send(chat_request() + request_bytes(b"GET", b"/v1/thing"))
        await on.spec.saw_requests()
        await client.close()
        with pytest.raises(AssertionError):
            await on.ended()
        await on.spec.stop()
        await on.spec.start()
        await on.ended()


@pytest.mark.parametrize("path", [CHAT, b"/v1/files"], ids=["read ahead", "passed on"])
async def test_body_of_http_2_without_a_length_arrives(path: bytes):
    """Found with hypercorn: a head that says nothing of a body was taken for one without."""
    body = chat()
    async with stage() as on:
        lane = on.spec if path == CHAT else on.plain
        lane.answer("*", response(200, b"ok"))
        for pieces in ([body[:5], body[5:], b""], [body], [b"", body]):
            assert await http_2(on, "POST", path, pieces) == (200, b"ok")
            assert lane.requests[-1].body == body
            assert lane.requests[-1].values(b"transfer-encoding") == [b"chunked"]
        on.plain.answer("/v1/thing", response(200, b"ok"))
        assert await http_2(on, "GET", b"/v1/thing", [b""]) == (200, b"ok")
        (request,) = on.plain.requests[-1:]
        assert request.values(b"transfer-encoding") == request.values(b"content-length") == []
        assert await http_2(on, "POST", path, []) == (0, b""), "it left before its body"


async def http_2(on: Stage, method: str, path: bytes, pieces: list[bytes]) -> tuple[int, bytes]:
    """What a server of HTTP/2 makes of a request whose head has no length, and what it gets. A
    client that sends no piece has left."""
    scope: dict[str, Any] = {
        "type": "http",
        "http_version": "2",
        "method": method,
        "scheme": "http",
        "path": path.decode(),
        "raw_path": path,
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"gate"), JSON],
        "client": None,
        "server": None,
        "state": {},
    }
    messages = [
        {"type": "http.request", "body": piece, "more_body": number < len(pieces)}
        for number, piece in enumerate(pieces, 1)
    ]
    status, sent = 0, b""

    async def receive() -> dict[str, object]:
        if messages:
            return messages.pop(0)
        if pieces:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        nonlocal status, sent
        status = message.get("status", status)
        sent += message.get("body", b"")

    await on.gate.service.app(scope, receive, send)
    return status, sent


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        (b"TRACE", [], 405),
        (b"GET", [(b"Host", b"a"), (b"host", b"b")], 400),
        (b"GET", [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket")], 501),
        (b"POST", [(b"Transfer-Encoding", b"gzip, chunked")], 400),
    ],
)
async def test_heads_are_refused_all_the_same(method, headers, status):
    async with stage() as on, connect(on.url) as client:
        await client.send(request_bytes(method, b"/v1/thing", headers))
        await client.read_head()
        assert client.status == status
        assert (await client.read_body()).clean
        assert await client.ended() == "fin"
        assert on.plain.requests == on.spec.requests == []
