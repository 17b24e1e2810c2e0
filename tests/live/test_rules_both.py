"""Calls that change an engine or stop requests: refused, or sent to both lanes, never to one."""

import asyncio
import json
from itertools import product

import pytest

from specgate.core.events import Outcome, RequestEnded
from specgate.core.routes import GENERATES
from specgate.engines.routes import ABORT, ADMIN, ADMIN_BELOW, GENERATION
from specgate.proxy.both import TO_BOTH
from tests.live.test_rules_features import decision
from tests.support.client import JSON, connect
from tests.support.control import message, said
from tests.support.figures import total
from tests.support.lanes import (
    Rst,
    ScriptedLane,
    Send,
    Silent,
    Step,
    WaitFor,
    error_response,
    json_response,
    refuses,
)
from tests.support.live import running_gate
from tests.support.stage import Stage, stage

ADMIN_PATHS = sorted({path for paths in ADMIN.values() for path in paths})

SPELLINGS = [
    b"/flush_cache",
    b"/flush_cache/",
    b"/flush_cache//",
    b"//flush_cache",
    b"/./flush_cache",
    b"/v1/../flush_cache",
    b"/v1/%2e%2E/flush_cache",
    b"/%66lush_cache",
    b"/flush%5Fcache",
    b"/%2fflush_cache",
    b"/Flush_Cache",
    b"/flush_cache?timeout=5",
    b"/flush_cache?",
    b"/flush_cache?a=/v1/models",
    b"/hicache%2fstorage-backend/clear",
    b"/fault_tolerance/any/thing",
]


async def refused(on: Stage, method: bytes, target: bytes, body: bytes | None = None) -> None:
    reply = await on.ask(method, target, [JSON], body)
    assert reply.status == 403, (method, target, reply.body.data)
    assert said(reply)["error"]["code"] == "engine_admin_refused"
    assert "SPECGATE_ENGINE_ADMIN=both" in message(reply)
    assert reply.values(b"x-specgate-lane") == []


@pytest.mark.usefixtures("form")
async def test_calls_that_change_an_engine_are_refused_with_any_method():
    below = [f"{path}x" for path in ADMIN_BELOW]
    async with stage() as on:
        for path, method in product([*ADMIN_PATHS, *below], (b"GET", b"POST", b"PUT")):
            await refused(on, method, path.encode(), b"{}" if method == b"POST" else None)
        for method in (b"DELETE", b"PUT", b"POST"):
            await refused(on, method, b"/hicache/storage-backend", b"{}")
        await refused(on, b"POST", b"/slots/0?action=erase", b"{}")
        await refused(on, b"POST", b"/props", b"{}")
        assert on.spec.requests == on.plain.requests == []
        metrics = await on.gate.metrics()
        assert total(metrics, "specgate_requests_total", route="admin", status="4xx") > 100


@pytest.mark.usefixtures("form")
async def test_no_spelling_gets_past_the_refusal():
    async with stage() as on:
        for target in SPELLINGS:
            await refused(on, b"GET", target)
            await refused(on, b"POST", target, b"{}")
        assert on.spec.requests == on.plain.requests == []


async def test_an_absolute_target_does_not_either():
    async with stage() as on:
        await refused(on, b"POST", b"http://gate/flush_cache", b"{}")
        await refused(on, b"GET", b"/flush_cache#x")


async def test_what_only_reads_goes_through():
    async with stage() as on:
        on.plain.answer("*", json_response(200, {}))
        for target in (b"/props", b"/slots", b"/lora-adapters", b"/hicache/storage-backend"):
            assert decision(await on.ask(b"GET", target, [])) == (b"plain", b"not_generation")
        for target in (b"/is_sleeping", b"/flush_cache_x", b"/v1/flush_cache", b"/v1/models/sleep"):
            assert (await on.ask(b"GET", target, [])).status == 200


async def test_a_refused_upload_is_not_read():
    async with stage() as on, connect(on.url) as client:
        head = b"POST /update_weights_from_tensor HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999999"
        await client.send(head + b"\r\n\r\n" + b"x" * 1000)
        await client.read_head()
        assert client.status == 403


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("upstream", ["pooled", "httpx"])
async def test_by_choice_they_go_to_both_lanes_untouched(upstream: str):
    target, body = b"/load_lora_adapter?a=1", b'{ "lora_name" : "x" }'
    async with stage(engine_admin="both", upstream=upstream) as on:
        on.spec.answer("*", json_response(200, {"from": "spec"}))
        on.plain.answer("*", json_response(200, {"from": "plain"}))
        reply = await on.ask(b"POST", target, [JSON], body)
        assert reply.status == 200
        lane, reason = decision(reply)
        assert (reason, said(reply)["from"].encode()) == (b"both", lane)
        for scripted in (on.spec, on.plain):
            (request,) = scripted.requests
            assert (request.method, request.target, request.body) == (b"POST", target, body)
        fact = await on.ended()
        assert (fact.route, fact.outcome, fact.sequences) == ("admin", Outcome.COMPLETED, 0)
        reply = await on.ask(b"GET", b"/flush_cache?timeout=5", [])
        assert (on.spec.requests_total, on.plain.requests_total) == (2, 2)


@pytest.mark.parametrize(("spec", "plain"), [(200, 400), (400, 200), (500, 400), (404, 200)])
async def test_the_worse_answer_is_the_client_s(spec: int, plain: int):
    async with stage(engine_admin="both") as on:
        on.spec.answer("*", json_response(spec, {"from": "spec"}))
        on.plain.answer("*", json_response(plain, {"from": "plain"}))
        reply = await on.ask(b"POST", b"/flush_cache", [], b"")
        assert reply.status == max(spec, plain)


@pytest.mark.parametrize("down", ["spec", "plain"])
async def test_an_engine_that_could_not_be_changed_is_named(down: str):
    """Not a 200: the other was changed, and they differ now."""
    async with stage(engine_admin="both") as on:
        up = on.plain if down == "spec" else on.spec
        up.answer("*", json_response(200, {}))
        await (on.spec if down == "spec" else on.plain).stop()
        reply = await on.ask(b"POST", b"/flush_cache", [], b"")
        assert reply.status == 502
        assert said(reply)["error"]["code"] == "half_done"
        assert f"the {down} lane" in message(reply)
        assert f"{up.name} answered 200" in message(reply)
        assert up.requests_total == 1


async def test_a_body_that_cannot_be_held_goes_to_neither():
    async with stage(engine_admin="both", peek_limit=100) as on:
        reply = await on.ask(b"POST", b"/update_weights_from_tensor", [JSON], b"x" * 101)
        assert reply.status == 413
        assert "SPECGATE_PEEK_LIMIT" in message(reply)
        async with connect(on.url) as client:
            chunked = (b"Transfer-Encoding", b"chunked")
            await client.send(b"POST /flush_cache HTTP/1.1\r\nHost: h\r\n" + b": ".join(chunked))
            await client.send(b"\r\n\r\n80\r\n" + b"x" * 128 + b"\r\n")
            await client.read_head()
            assert client.status == 413
        assert on.spec.requests == on.plain.requests == []


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("upstream", ["pooled", "httpx"])
async def test_an_abort_goes_to_both_and_the_better_answer_is_the_client_s(upstream: str):
    body = json.dumps({"rid": "r-1"}).encode()
    async with stage(upstream=upstream) as on:
        on.spec.answer("*", json_response(404, {"from": "spec"}))
        on.plain.answer("*", json_response(200, {"from": "plain"}))
        for path in (b"/abort_request", b"/abort_request/", b"//abort_request"):
            reply = await on.ask(b"POST", path, [JSON], body)
            assert (reply.status, *decision(reply)) == (200, b"plain", b"both")
            for scripted in (on.spec, on.plain):
                assert (scripted.requests[-1].target, scripted.requests[-1].body) == (path, body)
        assert on.spec.requests_total == on.plain.requests_total == 3


@pytest.mark.parametrize("down", ["spec", "plain"])
async def test_an_abort_with_one_lane_down_is_the_other_s_answer(down: str):
    async with stage() as on:
        up = on.plain if down == "spec" else on.spec
        up.answer("*", json_response(200, {}))
        await (on.spec if down == "spec" else on.plain).stop()
        reply = await on.ask(b"POST", b"/abort_request", [JSON], b'{"abort_all": true}')
        assert (reply.status, *decision(reply)) == (200, up.name.encode(), b"both")
        assert up.requests_total == 1


async def test_an_abort_with_both_lanes_down_is_503():
    with refuses() as spec, refuses() as plain:
        async with running_gate(spec, plain) as gate, connect(gate.url) as client:
            reply = await client.request(b"POST", b"/abort_request", [JSON], b"{}")
            assert (reply.status, said(reply)["error"]["code"]) == (503, "no_lane_reachable")
            assert reply.values(b"retry-after") == [b"1"]


async def test_an_abort_does_not_wait_for_a_lane_that_hangs(monkeypatch):
    monkeypatch.setattr("specgate.proxy.both.OTHER_WAIT_S", 0.1)
    async with stage() as on:
        on.spec.answer("*", Silent())
        on.plain.answer("*", json_response(200, {}))
        async with asyncio.timeout(5):
            reply = await on.ask(b"POST", b"/abort_request", [JSON], b"{}")
        assert (reply.status, *decision(reply)) == (200, b"plain", b"both")
        await on.spec.saw_close()


async def test_an_abort_reaches_the_other_lane_while_one_hangs():
    end = asyncio.Event()
    async with stage() as on:
        slow: list[Step] = [WaitFor(end), json_response(200, {})]
        on.spec.answer("*", slow)
        on.plain.answer("*", slow)
        asking = asyncio.ensure_future(on.ask(b"POST", b"/abort_request", [JSON], b"{}"))
        await asyncio.gather(on.spec.saw_requests(), on.plain.saw_requests())
        end.set()
        assert (await asking).status == 200


@pytest.mark.usefixtures("form")
async def test_a_client_that_leaves_leaves_both_lanes():
    async with stage(engine_admin="both") as on:
        on.spec.answer("*", Silent())
        on.plain.answer("*", [Send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"), Silent()])
        async with connect(on.url) as client:
            await client.send(b"POST /flush_cache HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
            await asyncio.gather(on.spec.saw_requests(), on.plain.saw_requests())
        await asyncio.gather(on.spec.saw_close(), on.plain.saw_close())
        assert (await on.ended()).outcome is Outcome.CLIENT_GONE


async def test_one_engine_in_both_lanes_is_asked_once_like_for_anything_else():
    async with ScriptedLane("one") as one:
        one.answer("*", json_response(200, {}))
        async with running_gate(one.url, one.url, peek_limit=100) as gate:
            async with connect(gate.url) as client:
                for path in (b"/flush_cache", b"/abort_request", b"/v1/responses/x/cancel"):
                    reply = await client.request(b"POST", path, [JSON], b"x" * 200)
                    assert (reply.status, *decision(reply)) == (200, b"plain", b"not_generation")
            assert one.requests_total == 3
            await gate.facts.wait_for(RequestEnded, count=3)


def test_nothing_that_generates_can_go_to_both():
    assert not TO_BOTH & GENERATES
    assert not set(GENERATION) & {*ADMIN_PATHS, *ABORT}


async def test_a_lane_that_breaks_off_is_not_asked_again():
    async with stage(engine_admin="both") as on:
        on.spec.answer("*", Rst())
        on.plain.answer("*", error_response(400, "busy"))
        reply = await on.ask(b"POST", b"/flush_cache", [JSON], b"{}")
        assert (reply.status, said(reply)["error"]["code"]) == (502, "half_done")
        assert on.plain.requests_total == 1
