"""Draining a lane under traffic: it gets nothing new, ends what it has, and comes back."""

import asyncio

import pytest

from specgate.core.events import DrainChanged, RequestEnded
from specgate.core.lanes import Lane
from specgate.core.policy import Reason
from specgate.upstream.base import Origin
from tests.support.client import JSON, RawClient, chat, connect, request_bytes
from tests.support.control import TOKEN, change, message, said
from tests.support.lanes import Rst, WaitFor, error_response, json_response, well_behaved
from tests.support.stage import stage
from tests.support.streams import begin, finish, held


async def test_new_requests_go_to_the_other_lane_and_streams_end_where_they_are():
    async with stage(admin_token=TOKEN) as on:
        over = asyncio.Event()
        on.spec.answer_next(held(over))
        clients: list[RawClient] = []
        await begin(on, clients)

        told = said(await change(on, b"POST", "lanes/spec/drain"))
        assert told == {"lane": "spec", "draining": True, "in_hand": 1, "drained": False}
        reply = await on.ask()
        assert reply.values(b"x-specgate-lane") == [b"plain"]
        assert reply.values(b"x-specgate-reason") == [b"draining"]
        # The side stays what the policy wants.
        status = await on.gate.status()
        assert status["side"] == "spec"
        assert status["lanes"]["spec"]["draining"] is True

        async with asyncio.TaskGroup() as tasks:
            drain = change(on, b"POST", "lanes/spec/drain?wait_s=5")
            waiting = tasks.create_task(drain)
            await asyncio.sleep(0.1)
            assert not waiting.done()
            over.set()
            await finish(clients)
        assert said(waiting.result())["drained"] is True

        assert said(await change(on, b"POST", "lanes/spec/undrain"))["draining"] is False
        assert (await on.ask()).values(b"x-specgate-lane") == [b"spec"]


async def test_the_last_lane_is_not_drained():
    async with stage(admin_token=TOKEN) as on:
        await change(on, b"POST", "lanes/spec/drain")
        reply = await change(on, b"POST", "lanes/plain/drain")
        assert reply.status == 409
        assert "undrain it before the plain lane" in message(reply)
        assert (await on.ask()).status == 200
        # Undraining a lane that does not drain changes nothing.
        await change(on, b"POST", "lanes/plain/undrain")
        assert (await on.gate.status())["lanes"]["spec"]["draining"] is True


async def test_a_draining_lane_is_no_way_out_for_what_the_other_does_not_take():
    """Its engine may be about to stop: a request that it took could be lost."""
    async with stage(admin_token=TOKEN) as on:
        await change(on, b"POST", "lanes/plain/drain")
        before = on.plain.requests_total
        on.gate.service.gate.set_origin(Origin.of(Lane.SPEC, DEAD))
        reply = await on.ask()
        assert reply.status == 503
        assert reply.values(b"retry-after")
        assert on.plain.requests_total == before


async def test_calls_that_are_no_load_leave_a_draining_lane_too():
    async with stage(admin_token=TOKEN) as on:
        await change(on, b"POST", "lanes/plain/drain")
        assert (await on.ask(b"GET", b"/v1/tokenize", ())).status == 404
        assert [request.target for request in on.spec.requests] == [b"/v1/tokenize"]


async def test_a_call_that_went_to_both_lanes_is_in_hand_on_both_until_both_answered():
    async with stage(admin_token=TOKEN, engine_admin="both") as on:
        over = {on.spec: asyncio.Event(), on.plain: asyncio.Event()}
        for lane, event in over.items():
            lane.answer("/update_weights_from_disk", [WaitFor(event), json_response(200, {})])
        target = b"/update_weights_from_disk"
        asking = asyncio.ensure_future(on.ask(b"POST", target, [JSON], b"{}"))
        await asyncio.gather(on.spec.saw_requests(), on.plain.saw_requests())
        for name in ("spec", "plain"):
            told = said(await change(on, b"POST", f"lanes/{name}/drain"))
            assert (told["in_hand"], told["drained"]) == (1, False)
            await change(on, b"POST", f"lanes/{name}/undrain")
        over[on.plain].set()
        told = said(await change(on, b"POST", "lanes/spec/drain?wait_s=0.2"))
        assert (told["in_hand"], told["drained"]) == (1, False)
        over[on.spec].set()
        assert said(await change(on, b"POST", "lanes/spec/drain?wait_s=5"))["drained"] is True
        assert (await asking).status == 200
        assert on.gate.service.gate.carried == 0


async def test_a_stored_stream_is_in_hand_of_the_lane_that_streams_it():
    async with stage(admin_token=TOKEN) as on:
        over = asyncio.Event()
        on.spec.answer("*", held(over))
        on.plain.answer("*", error_response(404, "no such response"))
        async with connect(on.url) as client:
            target = b"/v1/responses/resp_1?stream=true"
            await client.send(request_bytes(b"GET", target, []))
            await client.read_head()
            assert said(await change(on, b"POST", "lanes/plain/drain"))["drained"] is True
            await change(on, b"POST", "lanes/plain/undrain")
            told = said(await change(on, b"POST", "lanes/spec/drain"))
            assert (told["in_hand"], told["drained"]) == (1, False)
            over.set()
            assert (await client.read_body()).clean
        assert said(await change(on, b"POST", "lanes/spec/drain?wait_s=5"))["drained"] is True


async def test_a_lane_that_does_not_answer_such_a_call_has_it_in_hand_no_more():
    async with stage(admin_token=TOKEN) as on:
        on.spec.answer("*", Rst())
        on.plain.answer("*", json_response(200, {}))
        assert (await on.ask(b"POST", b"/abort_request", [JSON], b"{}")).status == 200
        for name in ("spec", "plain"):
            assert said(await change(on, b"POST", f"lanes/{name}/drain?wait_s=5"))["drained"]
            await change(on, b"POST", f"lanes/{name}/undrain")


async def test_draining_wants_the_token():
    async with stage(admin_token=TOKEN) as on:
        assert (await change(on, b"POST", "lanes/spec/drain", headers=[])).status == 401
        assert (await change(on, b"POST", "lanes/gpu/drain")).status == 422
        assert (await change(on, b"POST", "lanes/spec/drain?wait_s=-1")).status == 422
        assert (await on.gate.status())["lanes"]["spec"]["draining"] is False


@pytest.mark.parametrize("first", ["spec", "plain"])
async def test_both_engines_are_restarted_under_load_and_no_request_fails(first: str):
    async with stage(admin_token=TOKEN) as on:
        stop = asyncio.Event()
        statuses: list[int] = []

        async def client() -> None:
            async with connect(on.url) as wire:
                while not stop.is_set():
                    reply = await wire.request(
                        b"POST", b"/v1/chat/completions", body=chat(), headers=[]
                    )
                    statuses.append(reply.status)
                    assert reply.body.clean

        lanes = {"spec": on.spec, "plain": on.plain}
        other = {"spec": "plain", "plain": "spec"}[first]
        async with asyncio.TaskGroup() as clients:
            for _ in range(8):
                clients.create_task(client())
            for name in (first, other):
                told = said(await change(on, b"POST", f"lanes/{name}/drain?wait_s=5"))
                assert told["drained"] is True
                # While it is down nothing comes.
                before = lanes[name].requests_total
                lanes[name].answer("/v1/chat/completions", [Rst()])
                await asyncio.sleep(0.1)
                assert lanes[name].requests_total == before
                lanes[name].answer("/v1/chat/completions", well_behaved)
                await change(on, b"POST", f"lanes/{name}/undrain")
                await asyncio.sleep(0.05)
            stop.set()
        assert set(statuses) == {200}
        assert {fact.reason for fact in on.gate.facts.of(RequestEnded)} >= {Reason.DRAINING}


DEAD = "http://127.0.0.1:1"


async def test_draining_and_undraining_are_told_once_each():
    async with stage(admin_token=TOKEN) as on:
        over = asyncio.Event()
        on.spec.answer_next(held(over))
        clients: list[RawClient] = []
        await begin(on, clients)
        for _ in range(2):
            await change(on, b"POST", "lanes/spec/drain")
        refused = await change(on, b"POST", "lanes/plain/drain")
        assert refused.status == 409
        over.set()
        await finish(clients)
        await change(on, b"POST", "lanes/plain/undrain")  # it does not drain
        for _ in range(2):
            await change(on, b"POST", "lanes/spec/undrain")
        began, ended = on.gate.facts.of(DrainChanged)
    assert (began.lane, began.draining, began.in_hand) == (Lane.SPEC, True, 1)
    assert (ended.lane, ended.draining) == (Lane.SPEC, False)
