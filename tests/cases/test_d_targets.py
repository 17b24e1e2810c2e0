"""Cases D01 to D07: methods, paths and whose they are. Over both forms, but for what ASGI loses."""

import pytest

from specgate.core.events import RequestEnded
from tests.support.client import CHAT, JSON, chat, connect, request_bytes
from tests.support.lanes import Send, error_response, head, json_response, response
from tests.support.refusals import refused
from tests.support.stage import stage

both_forms = pytest.mark.usefixtures("form")


@both_forms
async def test_d01_percent_encoding():
    """A path was decoded and encoded again: %2F became a slash."""
    targets = [
        b"/v1/models/org%2Fname",
        b"/v1/a%20b",
        b"/v1/a%25b",
        b"/v1/caf%C3%A9",
        b"/v1/a+b",
        b"/v1/a;v=1",
        b"/v1/%zz%",
        b"/v1/%2e%2E/./../x",
    ]
    async with stage() as on, connect(on.url) as client:
        for target in targets:
            on.plain.answer_next(response(200, b"ok"))
            assert (await client.request(b"GET", target)).body.data == b"ok", target
        assert [request.target for request in on.plain.requests] == targets


@both_forms
async def test_d02_query_string_lost():
    """A query was parsed, and lost its duplicates, its order or its empty values."""
    target = b"/v1/thing?a=1&a=2&b=%2F&c&d=&&=?x"
    async with stage() as on, connect(on.url) as client:
        on.plain.answer_next(response(200, b"ok"))
        await client.request(b"GET", target)
        await client.request(b"POST", CHAT + b"?a=1&a=2", [JSON], chat())
        assert on.plain.requests[0].target == target
        assert on.spec.requests[0].target == CHAT + b"?a=1&a=2"


async def test_d02_lone_question_mark_and_fragment():
    """The same for what is next to nothing. ASGI loses it: `docs/reference/portable-form.md`."""
    targets = [b"/v1/thing?", b"/v1/thing??", b"/v1/thing#frag", b"/v1/thing?a#?b", b"/v1/thing#"]
    async with stage() as on, connect(on.url) as client:
        for target in targets:
            on.plain.answer_next(response(200, b"ok"))
            assert (await client.request(b"GET", target)).status == 200
        assert [request.target for request in on.plain.requests] == targets


@both_forms
async def test_d03_slash_redirects():
    """A framework's own 307 for a slash too many lost the body and the key."""
    key = (b"Authorization", b"Bearer sk-1")
    async with stage() as on:
        reply = await on.ask(target=CHAT + b"/", headers=[JSON, key], body=chat())
        assert reply.status == 200
        (request,) = on.spec.requests
        assert (request.target, request.body) == (CHAT + b"/", chat())
        assert request.values(b"authorization") == [key[1]]
        on.plain.answer_next(error_response(404, "no such path"), json_response(200, {}))
        assert (await on.ask(b"GET", b"/v1/models/", [])).status == 404
        assert (await on.ask(b"GET", b"//metrics", [])).status == 200


@both_forms
async def test_d04_options_and_cors():
    """A preflight was answered 405, or asked for a key. The gate has no CORS of its own to turn on:
    a preflight is the engine's, and so is the one Access-Control-Allow-Origin."""
    preflight = [
        (b"origin", b"https://app.example"),
        (b"access-control-request-method", b"POST"),
        (b"access-control-request-headers", b"authorization"),
    ]
    allowed = (b"Access-Control-Allow-Origin", b"https://app.example")
    async with stage() as on:
        on.plain.answer_next(response(204, b"", [allowed]))
        reply = await on.ask(b"OPTIONS", CHAT, preflight, b"")
        assert reply.status == 204
        assert reply.values(allowed[0]) == [allowed[1]]
        (request,) = on.plain.requests
        assert [pair for pair in request.headers if pair in preflight] == preflight
        on.spec.answer_next(json_response(200, {}, [allowed]))
        assert (await on.ask(headers=[JSON, preflight[0]])).values(allowed[0]) == [allowed[1]]


@both_forms
async def test_d05_head():
    """A HEAD lost the length, or waited for a body that never comes."""
    async with stage() as on, connect(on.url) as client:
        on.plain.answer_next(Send(head(200, [(b"content-length", b"500")])), response(200, b"next"))
        for target in (b"/v1/thing", b"/v1/models"):
            on.plain.answer_next(Send(head(200, [(b"content-length", b"500")])), path="/v1/models")
            reply = await client.request(b"HEAD", target)
            assert (reply.status, reply.values(b"content-length")) == (200, [b"500"])
            assert reply.values(b"transfer-encoding") == []
        assert (await client.request(b"GET", b"/v1/thing")).body.data == b"next"
        first, second, third = on.plain.requests
        assert first.connection is second.connection is third.connection


@both_forms
async def test_d05_head_of_the_gates_own_routes():
    """The same for the paths that the gate answers itself."""
    async with stage() as on, connect(on.url) as client:
        for path in (b"/livez", b"/readyz", b"/metrics", b"/_specgate/status", b"/_specgate/none"):
            reply = await client.request(b"HEAD", path)
            assert reply.status in (200, 404, 405), path
            assert (await client.request(b"GET", b"/livez")).status == 200
        assert on.plain.requests == []


@both_forms
async def test_d06_odd_methods():
    """A method was not forwarded, or lost its body."""
    with_body = [b"PATCH", b"DELETE", b"PUT", b"PROPFIND", b"REPORT", b"QUERY", b"M-SEARCH"]
    without = [b"OPTIONS", b"COPY", b"LOCK", b"PURGE", b"MKCOL"]
    async with stage() as on, connect(on.url) as client:
        for method in (*with_body, *without):
            on.plain.answer_next(response(200, method))
            body = b"{}" if method in with_body else None
            reply = await client.request(method, b"/v1/thing", [], body)
            assert reply.body.data == method
        for method, request in zip((*with_body, *without), on.plain.requests, strict=True):
            assert (request.method, request.body) == (method, b"{}" if method in with_body else b"")


async def test_d06_methods_that_a_gateway_must_not_carry():
    """CONNECT made a tunnel; TRACE showed the proxy's own headers; `get` was made GET."""
    host = b"Host: h\r\n\r\n"
    async with stage() as on:
        for raw in (
            b"CONNECT h:443 HTTP/1.1\r\n" + host + b"GET /v1/thing HTTP/1.1\r\n" + host,
            b"TRACE /v1/thing HTTP/1.1\r\n" + host,
        ):
            await refused(on, raw, 405, "method_refused")
        await refused(on, b"get /v1/thing HTTP/1.1\r\n" + host)


@both_forms
async def test_d07_reserved_path_collisions():
    """The proxy's own paths hid the engine's; one that no engine has was a 503."""
    async with stage() as on, connect(on.url) as client:
        for path in (b"/health", b"/metrics", b"/livez", b"/readyz", b"/ready"):
            assert (await client.request(b"GET", path)).status == 200
        assert (await client.request(b"GET", b"/_specgate/nothing")).status == 404
        assert on.plain.requests == on.spec.requests == []
        on.plain.answer("/get_server_info", json_response(200, {"engine": 1}))
        on.plain.answer("/v1/models", json_response(200, {"data": []}))
        # Near to the gate's own, and not its own.
        near = [b"/metrics/", b"/health/", b"/_specgatex", b"/v1/health", b"/unknown"]
        for path in near:
            on.plain.answer_next(error_response(404, "no such path"))
            reply = await client.request(b"GET", path)
            assert reply.status == 404
            assert b"no such path" in reply.body.data, path
        for path in (b"/get_server_info", b"/v1/models"):
            assert (await client.request(b"GET", path)).status == 200
        assert [request.target for request in on.plain.requests] == [
            *near,
            b"/get_server_info",
            b"/v1/models",
        ]
        assert len(on.gate.facts.of(RequestEnded)) == len(near) + 2


async def test_d07_encoded_spelling_of_an_own_path_is_own():
    """`/%6detrics` got past the proxy to the engine's metrics."""
    async with stage() as on, connect(on.url) as client:
        for path in (b"/%6detrics", b"/_spec%67ate/status", b"/%5fspecgate/status?x"):
            assert (await client.request(b"GET", path)).status == 200
        await client.send(request_bytes(b"GET", b"/metrics#x"))
        await client.read_head()
        assert client.status == 200
        await client.read_body()
        assert on.plain.requests == on.spec.requests == []
