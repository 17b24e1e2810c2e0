"""Lanes that say that they did not take a request on: the other lane has it, once, or the client
has the engine's own words."""

import asyncio
from typing import Any

import pytest

from specgate.core.errors import FailureKind
from specgate.core.events import HealthChanged, LaneFailed, Outcome
from tests.support.client import CHAT, JSON, Response, chat, chat_request, connect
from tests.support.control import said
from tests.support.lanes import (
    DONE,
    Pause,
    Send,
    Silent,
    chunk,
    chunked,
    closes_mid_stream,
    delta,
    error_response,
    frame,
    head,
    json_response,
    refuses,
    sse_head,
    sse_response,
)
from tests.support.live import running_gate
from tests.support.stage import Stage, stage

FULL = {"object": "error", "message": "The request queue is full.", "type": "503", "code": 503}
FULL_EVENT = frame({"error": {**FULL, "type": "SERVICE_UNAVAILABLE", "param": None}})
RETRY = [(b"Retry-After", b"7")]

DECLINES: dict[str, Any] = {
    "sglang": json_response(503, FULL, RETRY),
    "vllm": json_response(503, {"error": {"message": "Request queue full.", "code": 503}}),
    "vllm, scaling": json_response(
        503, {"error": "The model is currently scaling. Please try again later."}
    ),
    "llama.cpp, loading": json_response(
        503, {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}
    ),
    "sglang-router, no worker": json_response(
        503,
        {
            "error": {
                "type": "Service Unavailable",
                "code": "no_available_workers",
                "message": "No available workers (all circuits open or unhealthy)",
            }
        },
    ),
    "in pieces": [
        Send(head(503, [(b"content-type", b"application/json"), (b"content-length", b"38")])),
        Pause(0.05),
        Send(b'{"message": "The request '),
        Pause(0.05),
        Send(b'queue full."}'),
    ],
    "sglang, a stream": sse_response([FULL_EVENT, DONE]),
    "sglang, a stream in one write": Send(sse_head() + chunked(FULL_EVENT, DONE)),
    "sglang, a stream byte by byte": sse_response([bytes([byte]) for byte in FULL_EVENT] + [DONE]),
}

OTHERS: dict[str, Any] = {
    "a time-out": json_response(503, {**FULL, "message": "Request running timeout reached."}),
    "evicted": json_response(
        503, {**FULL, "message": "The request is aborted by a higher priority request."}
    ),
    "no words": Send(head(503, [(b"content-length", b"0")])),
    "not JSON": Send(head(503, [(b"content-length", b"10")]) + b"queue full"),
    "not its status": json_response(429, FULL, RETRY),
    "500": error_response(500, "Loading model"),
    "sglang-router, a worker that broke": json_response(
        500, {"error": {"code": "call_upstream_request_error", "message": "Request failed: ..."}}
    ),
    "a code elsewhere": json_response(503, {"error": {"data": {"code": "no_available_workers"}}}),
    "too long": json_response(503, {"message": "x" * 70_000 + "queue is full"}),
    "a stream that goes on": sse_response([FULL_EVENT, delta("and more"), DONE]),
    "a stream that began": sse_response([delta(""), FULL_EVENT, DONE]),
    "another error": sse_response([frame({"error": {"message": "queue full", "code": 400}}), DONE]),
    "its text": sse_response([delta('data: {"error": {"message": "queue full"}}'), DONE]),
}


async def asked(on: Stage, **extra: Any) -> Response:
    return await on.ask(body=chat(**extra))


def body_of(script: Any) -> bytes:
    """What a script of one Send, or of chunks, sends as its body."""
    if isinstance(script, Send):
        return script.data.partition(b"\r\n\r\n")[2]
    pieces = [step.data for step in script[1:] if isinstance(step, Send)]
    return b"".join(piece.split(b"\r\n", 1)[1][:-2] for piece in pieces[:-1])


UPSTREAMS = pytest.mark.parametrize("upstream", ["pooled", "httpx"])


@UPSTREAMS
@pytest.mark.parametrize("declines", DECLINES.values(), ids=DECLINES)
async def test_the_other_lane_has_it(declines: Any, upstream: str):
    async with stage(upstream=upstream) as on:
        on.spec.answer("*", declines)
        reply = await asked(on)
        assert reply.status == 200
        assert reply.body.clean
        assert b"Hello" in reply.body.data
        assert reply.values(b"x-specgate-lane") == [b"plain"]
        assert reply.values(b"x-specgate-reason") == [b"rerouted"]
        assert [len(on.spec.requests), len(on.plain.requests)] == [1, 1]
        assert on.plain.requests[0].body == on.spec.requests[0].body
        ended = await on.ended()
        assert (ended.rerouted, ended.outcome) == (True, Outcome.COMPLETED)
        assert [fact.kind for fact in on.gate.facts.of(LaneFailed)] == [FailureKind.DECLINED]
        # It is no word on the lane's health, however often it is said.
        for _ in range(5):
            await asked(on)
        assert len(on.spec.requests) == 6
        assert (await on.gate.status())["lanes"]["spec"]["health"] == "healthy"


@pytest.mark.parametrize("says", OTHERS.values(), ids=OTHERS)
async def test_all_else_goes_to_the_client_as_it_is(says: Any):
    async with stage() as on:
        on.spec.answer_next(says)
        reply = await asked(on)
        assert reply.body.data == body_of(says)
        assert reply.values(b"x-specgate-lane") == [b"spec"]
        assert on.plain.requests == []
        assert on.gate.facts.of(LaneFailed) == []


@pytest.mark.parametrize("name", ["sglang", "sglang, a stream"])
async def test_both_decline(name: str):
    """The client has the second one's own words, and each was asked once."""
    second = json_response(503, {**FULL, "message": "Mine is full: the request queue is full"})
    async with stage() as on:
        on.spec.answer("*", DECLINES[name])
        on.plain.answer("*", second)
        reply = await asked(on)
        assert reply.status == 503
        assert reply.body.data == body_of(second)
        assert reply.values(b"x-specgate-lane") == [b"plain"]
        assert [len(on.spec.requests), len(on.plain.requests)] == [1, 1]


@pytest.mark.parametrize("name", ["sglang", "sglang, a stream"])
async def test_the_other_lane_takes_no_connection(name: str):
    """What the first one said is the better answer: whole, and with its Retry-After."""
    async with stage(probe_interval_s=60) as on:
        await on.plain.stop()
        on.spec.answer_next(DECLINES[name])
        reply = await asked(on)
        assert reply.body.clean
        if name == "sglang":
            assert (reply.status, said(reply)) == (503, FULL)
            assert reply.values(b"retry-after") == [b"7"]
        else:
            assert (reply.status, reply.body.data) == (200, FULL_EVENT + DONE)
        assert reply.values(b"x-specgate-lane") == [b"spec"]
        assert reply.values(b"x-specgate-reason") == [b"always"]
        ended = await on.ended()
        assert (ended.lane, ended.rerouted, ended.outcome) == ("spec", False, Outcome.COMPLETED)
        await on.plain.start()


async def test_the_other_lane_is_ejected_or_drained():
    """It is not asked: a host that swallows packets would cost seconds for each."""
    async with stage(admin_token="t") as on:
        on.spec.answer("*", DECLINES["sglang"])
        drain = await on.gate.http.post(
            "/_specgate/lanes/plain/drain", headers={"Authorization": "Bearer t"}
        )
        assert drain.status_code == 200
        assert (await asked(on)).status == 503
        await on.gate.http.post(
            "/_specgate/lanes/plain/undrain", headers={"Authorization": "Bearer t"}
        )
        on.plain.answer("/ready", error_response(503, "draining"))
        await on.gate.facts.wait_for(HealthChanged, count=3)
        assert (await asked(on)).status == 503
        assert on.plain.requests_total == sum(
            request.target == b"/ready" for request in on.plain.requests
        )
        on.plain.answer("/ready", json_response(200, {}))


async def test_both_lanes_are_one_engine():
    async with stage() as on:
        on.spec.answer("*", DECLINES["sglang"])
        async with running_gate(on.spec.url, on.spec.url, threshold="always") as gate:
            async with connect(gate.url) as client:
                reply = await client.request(b"POST", CHAT, [JSON], chat())
            assert reply.status == 503
            assert on.spec.requests_total == 1


@pytest.mark.parametrize(
    ("extra", "served"),
    [({"n": 3}, False), ({"n": 1}, True)],
    ids=["several sequences", "one"],
)
async def test_a_full_queue_refuses_one_of_several(extra: dict[str, Any], served: bool):
    """Of three choices two may be in the engine already."""
    async with stage() as on:
        on.spec.answer_next(DECLINES["sglang"])
        assert (await asked(on, **extra)).status == (200 if served else 503)
        on.spec.answer_next(DECLINES["llama.cpp, loading"])
        assert (await asked(on, **extra)).status == 200, "an engine that loads has none"


async def test_a_request_that_a_rule_bound_to_its_lane():
    """On the other it would be served otherwise than it was asked to."""
    async with stage(force_lane="allow") as on:
        on.plain.answer("*", DECLINES["sglang"])
        bound = await on.ask(headers=[JSON, (b"x-specgate-lane", b"plain")])
        assert bound.status == 503
        assert bound.values(b"x-specgate-reason") == [b"requested"]
        assert (await asked(on, min_p=0.1)).status == 503
        assert on.spec.requests == []


async def test_a_body_that_is_gone():
    """More than is read ahead was sent as it came, and nobody has it any more."""
    async with stage(peek_limit=1024) as on:
        on.spec.answer_next(DECLINES["sglang"])
        assert (await asked(on, more="x" * 5000)).status == 503
        assert on.plain.requests == []


async def test_a_call_that_decodes_nothing():
    async with stage() as on:
        on.plain.answer_next(DECLINES["llama.cpp, loading"])
        reply = await on.ask(b"GET", b"/v1/things", ())
        assert reply.values(b"x-specgate-lane") == [b"spec"]
        assert len(on.spec.requests) == 1


async def test_a_stream_s_head_waits_for_its_first_event_and_no_longer():
    async with stage() as on, connect(on.url) as client:
        loop = asyncio.get_running_loop()
        on.spec.answer_next([Send(sse_head()), Silent()])
        await client.send(chat_request())
        began = loop.time()
        await client.read_head()
        assert 0.9 <= loop.time() - began < 3
        assert client.status == 200
    async with stage() as on, connect(on.url) as client:
        for first in (b": ping\n\n", delta(""), b'data: {"id"', b"event: message\n"):
            on.spec.answer_next([Send(sse_head()), Pause(0.1), Send(chunk(first)), Silent()])
            async with connect(on.url) as client:
                await client.send(chat_request())
                began = loop.time()
                await client.read_head()
                assert await client.read_until(b"\n") == b"%x\r\n" % len(first)
                assert loop.time() - began < 0.8


async def test_a_known_engine_of_another_kind_is_not_waited_for():
    async with stage() as on:
        models = {"object": "list", "data": [{"id": "m", "owned_by": "llamacpp"}]}
        on.spec.answer("/v1/models", json_response(200, models))
        on.spec.answer("/ready", error_response(404, "none"))
        async with running_gate(on.spec.url, on.plain.url, threshold="always") as gate:
            before = asyncio.get_running_loop().time()
            on.spec.answer_next([Send(sse_head()), Silent()], path=CHAT.decode())
            async with connect(gate.url) as client:
                await client.send(chat_request())
                await client.read_head()
            assert asyncio.get_running_loop().time() - before < 0.8


async def test_a_stream_that_breaks_before_its_first_event_has_an_error_of_its_own():
    """Nothing went down yet: it is a 502, and not a 200 that is cut."""
    async with stage() as on:
        on.spec.answer_next(closes_mid_stream(0))
        reply = await asked(on)
        assert reply.status == 502
        assert b"lane_stream_broken" in reply.body.data
        assert on.plain.requests == [], "it may have been worked on"
        assert [fact.kind for fact in on.gate.facts.of(LaneFailed)] == [FailureKind.BROKEN]


async def test_nobody_listens_where_a_request_is_declined_to():
    """Declined, and the other lane refuses connections for the first time: 503, never a hang."""
    async with stage(probe_interval_s=60) as on:
        with refuses() as plain:
            async with running_gate(
                on.spec.url, plain, threshold="always", probe_interval_s=60
            ) as gate:
                on.spec.answer_next(DECLINES["llama.cpp, loading"])
                async with connect(gate.url) as client:
                    reply = await client.request(b"POST", CHAT, [JSON], chat())
                assert reply.status == 503
                assert said(reply)["error"]["message"] == "Loading model"
