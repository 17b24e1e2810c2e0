"""Draining a lane under traffic: it gets nothing new, ends what it has, and comes back."""

import asyncio

import pytest

from specgate.core.events import RequestEnded
from specgate.core.lanes import Lane
from specgate.core.policy import Reason
from specgate.upstream.base import Origin
from tests.support.client import RawClient, chat, connect
from tests.support.control import TOKEN, change, message, said
from tests.support.lanes import Rst, well_behaved
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
