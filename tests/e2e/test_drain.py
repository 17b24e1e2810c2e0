"""How `specgate serve` stops under traffic: it settles, refuses the new, and ends what it has."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from tests.support.client import Response, chat_request, connect, get, request_bytes
from tests.support.lanes import ScriptedLane, WaitFor, json_response, never_ending_stream
from tests.support.live import environment
from tests.support.process import GateProcess, serve_process
from tests.support.streams import held


@asynccontextmanager
async def serving(
    plain: ScriptedLane | None = None, **settings: Any
) -> AsyncIterator[tuple[GateProcess, ScriptedLane]]:
    """A gate whose requests all go to one scripted lane, the spec one. plain: not started yet."""
    async with ScriptedLane("spec") as spec, plain or ScriptedLane("plain") as plain:
        urls = {"spec_url": spec.url, "plain_url": plain.url}
        environ = environment(**urls, threshold="always", **settings)
        async with serve_process(environ) as gate:
            await gate.logged("lane_health", count=2)
            yield gate, spec


async def asked(gate: GateProcess) -> Response:
    async with connect(gate.url) as client:
        await client.send(chat_request())
        line, pairs = await client.read_head()
        return Response(client.status, line, pairs, await client.read_body())


async def stop(gate: GateProcess, sign: signal.Signals = signal.SIGTERM) -> None:
    gate.process.send_signal(sign)
    await gate.logged("stopping")


async def refuses(gate: GateProcess) -> Response:
    """The first answer that is none of a lane's."""
    async with asyncio.timeout(5):
        while True:
            # A connection that is idle yet when the gate begins to refuse is closed.
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                if (reply := await asked(gate)).status != 200:
                    return reply
            await asyncio.sleep(0.05)


async def test_it_settles_then_refuses_then_ends_with_its_last_stream():
    async with serving(drain_settle_s=1.5) as (gate, spec):
        over = asyncio.Event()
        spec.answer_next(held(over))
        async with connect(gate.url) as stream, connect(gate.url) as idle:
            await stream.send(chat_request())
            await stream.read_head()
            assert (await idle.request(b"GET", b"/v1/models")).status == 200

            await stop(gate)
            ready = await get(gate.url + "/readyz")
            assert ready.status == 503
            assert json.loads(ready.body.data)["stopping"] is True
            assert (await asked(gate)).status == 200, "it serves on while it settles"

            reply = await refuses(gate)
            assert reply.status == 503
            assert json.loads(reply.body.data)["error"]["code"] == "gate_stopping"
            assert reply.values(b"connection") == [b"close"]
            assert reply.values(b"retry-after") == [b"1"]
            assert await idle.ended() == "fin"
            assert (await get(gate.url + "/livez")).status == 200

            over.set()
            body = await stream.read_body()
            assert body.clean
            assert body.data.endswith(b"[DONE]\n\n")
            assert await gate.stopped() == 0
        last = await gate.logged("stopped")
        assert (last["ended"], last["cut"], last["refused"]) == (1, 0, 0)


async def test_what_is_left_at_the_deadline_is_cut_and_looks_cut():
    async with serving(drain_settle_s=0, drain_timeout_s=0.3) as (gate, spec):
        spec.answer_next(never_ending_stream())
        async with connect(gate.url) as stream:
            await stream.send(chat_request())
            await stream.read_head()
            await stop(gate)
            body = await stream.read_body()
            assert not body.clean
            assert b"[DONE]" not in body.data
            assert await gate.stopped() == 0
        await spec.saw_close()
        last = await gate.logged("stopped")
        assert (last["ended"], last["cut"]) == (0, 1)
        line = await gate.logged("request")
        assert line["outcome"] == "cut_short"


async def test_one_that_has_no_answer_yet_is_told_in_full():
    async with serving(drain_settle_s=0, drain_timeout_s=0.3) as (gate, spec):
        spec.answer_next(held(asyncio.Event())[1:])
        async with connect(gate.url) as client:
            await client.send(chat_request())
            await spec.saw_requests()
            await stop(gate)
            await client.read_head()
            body = await client.read_body()
            assert client.status == 503
            assert json.loads(body.data)["error"]["code"] == "gate_stopped"
            assert await gate.stopped() == 0
        assert spec.requests_total == 1, "it was asked once, and nowhere else"


async def test_who_waits_for_room_is_refused():
    limits: dict[str, Any] = {"max_in_flight": 1, "queue_size": 4, "drain_settle_s": 0}
    async with serving(**limits) as (gate, spec):
        over = asyncio.Event()
        spec.answer_next(held(over))
        async with connect(gate.url) as stream, connect(gate.url) as waits:
            await stream.send(chat_request())
            await stream.read_head()
            await waits.send(chat_request())
            while json.loads((await get(gate.url + "/_specgate/status")).body.data)["queued"] != 1:
                await asyncio.sleep(0.02)
            await stop(gate)
            await waits.read_head()
            assert waits.status == 503
            over.set()
            assert (await stream.read_body()).clean
            assert await gate.stopped() == 0
        assert (await gate.logged("stopped"))["refused"] == 1


async def test_calls_that_went_to_both_lanes_are_waited_for_like_others():
    other = ScriptedLane("plain")
    async with serving(other, engine_admin="both", drain_settle_s=0) as (gate, spec):
        over = asyncio.Event()
        for lane in (spec, other):
            lane.answer("/flush_cache", [WaitFor(over), json_response(200, {})])
        spec.answer("/v1/responses/resp_1", held(over))
        async with connect(gate.url) as admin, connect(gate.url) as stream:
            await stream.send(request_bytes(b"GET", b"/v1/responses/resp_1?stream=true", []))
            await stream.read_head()
            await admin.send(request_bytes(b"POST", b"/flush_cache", [], b""))
            await asyncio.gather(spec.saw_requests(2), other.saw_requests(2))
            await stop(gate)
            await asyncio.sleep(0.3)
            assert gate.process.returncode is None
            over.set()
            await admin.read_head()
            assert admin.status == 200
            assert (await admin.read_body()).clean
            body = await stream.read_body()
            assert body.clean
            assert body.data.endswith(b"[DONE]\n\n")
            assert await gate.stopped() == 0
        # Of each lane: the one of them that had no such response had ended its part before.
        last = await gate.logged("stopped")
        assert (last["ended"], last["cut"]) == (3, 0)


async def test_a_call_that_went_to_both_lanes_is_cut_at_the_deadline():
    async with serving(drain_settle_s=0, drain_timeout_s=0.3) as (gate, spec):
        spec.answer("/v1/responses/resp_1", never_ending_stream())
        async with connect(gate.url) as stream:
            await stream.send(request_bytes(b"GET", b"/v1/responses/resp_1?stream=true", []))
            await stream.read_head()
            await stop(gate)
            assert not (await stream.read_body()).clean
            assert await gate.stopped() == 0
        last = await gate.logged("stopped")
        assert (last["ended"], last["cut"]) == (0, 1)
        assert (await gate.logged("request"))["outcome"] == "cut_short"


async def test_a_second_signal_ends_it_at_once():
    async with serving(drain_settle_s=60) as (gate, spec):
        spec.answer_next(never_ending_stream())
        async with connect(gate.url) as stream:
            await stream.send(chat_request())
            await stream.read_head()
            await stop(gate)
            gate.process.send_signal(signal.SIGTERM)
            assert not (await stream.read_body()).clean
            assert await gate.stopped(within_s=10) == 0


async def test_at_a_terminal_it_does_not_settle():
    async with serving(drain_settle_s=60) as (gate, _):
        await stop(gate, signal.SIGINT)
        assert await gate.stopped(within_s=10) == 0
