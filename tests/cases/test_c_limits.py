"""Cases C07, C08 and C09: heads that are too large, Host, and keys."""

import asyncio

import pytest

from specgate.core.events import Outcome
from specgate.proxy.head import HEAD_LIMIT
from tests.support.client import CHAT, JSON, chat, connect, request_bytes
from tests.support.lanes import json_response
from tests.support.refusals import read_refusal, refused
from tests.support.stage import stage


async def test_c07_very_many_and_very_long_headers():
    """A head of 60 KB hung the proxy, or one of 5 MB was taken."""
    large = 60 * 1024
    async with stage() as on:
        for headers in (
            [(b"X-Long", b"x" * large)],
            [(b"x-%d" % number, b"v" * 20) for number in range(large // 30)],
        ):
            assert (await on.ask(headers=[JSON, *headers])).status == 200
            sent = [pair for pair in on.spec.requests[-1].headers if pair in headers]
            assert sent == headers


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: h\r\nX-Long: " + b"x" * 5_000_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\n" + b"a: b\r\n" * 500_000 + b"\r\n",
        b"GET /" + b"x" * 5_000_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\n" + b"n" * 5_000_000 + b": v\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nX-Long: " + b"x" * (HEAD_LIMIT + 1) + b"\r\n\r\n",
        b"\r\n" * 500_000,
    ],
    ids=["long value", "many headers", "long target", "long name", "just too long", "line breaks"],
)
async def test_c07_heads_beyond_the_limit(head: bytes):
    """Nothing bounded them. The answer arrives although the client still sends."""
    async with stage() as on:
        await refused(on, head, 431, "head_too_large")
        assert (await on.ended()).outcome is Outcome.REFUSED


async def test_c07_limit_is_one_heads_own():
    """A body, or another request's head, counted into the next one's."""
    body = chat(stream=False, padding="x" * 200_000)
    long = (b"X-Long", b"x" * (HEAD_LIMIT - 1000))
    both = request_bytes(b"POST", CHAT, [JSON, long], body)
    async with stage() as on, connect(on.url) as client:
        # The next head begins in the same read as the body before it ends.
        await client.send(both + both[:50_000])
        await client.read_head()
        assert client.status == 200
        await client.read_body()
        for at in range(50_000, len(both), 10_000):
            await client.send(both[at : at + 10_000])
        await client.read_head()
        assert client.status == 200
        await client.read_body()
        assert [request.body for request in on.spec.requests] == [body, body]


@pytest.mark.usefixtures("form")
async def test_c08_host():
    """The client's Host went to the engine, whose own host it is not.

    Not built: X-Forwarded-Host and X-Forwarded-For. An engine makes no use of them, and one sent by
    a client passes as any other header.
    """
    forwarded = [(b"x-forwarded-for", b"1.2.3.4"), (b"x-forwarded-host", b"public.example")]
    async with stage() as on:
        await on.ask(headers=[JSON, (b"Host", b"public.example"), *forwarded])
        (request,) = on.spec.requests
        assert request.values(b"host") == [on.spec.url.removeprefix("http://").encode()]
        assert [pair for pair in request.headers if pair in forwarded] == forwarded


@pytest.mark.usefixtures("form")
async def test_c09_keys_of_the_client_pass_untouched():
    """A proxy's key went to an engine, or one engine's to another. Without keys of the gate's the
    client's own headers pass; the other half is in `live/test_security_keys`."""
    keys = [
        (b"authorization", b"Bearer sk-1"),
        (b"x-api-key", b"sk-2"),
        (b"api-key", b"sk-3"),
        (b"cookie", b"session=4"),
    ]
    async with stage(admin_token="secret") as on:
        on.plain.answer_next(json_response(200, {}))
        await on.ask(headers=[JSON, *keys])
        await on.ask(b"GET", b"/v1/thing", keys)
        for request in on.spec.requests + on.plain.requests:
            assert [pair for pair in request.headers if pair in keys] == keys
        for probe in on.spec.probes + on.plain.probes:
            assert not probe.values(b"authorization"), "the admin token is the gate's alone"


async def test_c07_answer_to_a_slow_flood_is_whole():
    """A client that goes on sending for seconds got a reset in place of its 431."""
    async with stage() as on, connect(on.url) as client:
        head = request_bytes(b"GET", b"/v1/thing")
        await client.send(head[:-2] + b"X-Long: " + b"x" * (HEAD_LIMIT + 300_000))
        for _ in range(6):
            await asyncio.sleep(0.5)
            await client.send(b"x" * 100_000)
        await read_refusal(client, 431, "head_too_large")
