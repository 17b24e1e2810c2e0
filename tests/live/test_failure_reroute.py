"""A connection that ends before an answer: the request goes elsewhere only where the engine cannot
have had all of it. tests/contract has what is known of a connection; tests/cases has G03."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from specgate.core.errors import FailureKind
from specgate.core.events import LaneFailed, Outcome, RequestEnded
from tests.support.client import CHAT, JSON, Response, chat, chat_request, connect
from tests.support.control import said
from tests.support.lanes import (
    Connection,
    DontReadBody,
    Fin,
    Pause,
    Request,
    Rst,
    ScriptedLane,
    Send,
    json_response,
    never_ending_stream,
    response,
)
from tests.support.live import running_gate
from tests.support.stage import Stage, stage

LARGE: dict[str, Any] = {"more": "x" * 16_000_000}
"""More than the kernels of two ends take while nobody reads."""

ALL_OF_IT: dict[str, Any] = {"peek_limit": 32_000_000}

ENDS = {
    "fin": [Fin()],
    "rst": [Rst()],
    "fin later": [Pause(0.1), Fin()],
    "rst later": [Pause(0.1), Rst()],
    "half a status": [Send(b"HTTP/1.1 20"), Rst()],
    "an interim answer": [Send(b"HTTP/1.1 100 Continue\r\n\r\n"), Fin()],
}


async def asked(on: Stage, **extra: Any) -> Response:
    return await on.ask(body=chat(stream=False, **extra))


@pytest.mark.parametrize("end", [Fin(), Rst()], ids=["fin", "rst"])
async def test_ends_while_the_request_is_being_sent(end: Any):
    """Part of it never left: no engine starts on half a request, so the other lane has it."""

    async def resets(request: Request, connection: Connection) -> None:
        await asyncio.sleep(0.05)
        connection.rst() if isinstance(end, Rst) else connection.fin()

    async with stage(**ALL_OF_IT) as on:
        on.spec.answer_next([DontReadBody(), resets])
        reply = await asked(on, **LARGE)
        assert reply.status == 200
        assert reply.values(b"x-specgate-lane") == [b"plain"]
        assert reply.values(b"x-specgate-reason") == [b"rerouted"]
        assert on.plain.requests[0].body == chat(stream=False, **LARGE)
        assert [len(on.spec.requests), len(on.plain.requests)] == [1, 1]
        assert not on.spec.requests[0].complete
        assert [fact.kind for fact in on.gate.facts.of(LaneFailed)] == [FailureKind.UNSENT]
        ended = await on.ended()
        assert (ended.rerouted, ended.outcome) == (True, Outcome.COMPLETED)


async def test_ends_while_a_body_streams_through():
    """What was sent of it nobody has any more."""

    async def resets(request: Request, connection: Connection) -> None:
        await asyncio.sleep(0.05)
        connection.rst()

    async with stage() as on:
        on.spec.answer_next([DontReadBody(), resets])
        reply = await asked(on, **LARGE)
        assert (reply.status, said(reply)["error"]["code"]) == (502, "lane_no_answer")
        assert on.plain.requests == []


@pytest.mark.parametrize("upstream", ["pooled", "httpx"])
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_ends_once_the_engine_has_it_all(end: Any, upstream: str):
    """It may have worked on it: an error, and nobody is asked again."""
    async with stage(upstream=upstream) as on:
        on.spec.answer_next(end)
        reply = await asked(on)
        assert (reply.status, said(reply)["error"]["code"]) == (502, "lane_no_answer")
        assert reply.values(b"x-specgate-lane") == [b"spec"]
        assert on.spec.requests[0].complete
        assert [on.spec.requests_total, on.plain.requests_total] == [1, 0]
        assert (await on.ended()).outcome is Outcome.LANE_FAILED


async def test_a_kept_connection_ends_as_its_engine_dies():
    """One more try where the connection may just have been old. As the lane takes none any more it
    was not its age: the engine may have had the request, and the other lane is not asked."""

    async def dies(request: Request, connection: Connection) -> None:
        if request.number == 1:
            await connection.perform(response(200, b"ok"))
            return
        dying.append(asyncio.ensure_future(lane.stop()))
        await asyncio.sleep(1)

    dying: list[asyncio.Future[None]] = []
    async with ScriptedLane("spec") as lane, ScriptedLane("plain") as plain:
        urls = (lane.url, plain.url)
        async with running_gate(*urls, threshold="always", probe_interval_s=60) as gate:
            lane.answer("*", dies)
            async with connect(gate.url) as client:
                assert (await client.request(b"POST", CHAT, [JSON], chat())).status == 200
                reply = await client.request(b"POST", CHAT, [JSON], chat())
            assert reply.status == 502
            assert [lane.requests_total, plain.requests_total] == [2, 0]
            await asyncio.gather(*dying)
            # Nobody had this one: it goes to the other.
            async with connect(gate.url) as client:
                assert (await client.request(b"POST", CHAT, [JSON], chat())).status == 200
            assert plain.requests_total == 1


async def test_at_most_once():
    """The second lane's failure is the client's answer, whatever it is."""

    async def resets(request: Request, connection: Connection) -> None:
        await asyncio.sleep(0.05)
        connection.rst()

    async with stage(**ALL_OF_IT) as on:
        on.spec.answer("*", [DontReadBody(), resets])
        on.plain.answer("*", [DontReadBody(), resets])
        reply = await asked(on, **LARGE)
        assert (reply.status, said(reply)["error"]["code"]) == (503, "no_lane_reachable")
        assert reply.values(b"retry-after")
        assert [on.spec.requests_total, on.plain.requests_total] == [1, 1]
        ended = await on.ended()
        assert (ended.rerouted, ended.lane) == (False, None)


async def test_what_a_lane_holds_goes_nowhere_else():
    """A stored response that is known to be on the spec lane, and that lane does not take it."""
    async with stage(probe_interval_s=60) as on:
        body = {"id": "resp_1", "object": "response"}
        on.spec.answer_next(json_response(200, body))
        assert (await on.ask(b"POST", b"/v1/responses", [JSON], chat(stream=False))).status == 200
        full = {"object": "error", "message": "The request queue is full.", "code": 503}
        on.spec.answer_next(json_response(503, full))
        reply = await on.ask(b"POST", b"/v1/responses", [JSON], _after("resp_1"))
        assert (reply.status, said(reply)) == (503, full)
        assert reply.values(b"x-specgate-reason") == [b"held"]
        await on.spec.stop()
        reply = await on.ask(b"POST", b"/v1/responses", [JSON], _after("resp_1"))
        assert (reply.status, said(reply)["error"]["code"]) == (503, "holder_unreachable")
        assert on.plain.requests_total == 0
        await on.spec.start()


def _after(response_id: str) -> bytes:
    return chat(stream=False, previous_response_id=response_id)


async def test_a_lane_that_dies_under_load_loses_what_it_had_and_nothing_else():
    """Streams on it are cut, those to come are served by the other, and it comes back by itself."""
    async with stage(probe_interval_s=0.1) as on:
        on.spec.answer("*", never_ending_stream())
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(connect(on.url)) for _ in range(10)]
            for client in clients:
                await client.send(chat_request())
                await client.read_head()
            await on.spec.stop()
            for client in clients:
                body = await client.read_body()
                assert body.ending == "cut"
                assert b'"code": "lane_stream_broken"' in body.data
                assert b"[DONE]" not in body.data
        replies = await asyncio.gather(*(asked(on) for _ in range(20)))
        assert {reply.status for reply in replies} == {200}
        assert on.plain.requests_total == 20
        on.spec.answer("*", response(200, b"back"))
        await on.spec.start()
        async with asyncio.timeout(5):
            while (await asked(on)).body.data != b"back":
                await asyncio.sleep(0.05)
        failed = [fact for fact in on.gate.facts.of(RequestEnded) if fact.status != 200]
        assert failed == []
