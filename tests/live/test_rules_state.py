"""What one lane's engine holds is asked of that lane: sessions, stored responses."""

import asyncio
import gzip
import json
from typing import Any

import pytest

from specgate.core.lanes import Lane
from specgate.core.policy import Mode
from specgate.engines.base import Engine
from specgate.upstream.base import Origin
from tests.live.test_rules_features import decision, runs
from tests.support.client import JSON, Response, chat_request, connect
from tests.support.control import message, said
from tests.support.lanes import (
    Script,
    Send,
    Silent,
    WaitFor,
    chunk,
    error_response,
    frame,
    json_response,
    response,
    sse_head,
    sse_response,
)
from tests.support.stage import Stage, stage

RESPONSES = b"/v1/responses"


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "input": "Hi", **fields}).encode()


def stored(state: str) -> dict[str, Any]:
    return {"id": state, "object": "response", "output": [{"id": "msg_9", "type": "message"}]}


def created(state: str) -> bytes:
    return frame({"response": stored(state), "sequence_number": 0, "type": "response.created"})


async def make(on: Stage, state: str, lane: Lane) -> None:
    """A response that is stored on this lane."""
    scripted = on.spec if lane is Lane.SPEC else on.plain
    on.gate.service.gate.set_mode(Mode(lane.value))
    scripted.answer_next(json_response(200, stored(state)))
    reply = await on.ask(target=RESPONSES, body=body())
    assert reply.values(b"x-specgate-lane") == [lane.encode()]
    on.gate.service.gate.set_mode(Mode.AUTO)


async def follow(on: Stage, state: str) -> Response:
    """The next turn of it."""
    return await on.ask(target=RESPONSES, body=body(previous_response_id=state))


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("upstream", ["pooled", "httpx"])
@pytest.mark.parametrize("lane", Lane)
async def test_a_stored_response_is_asked_of_the_lane_that_holds_it(lane: Lane, upstream: str):
    threshold = "never" if lane is Lane.SPEC else "always"
    async with stage(threshold=threshold, upstream=upstream) as on:
        await make(on, "resp_1", lane)
        here, there = (on.spec, on.plain) if lane is Lane.SPEC else (on.plain, on.spec)
        here.answer("*", json_response(200, stored("resp_1")))
        reply = await follow(on, "resp_1")
        assert (reply.status, *decision(reply)) == (200, lane.encode(), b"held")
        assert here.requests[-1].body == body(previous_response_id="resp_1")
        calls = [
            (b"GET", RESPONSES + b"/resp_1", None),
            (b"GET", RESPONSES + b"/resp_1/?include=x&stream=true", None),
            (b"GET", RESPONSES + b"/resp%5F1/input_items", None),
            (b"POST", RESPONSES + b"/resp_1/cancel", b""),
            (b"DELETE", RESPONSES + b"/resp_1", None),
        ]
        for method, target, sent in calls:
            reply = await on.ask(method, target, [], sent)
            assert (reply.status, *decision(reply)) == (200, lane.encode(), b"held"), target
            assert (here.requests[-1].method, here.requests[-1].target) == (method, target)
        assert there.requests == []


@pytest.mark.usefixtures("form")
async def test_an_id_is_learnt_from_a_stream_while_it_runs_without_holding_it_back():
    """A response is cancelled while it is made."""
    end = asyncio.Event()
    first, rest = created("resp_2"), frame({"type": "response.output_text.delta", "delta": "a"})
    async with stage() as on:
        cut = first.index(b"esp_2")
        head = sse_head() + chunk(first[:cut])
        last = chunk(rest) + b"0\r\n\r\n"
        on.spec.answer_next([Send(head), Send(chunk(first[cut:])), WaitFor(end), Send(last)])
        async with connect(on.url) as client:
            await client.send(chat_request().replace(b"chat/completions", b"responses", 1))
            await client.read_head()
            seen = b""
            while first not in seen.replace(b"\r\n", b"").replace(b"%x" % cut, b""):
                piece = await client.read_exact(1)
                seen += piece
                if seen.endswith(b"\n\n"):
                    break
            on.spec.answer_next(json_response(200, stored("resp_2")))
            reply = await on.ask(b"POST", RESPONSES + b"/resp_2/cancel", [], b"")
            assert (reply.status, *decision(reply)) == (200, b"spec", b"held")
            assert on.plain.requests == []
            end.set()
            await client.read_until(b"0\r\n\r\n")
            await client.close()


async def test_the_bytes_are_the_engine_s():
    async with stage() as on:
        on.spec.answer_next(sse_response([created("resp_3"), b"data: [DONE]\n\n"]))
        reply = await on.ask(target=RESPONSES, body=body(stream=True))
        assert reply.body.data == created("resp_3") + b"data: [DONE]\n\n"
        assert decision(await follow(on, "resp_3"))[1] == b"held"


@pytest.mark.parametrize(
    "answer",
    [
        error_response(400, "no store"),
        response(200, gzip.compress(b'{"id": "resp_4"}'), [(b"content-encoding", b"gzip")]),
    ],
)
async def test_what_failed_or_cannot_be_read_teaches_nothing(answer: Script):
    async with stage() as on:
        on.spec.answer_next(answer)
        await on.ask(target=RESPONSES, body=body())
        assert decision(await follow(on, "resp_4")) == (b"spec", b"always")


async def test_features_and_a_forced_mode_do_not_move_what_is_held():
    async with stage(threshold="never", force_lane="allow") as on:
        await make(on, "resp_5", Lane.SPEC)
        runs(on, Engine.SGLANG)
        sent = body(previous_response_id="resp_5", min_p=0.5)
        reply = await on.ask(
            headers=[JSON, (b"x-specgate-lane", b"plain")], target=RESPONSES, body=sent
        )
        assert decision(reply) == (b"spec", b"held")
        on.gate.service.gate.set_mode(Mode.PLAIN)
        assert decision(await follow(on, "resp_5")) == (b"spec", b"held")


async def test_an_id_that_nobody_told_of_is_looked_for_on_both_lanes():
    """After a restart of the gate, say: the better answer, and no 404 that is not true."""
    async with stage() as on:
        on.plain.answer("*", error_response(404, "not here"))
        on.spec.answer("*", json_response(200, stored("resp_6")))
        reply = await on.ask(b"GET", RESPONSES + b"/resp_6", [])
        assert (reply.status, *decision(reply)) == (200, b"spec", b"both")
        on.spec.answer("*", error_response(404, "nor here"))
        assert (await on.ask(b"GET", RESPONSES + b"/resp_6", [])).status == 404
        await on.spec.stop()
        reply = await on.ask(b"GET", RESPONSES + b"/resp_6", [])
        assert (reply.status, said(reply)["error"]["code"]) == (502, "half_done")


async def test_a_404_is_not_believed_while_the_other_lane_hangs(monkeypatch):
    monkeypatch.setattr("specgate.proxy.both.OTHER_WAIT_S", 0.1)
    async with stage() as on:
        on.plain.answer("*", error_response(404, "not here"))
        on.spec.answer("*", Silent())
        reply = await on.ask(b"GET", RESPONSES + b"/resp_6", [])
        assert (reply.status, said(reply)["error"]["code"]) == (502, "half_done")
        await on.spec.saw_close()


async def test_a_generation_that_refers_to_an_unknown_id_is_never_made_twice():
    async with stage() as on:
        on.spec.answer("*", error_response(404, "no such response"))
        reply = await follow(on, "resp_7")
        assert (reply.status, *decision(reply)) == (404, b"spec", b"always")
        assert (on.spec.requests_total, on.plain.requests_total) == (1, 0)


@pytest.mark.parametrize("known", [True, False])
async def test_a_holder_that_is_down_is_a_503_and_not_the_other_s_404(known: bool):
    async with stage(probe_interval_s=0.1 if known else 60) as on:
        await make(on, "resp_8", Lane.PLAIN)
        await on.plain.stop()
        if known:
            async with asyncio.timeout(5):
                while on.gate.service.gate.view().lanes[Lane.PLAIN].health != "ejected":
                    await asyncio.sleep(0.02)
        for reply in (
            await follow(on, "resp_8"),
            await on.ask(b"GET", RESPONSES + b"/resp_8", []),
        ):
            assert (reply.status, said(reply)["error"]["code"]) == (503, "holder_unreachable")
            assert "the plain lane holds" in message(reply)
            assert int(reply.values(b"retry-after")[0]) >= 1
        assert on.spec.requests == []


async def test_what_a_lane_held_goes_with_its_engine():
    async with stage() as on:
        await make(on, "resp_9", Lane.PLAIN)
        gate = on.gate.service.gate
        gate.set_origin(Origin.of(Lane.PLAIN, f"http://localhost:{on.plain.port}"))
        assert decision(await follow(on, "resp_9")) == (b"spec", b"always")


@pytest.mark.usefixtures("form")
async def test_a_session_stays_where_it_was_opened():
    """SGLang's: opened on the plain lane, as a call that decodes nothing."""
    async with stage() as on:
        on.plain.answer_next(json_response(200, "s-1"))
        opened = await on.ask(b"POST", b"/open_session", [JSON], b'{"capacity_of_str_len": 1000}')
        assert (json.loads(opened.body.data), *decision(opened)) == (
            "s-1",
            b"plain",
            b"not_generation",
        )
        for fields in ({"session_params": {"id": "s-1", "rid": None}}, {"session_id": "s-1"}):
            sent = json.dumps({"text": "a", **fields}).encode()
            reply = await on.ask(target=b"/generate", body=sent)
            assert (reply.status, *decision(reply)) == (200, b"plain", b"held")
            assert on.plain.requests[-1].body == sent
        other = json.dumps({"text": "a", "session_id": "s-2"}).encode()
        assert decision(await on.ask(target=b"/generate", body=other)) == (b"spec", b"always")
        assert on.spec.requests_total == 1
        reply = await on.ask(b"POST", b"/close_session", [JSON], b'{"session_id": "s-1"}')
        assert decision(reply) == (b"plain", b"held")
        assert on.spec.requests_total == 1
        on.plain.answer("*", error_response(400, "no such session"))
        reply = await on.ask(b"POST", b"/close_session", [JSON], b'{"session_id": "s-2"}')
        assert (reply.status, *decision(reply)) == (200, b"spec", b"both")


async def test_an_id_is_not_learnt_for_the_lane_that_declined():
    full = {"message": "The request queue is full.", "type": "SERVICE_UNAVAILABLE", "code": 503}
    async with stage() as on:
        on.spec.answer_next(sse_response([frame({"error": full}), b"data: [DONE]\n\n"]))
        on.plain.answer_next(json_response(400, stored("resp_6")))
        reply = await on.ask(target=RESPONSES, body=body(stream=True))
        assert (reply.status, *decision(reply)) == (400, b"plain", b"rerouted")
        assert not on.gate.service.gate.holds("resp_6")
