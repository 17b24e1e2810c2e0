"""Nothing reaches what changes an engine, nor what changes the gate past its token, by any spelling
of a path, through real sockets and over both forms. The rules themselves: properties/test_spelling.
"""

import json
from typing import Any

import pytest

from specgate.engines.routes import ADMIN, ADMIN_BELOW, ADMIN_BUT_GET
from tests.support.client import RawClient, Response, connect
from tests.support.control import TOKEN
from tests.support.lanes import ScriptedLane, response
from tests.support.live import environment, gate_in
from tests.support.stage import stage

both_forms = pytest.mark.usefixtures("form")

SPELLINGS = (
    *("{}", "{}/", "/{}", "/.{}", "/x/..{}", "/x/%2e%2e{}", "{}%0a", "{}%0A", "{}%00", "{}?x=1"),
    *("{};a=b", "{}%23", "{}%3fx", "{}#x", "/%2f{}", "{}//", "{}/.", "%2F{}"),
)


def ways(path: str) -> list[bytes]:
    """A path in many spellings, as targets."""
    first, rest = path[1], path[2:]
    others = [
        path.upper(),
        f"/%{ord(first):02x}{rest}",
        f"/%25{ord(first):02X}{rest}",
        f"/%u{ord(first):04x}{rest}",
        f"/%u{ord(first):04X}{rest}%0a",
        path.replace("_", "%5f"),
        "/" + path[1:].replace("/", "%2f"),
    ]
    return [way.encode() for way in [*(each.format(path) for each in SPELLINGS), *others]]


@both_forms
async def test_engines_admin_calls_are_refused_however_they_are_spelled():
    async with stage(api_keys="k", spec_api_key="engine", plain_api_key="engine") as on:
        key = [(b"Authorization", b"Bearer k")]
        async with connect(on.url) as client:
            paths = ["/flush_cache", "/sleep", "/slots/0", "/models/load", "/tools", "/add_worker"]
            for path in paths:
                for target in ways(path):
                    if not target.startswith(b"/"):
                        continue
                    for method in (b"GET", b"POST"):
                        if method == b"GET" and path == "/slots/0":
                            continue
                        reply = await client.request(method, target, key, body_of(method))
                        assert reply.status == 403, (method, target)
                        assert b"engine_admin_refused" in reply.body.data
        assert on.spec.requests == on.plain.requests == []


@both_forms
async def test_every_listed_call_is_refused_with_every_method():
    async with stage() as on, connect(on.url) as client:
        listed = [path for paths in ADMIN.values() for path in paths]
        for path in [*listed, *(f"{below}x" for below in ADMIN_BELOW)]:
            for method in (b"GET", b"HEAD", b"POST", b"PUT", b"DELETE"):
                reply = await client.request(method, path.encode(), [], body_of(method))
                assert reply.status == 403, (method, path)
        for path in ADMIN_BUT_GET:
            for method in (b"POST", b"PUT", b"DELETE", b"PATCH"):
                reply = await client.request(method, path.encode(), [], body_of(method))
                assert reply.status == 403, (method, path)
        assert on.spec.requests == on.plain.requests == []


def body_of(method: bytes) -> bytes | None:
    return b"{}" if method in (b"POST", b"PUT", b"PATCH") else None


@both_forms
async def test_nothing_changes_the_gate_past_its_token():
    changes: tuple[tuple[bytes, str, Any], ...] = (
        (b"PUT", "/_specgate/mode", {"mode": "plain"}),
        (b"PUT", "/_specgate/threshold", {"threshold": 99}),
        (b"POST", "/_specgate/reload", None),
        (b"POST", "/_specgate/lanes/spec/drain", None),
    )
    wrong = [[], [bearer("x")], [bearer(TOKEN + "x")], [bearer("k")], [bearer("")]]
    async with stage(admin_token=TOKEN, api_keys="k") as on:
        before = settled(await on.gate.status())
        async with connect(on.url) as client:
            for method, path, change in changes:
                body = None if change is None else json.dumps(change).encode()
                for target in [*ways(path), path.encode()]:
                    if target.startswith(b"/"):
                        reply = await put(client, method, target, [], body)
                        assert reply.status >= 400, (method, target)
                for headers in wrong:
                    reply = await put(client, method, path.encode(), headers, body)
                    assert reply.status == 401, (method, path, headers)
        assert settled(await on.gate.status()) == before


async def put(
    client: RawClient, method: bytes, target: bytes, headers: Any, body: bytes | None
) -> Response:
    sent = [(b"Content-Type", b"application/json"), *headers]
    # What is no path of the gate's is an engine's, and needs a client's key: 401 there too.
    try:
        return await client.request(method, target, sent, body)
    finally:
        if client.reader.at_eof() or (b"connection", b"close") in client.headers:
            await reopen(client)


async def reopen(client: RawClient) -> None:
    host, port = client.writer.get_extra_info("peername")[:2]
    await client.close()
    fresh = await RawClient.open(host, port)
    client.link, client.reader, client.writer = fresh.link, fresh.reader, fresh.writer


def bearer(key: str) -> tuple[bytes, bytes]:
    return (b"Authorization", b"Bearer " + key.encode())


def settled(status: dict[str, Any]) -> dict[str, Any]:
    """What changing calls change."""
    lanes = {name: lane.get("draining") for name, lane in status["lanes"].items()}
    return {"mode": status["mode"], "threshold": status["threshold"], "lanes": lanes}


@both_forms
async def test_one_engine_is_not_changed_with_the_gates_key():
    """In shadow such calls go through, but not with a key that is not their sender's."""
    for keys in ({"spec_api_key": "engine"}, {"api_keys": "k"}, {}):
        async with ScriptedLane("spec") as lane:
            lane.answer("/flush_cache", response(200, b"ok"))
            environ = environment(spec_url=lane.url, shadow="spec", **keys)
            async with gate_in(environ) as gate, connect(gate.url) as client:
                reply = await client.request(b"POST", b"/flush_cache", [bearer("k")], b"")
            reached = [request for request in lane.requests if request.target == b"/flush_cache"]
            assert (reply.status, len(reached)) == ((403, 0) if keys else (200, 1)), keys
