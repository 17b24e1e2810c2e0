"""What the gate answers itself: errors as OpenAI's clients expect them, and its own paths."""

import json

import pytest

from specgate.core.events import LaneFailed, Outcome
from tests.support.client import CHAT, JSON, Response, chat, connect, get
from tests.support.lanes import Fin, Rst, Send, accepts_and_hangs
from tests.support.live import running_gate
from tests.support.stage import stage

pytestmark = pytest.mark.usefixtures("form")


def assert_is_an_error(reply: Response, status: int, code: str, kind: str = "server_error") -> None:
    """OpenAI-shaped, whole, and with the id under which the log has it."""
    assert reply.status == status
    assert reply.values(b"content-type") == [b"application/json"]
    assert reply.body.ending == "length"
    error = json.loads(reply.body.data)["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert (error["type"], error["code"], error["param"]) == (kind, code, None)
    assert error["message"]


async def test_no_lane_takes_a_connection():
    async with stage() as on:
        await on.spec.stop()
        await on.plain.stop()
        async with connect(on.url) as client:
            for _ in range(2):
                reply = await client.request(b"POST", CHAT, [JSON], chat())
                assert_is_an_error(reply, 503, "no_lane_reachable")
                assert int(reply.values(b"retry-after")[0]) >= 1
                assert len(reply.values(b"x-request-id")) == 1
        assert (await on.ended()).outcome is Outcome.REFUSED
        await on.spec.start()
        await on.plain.start()


@pytest.mark.parametrize(
    "script",
    [[Fin()], [Rst()], [Send(b"HTTP/1.1 2"), Fin()], [Send(b"SSH-2.0-OpenSSH\r\n\r\n"), Fin()]],
    ids=["closes", "resets", "breaks off", "speaks no HTTP"],
)
async def test_lane_takes_a_request_and_gives_no_answer(script):
    async with stage() as on, connect(on.url) as client:
        on.spec.answer_next(script)
        reply = await client.request(b"POST", CHAT, [JSON], chat())
        assert_is_an_error(reply, 502, "lane_no_answer")
        assert reply.values(b"x-specgate-lane") == [b"spec"]
        assert on.plain.requests == [], "it may have been worked on: nothing is sent twice"
        assert (await on.ended()).outcome is Outcome.LANE_FAILED
        assert len(on.gate.facts.of(LaneFailed)) == 1
        assert (await client.request(b"POST", CHAT, [JSON], chat())).status == 200


async def test_lane_is_silent_for_too_long():
    async with stage(first_byte_timeout_s=0.1) as on, connect(on.url) as client:
        on.spec.answer_next(accepts_and_hangs())
        reply = await client.request(b"POST", CHAT, [JSON], chat())
        assert_is_an_error(reply, 504, "lane_timeout")
        await on.spec.saw_close()
        assert (await client.request(b"POST", CHAT, [JSON], chat())).status == 200


async def test_own_headers_can_be_turned_off():
    async with stage(expose_headers="false") as on:
        on.spec.answer_next([Fin()])
        for reply in (await on.ask(), await on.ask()):
            assert not any(name.startswith(b"x-specgate") for name, _ in reply.headers)


async def test_unknown_path_below_the_gates_root():
    async with stage() as on:
        for target in (b"/_specgate", b"/_specgate/", b"/_specgate/no?x=1", b"/%5Fspecgate/x%2Fy"):
            for method in (b"GET", b"POST"):
                reply = await on.ask(method, target, [JSON], b"{}")
                assert_is_an_error(reply, 404, "no_route", "not_found_error")
        assert on.spec.requests == on.plain.requests == []


async def test_the_gates_paths_are_its_own_for_every_method():
    async with stage() as on:
        for path in (b"/metrics", b"/livez", b"/readyz", b"/health", b"/ready"):
            for method in (b"POST", b"DELETE"):
                reply = await on.ask(method, path, [JSON], b"{}")
                assert_is_an_error(reply, 404, "no_route", "not_found_error")
        assert on.spec.requests == on.plain.requests == []
        assert {probe.method for probe in on.spec.probes + on.plain.probes} == {b"GET"}


async def test_every_other_path_is_the_engines():
    targets = [b"/metrics/", b"/metricsx", b"/v1/metrics", b"/_specgatex", b"/v1/_specgate/x"]
    async with stage() as on:
        for target in targets:
            assert (await on.ask(b"GET", target, [])).status == 404
        assert [request.target for request in on.plain.requests] == targets


async def test_own_routes_answer_while_no_lane_is_there():
    async with stage() as on:
        await on.spec.stop()
        await on.plain.stop()
        assert (await get(on.url + "/livez")).status == 200
        assert (await get(on.url + "/metrics")).status == 200
        assert (await get(on.url + "/_specgate/status")).status == 200


async def test_gate_before_its_first_probe_asks_the_lane():
    """Nobody is refused on no knowledge: whether a lane serves is found out by asking it."""
    async with stage() as other:
        lanes = (other.spec.url, other.plain.url)
        async with (
            running_gate(*lanes, ready=False, threshold="always", probe_interval_s=60) as gate,
            connect(gate.url) as client,
        ):
            assert (await client.request(b"POST", CHAT, [JSON], chat())).status == 200
