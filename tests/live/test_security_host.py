"""Whatever a request says, the gate connects to its configured lanes and to nobody else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.client import CHAT, JSON, chat, connect, request_bytes
from tests.support.lanes import ScriptedLane, json_response, response
from tests.support.live import environment, gate_in
from tests.support.refusals import refused
from tests.support.stage import Stage, stage

both_forms = pytest.mark.usefixtures("form")


class Decoy:
    """Listens, and counts who comes."""

    def __init__(self) -> None:
        self.host = ""
        self.visits = 0

    async def visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.visits += 1
        writer.close()


@asynccontextmanager
async def decoy() -> AsyncIterator[Decoy]:
    other = Decoy()
    server = await asyncio.start_server(other.visited, "127.0.0.1", 0)
    async with server:
        other.host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield other
    assert other.visits == 0


def lane_authority(on: Stage) -> bytes:
    return on.plain.url.removeprefix("http://").encode()


async def test_a_target_with_a_host_goes_to_the_lane():
    """As to a forward proxy: `GET http://elsewhere/ HTTP/1.1`."""
    async with decoy() as other, stage() as on, connect(on.url) as client:
        host = other.host.encode()
        await refused(on, b"GET %b/v1/thing HTTP/1.1\r\nHost: a\r\n\r\n" % host)
        for target, path in (
            (b"http://%b/v1/thing", b"/v1/thing"),
            (b"https://%b/v1/thing?a=http://%b/", b"/v1/thing?a=http://%b/"),
            (b"http://user:pw@%b/v1/thing", b"/v1/thing"),
            (b"ftp://%b", b"/"),
        ):
            on.plain.answer_next(response(200, b"ok"))
            asked = target.replace(b"%b", host)
            assert (await client.request(b"GET", asked)).status == 200, target
            sent = on.plain.requests[-1]
            assert sent.target == path.replace(b"%b", host)
            assert sent.values(b"host") == [lane_authority(on)]


@both_forms
async def test_headers_that_name_another_host_change_nothing():
    async with decoy() as other, stage() as on, connect(on.url) as client:
        host = other.host.encode()
        on.plain.answer_next(response(200, b"ok"))
        headers = [
            (b"Host", host),
            *((name, host) for name in (b"X-Forwarded-Host", b"X-Host", b"X-Forwarded-Server")),
            (b"Forwarded", b"for=%b;host=%b" % (host, host)),
            (b"X-Forwarded-For", host),
            (b"X-Forwarded-Proto", b"https"),
            *((name, b"http://%b/x" % host) for name in (b"X-Original-URL", b"X-Rewrite-URL")),
            (b"X-HTTP-Method-Override", b"DELETE"),
        ]
        assert (await client.request(b"GET", b"/v1/thing", headers)).status == 200
        (request,) = on.plain.requests
        assert (request.method, request.target) == (b"GET", b"/v1/thing")
        assert request.values(b"host") == [lane_authority(on)]
        assert request.values(b"x-forwarded-host") == [host]


async def test_no_tunnel_is_made():
    async with decoy() as other, stage() as on:
        raw = b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (other.host.encode(), b"h")
        await refused(on, raw, 405, "method_refused")


@both_forms
async def test_a_redirect_of_an_engine_is_the_clients_to_follow():
    async with decoy() as other, stage() as on:
        location = (b"Location", b"http://%b/v1/thing" % other.host.encode())
        for status in (301, 302, 303, 307, 308):
            on.spec.answer_next(json_response(status, {}, [location]))
            reply = await on.ask(headers=[JSON], body=chat())
            assert (reply.status, reply.values(b"location")) == (status, [location[1]])
        assert len(on.spec.requests) == 5


async def test_probes_and_scrapes_follow_no_redirect():
    async with decoy() as other, ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        away = response(307, b"", [(b"Location", b"http://%b/x" % other.host.encode())])
        models = {"object": "list", "data": [{"id": "m", "owned_by": "sglang"}]}
        for lane in (spec, plain):
            lane.answer("/v1/models", json_response(200, models))
            for path in ("/metrics", "/v1/loads"):
                lane.answer(path, away)
        environ = environment(
            spec_url=spec.url, plain_url=plain.url, threshold="always", scrape_interval_s=0.05
        )
        async with gate_in(environ) as gate:
            async with asyncio.timeout(5):
                while not any(request.target == b"/v1/loads" for request in plain.requests):
                    await asyncio.sleep(0.01)
            spec.answer("/ready", away)
            seen = len(spec.requests)
            async with asyncio.timeout(5):
                while not any(r.target == b"/ready" for r in spec.requests[seen:]):
                    await asyncio.sleep(0.01)
            assert (await gate.status())["lanes"]["plain"]["health"] == "healthy"


@both_forms
async def test_no_path_leads_out_of_a_lanes_base():
    """Behind the address of a lane with a path may be other services."""
    async with stage(spec_base="/team", plain_base="/team") as on:
        for target in (
            b"/../admin",
            b"/v1/../../admin",
            b"/%2e%2e/admin",
            b"/%252e%252e/admin",
            b"/..;x/admin",
            b"/v1/..%2f..%2fadmin",
        ):
            reply = await on.ask(b"GET", target, [])
            assert (reply.status, b"bad_path" in reply.body.data) == (400, True), target
        assert not [r.target for r in on.plain.requests if b"admin" in r.target]
        on.plain.answer_next(response(200, b"ok"), path="/team/v1/x/../y")
        assert (await on.ask(b"GET", b"/v1/x/../y", [])).status == 200
        assert b"/team/v1/x/../y" in [request.target for request in on.plain.requests]


async def test_a_request_hidden_in_a_request_is_none():
    """The body of one is not the head of another, to us or to the lane."""
    hidden = b"POST /flush_cache HTTP/1.1\r\nHost: a\r\n\r\n"
    async with stage() as on, connect(on.url) as client:
        await client.request(b"POST", CHAT, [JSON], hidden)
        await client.send(
            request_bytes(
                b"POST", CHAT, [JSON, (b"Content-Length", b"4"), (b"Transfer-Encoding", b"chunked")]
            )
            + b"0\r\n\r\n"
            + hidden
        )
        await client.read_head()
        assert client.status == 400
        assert [request.body for request in on.spec.requests] == [hidden]
        assert on.plain.requests == []
