"""Cases C01 to C06: which headers pass, which end here, and what we put in our own."""

import structlog.testing

from specgate.core.headers import Pairs
from tests.support.client import CHAT, JSON, chat, chat_request, chunked, connect
from tests.support.lanes import (
    DONE,
    Fin,
    error_response,
    json_response,
    response,
    sse_response,
)
from tests.support.stage import stage

STRANGE = b"\xe4\xb8\xad \xff\xe9"
LOWER_HOPS = ("connection", "keep-alive", "te", "proxy-authorization", "proxy-authenticate")
HOPS = [name.encode() for name in (*LOWER_HOPS, "proxy-connection", "upgrade", "http2-settings")]


async def test_c01_duplicate_server_and_date():
    """Two Server and two Date headers: the proxy's own beside the engine's."""
    server, date = (b"Server", b"engine/1"), (b"Date", b"Mon, 01 Jan 2024 00:00:00 GMT")
    async with stage() as on:
        on.spec.answer_next(json_response(200, {}, [server, date]), json_response(200, {}))
        reply = await on.ask()
        assert reply.values(b"server") == [server[1]]
        assert reply.values(b"date") == [date[1]]
        bare = await on.ask()
        assert bare.values(b"server") == bare.values(b"date") == []


async def test_c02_connection_named_headers_of_a_request():
    """Fields that the client's Connection header names were passed on."""
    hops = [
        (b"Connection", b"keep-alive, X-Secret"),
        (b"Connection", b"x-other"),
        (b"X-Secret", b"1"),
        (b"X-Other", b"2"),
        (b"Keep-Alive", b"timeout=5"),
        (b"TE", b"trailers"),
        (b"Proxy-Authorization", b"Basic eDp5"),
        (b"Proxy-Connection", b"keep-alive"),
    ]
    async with stage() as on, connect(on.url) as client:
        await client.request(b"POST", CHAT, [JSON, *hops, (b"X-Kept", b"3")], chat())
        (request,) = on.spec.requests
        assert request.values(b"x-kept") == [b"3"]
        for name in (*HOPS, b"x-secret", b"x-other"):
            assert request.values(name) == [], name


async def test_c02_connection_named_headers_of_a_response():
    """Fields that the engine's Connection header names reached the client, or its close did."""
    hops = [
        (b"Connection", b"close, X-Secret"),
        (b"X-Secret", b"1"),
        (b"Keep-Alive", b"timeout=5"),
        (b"Proxy-Authenticate", b"Basic"),
    ]
    async with stage() as on:
        on.spec.answer_next([json_response(200, {}, [*hops, (b"X-Kept", b"3")]), Fin()])
        async with connect(on.url) as client:
            reply = await client.request(b"POST", CHAT, [JSON], chat())
            assert reply.values(b"x-kept") == [b"3"]
            for name in (*HOPS, b"x-secret"):
                assert reply.values(name) == [], name
            again = await client.request(b"POST", CHAT, [JSON], chat())
            assert again.status == 200, "the lane's close is not the client's"
        first, second = on.spec.requests
        assert first.connection is not second.connection


async def test_c02_connection_cannot_name_the_framing():
    """A Connection header that named the length left a body without framing."""
    body = chat()
    length, coding = (b"Content-Length", b"%d" % len(body)), (b"Transfer-Encoding", b"chunked")
    async with stage() as on:
        for framing, raw, named in (
            (length, body, b"content-length, host"),
            (coding, chunked(body), b"Transfer-Encoding"),
        ):
            reply = await on.ask(headers=[JSON, (b"Connection", named), framing], body=raw)
            assert reply.status == 200
            request = on.spec.requests[-1]
            assert request.body == body
            assert request.values(framing[0]) == [framing[1]]
            assert request.values(b"host") == [on.spec.url.removeprefix("http://").encode()]


async def test_c02_length_named_by_a_response():
    """As before, the other way."""
    async with stage() as on, connect(on.url) as client:
        on.spec.answer_next(json_response(200, {"a": 1}, [(b"Connection", b"content-length")]))
        reply = await client.request(b"POST", CHAT, [JSON], chat())
        assert reply.body.data == b'{"a": 1}'
        assert reply.body.clean


async def test_c02_upgrade_to_http_2_is_not_taken_up():
    """Clients that offer h2c (Java's, curl --http2) had their offer passed on, or lost their body:
    the parser reads none behind an offer. (Through ASGI, docs/reference/portable-form.md.)
    """
    offer = [
        (b"Connection", b"Upgrade, HTTP2-Settings"),
        (b"Upgrade", b"h2c"),
        (b"HTTP2-Settings", b"AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA"),
    ]
    async with stage() as on:
        on.plain.answer_next(json_response(200, {}))
        reply = await on.ask(b"GET", b"/v1/thing", offer)
        assert reply.status == 200
        for framing, body in (
            ([], chat()),
            ([(b"Transfer-Encoding", b"chunked")], chunked(chat())),
        ):
            assert (await on.ask(headers=[JSON, *framing, *offer], body=body)).status == 200
        assert [request.body for request in on.spec.requests] == [chat()] * 2
        for request in on.plain.requests + on.spec.requests:
            for name in HOPS:
                assert request.values(name) == [], name


async def test_c03_header_values_that_are_not_ascii():
    """A library raised on encoding or decoding a value, and the client got a 500."""
    async with stage() as on:
        on.spec.answer_next(json_response(200, {}, [(b"X-Strange", STRANGE)]))
        reply = await on.ask(headers=[JSON, (b"X-Strange", STRANGE), (b"X-Request-Id", STRANGE)])
        assert reply.status == 200
        assert reply.values(b"x-strange") == [STRANGE]
        (request,) = on.spec.requests
        assert request.values(b"x-strange") == [STRANGE]
        assert request.value(b"x-request-id") != STRANGE


async def test_c04_model_name_with_a_line_break():
    """A value from the body became a header of its own."""
    body = chat(model="m\r\nX-Evil: 1")
    async with stage() as on:
        on.spec.answer_next(json_response(200, {}), error_response(404, "no model m\r\nX-Evil: 1"))
        for status in (200, 404):
            reply = await on.ask(body=body)
            assert reply.status == status
            assert reply.values(b"x-evil") == []
        assert [request.body for request in on.spec.requests] == [body, body]
        assert not any(request.values(b"x-evil") for request in on.spec.requests)


async def test_c04_invalid_request_id_is_replaced():
    """A request id was reflected whatever it held."""
    encoded, escaped = b"a%0d%0aX-Evil: 1", b"a\\r\\nX-Evil: 1"
    invalid = [encoded, escaped, b"a\tb", b'a"b', b"x" * 129, b"", STRANGE]
    async with stage() as on:
        for count, bad in enumerate(invalid, start=1):
            reply = await on.ask(headers=[JSON, (b"X-Request-Id", bad)])
            (fresh,) = reply.values(b"x-request-id")
            assert fresh.isalnum()
            assert len(fresh) < 64
            assert on.spec.requests[-1].values(b"x-request-id") == [fresh]
            assert (await on.ended(count)).request_id.encode() == fresh


async def test_c04_request_id_with_a_raw_line_break():
    """The same with the bytes themselves: refused, or one header with an id of ours."""
    async with stage() as on:
        for between in (b"\r", b"\r\n ", b"\x00"):
            async with connect(on.url) as client:
                evil = (b"X-Request-Id", b"a" + between + b"X-Evil: 1")
                await client.send(chat_request(headers=[evil]))
                await client.read_head()
                assert client.status in (200, 400)
                assert not any(b"evil" in name.lower() + value for name, value in client.headers)
                await client.read_body()
        assert not any(b"vil" in request.raw_head for request in on.spec.requests)


async def test_c04_the_gates_own_headers_are_its_alone():
    """A client or an engine spoke in the proxy's name."""
    forged: Pairs = [(b"X-Specgate-Lane", b"plain"), (b"x-specgate-anything", b"1")]
    async with stage() as on:
        on.spec.answer_next(json_response(200, {}, forged))
        reply = await on.ask(headers=[JSON, *forged])
        assert reply.values(b"x-specgate-lane") == [b"spec"]
        assert reply.values(b"x-specgate-anything") == []
        assert b"specgate" not in on.spec.requests[0].raw_head.lower()


async def test_c05_request_id_of_the_client():
    """The client's id was not sent on, or not sent back."""
    mine = b"req_01/AZ-az.09:+=@"
    async with stage() as on:
        echo = json_response(200, {}, [(b"X-Request-Id", mine)])
        on.spec.answer_next(json_response(200, {}), echo)
        with structlog.testing.capture_logs() as lines:
            for count in (1, 2):
                reply = await on.ask(headers=[JSON, (b"X-Request-Id", mine)])
                assert reply.values(b"x-request-id") == [mine]
                assert (await on.ended(count)).request_id == mine.decode()
        assert [line["request_id"] for line in lines if line["event"] == "request"] == [
            mine.decode()
        ] * 2
        for request in on.spec.requests:
            assert request.values(b"x-request-id") == [mine]


async def test_c05_request_id_of_our_own():
    """A generated id was not sent on."""
    seen = set()
    async with stage() as on:
        for count in (1, 2):
            reply = await on.ask()
            (fresh,) = reply.values(b"x-request-id")
            assert on.spec.requests[-1].values(b"x-request-id") == [fresh]
            assert (await on.ended(count)).request_id.encode() == fresh
            seen.add(fresh)
        await on.spec.stop()
        await on.plain.stop()
        refused = await on.ask()
        assert refused.status == 503
        (fresh,) = refused.values(b"x-request-id")
        assert (await on.ended(3)).request_id.encode() == fresh
        seen.add(fresh)
    assert len(seen) == 3


async def test_c05_trace_context_is_unchanged():
    """An incoming trace was ignored or begun anew."""
    trace: Pairs = [
        (b"traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        (b"tracestate", b"a=1,b=2"),
        (b"tracestate", b"c=3"),
        (b"baggage", b"user=%C3%A9"),
    ]
    async with stage() as on:
        await on.ask(headers=[JSON, *trace])
        await on.ask()
        traced, bare = on.spec.requests
        names = {name for name, _ in trace}
        assert [pair for pair in traced.headers if pair[0].lower() in names] == trace
        assert not [pair for pair in bare.headers if pair[0].lower() in names]


async def test_c06_content_type_lost():
    """A response's content type was lost or replaced by the proxy's default."""
    async with stage() as on:
        for given in (b"application/x-ndjson", b"text/plain; charset=x", b'Text/H;q="a;b"', None):
            headers = [] if given is None else [(b"Content-Type", given)]
            for lane in (on.spec, on.plain):
                lane.answer_next(response(200, b"{}\n", headers))
            for reply in (await on.ask(), await on.ask(b"GET", b"/v1/thing", [])):
                assert reply.values(b"content-type") == ([] if given is None else [given])


async def test_c06_content_type_of_a_stream():
    """A stream's parameters were dropped from its type."""
    given = b"text/event-stream; charset=utf-8"
    async with stage() as on:
        on.spec.answer_next(sse_response([DONE], content_type=given))
        assert (await on.ask()).values(b"content-type") == [given]
