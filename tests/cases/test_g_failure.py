"""Cases G but G03 and G12: lanes that fail, and lanes that only seem to."""

import asyncio
import json
from typing import Any

import openai
import pytest

from specgate.core.events import HealthChanged, LaneFailed, Outcome
from specgate.core.health import Health
from specgate.core.lanes import Lane
from tests.support.client import CHAT, JSON, chat, chat_request, connect, get
from tests.support.control import said
from tests.support.figures import total
from tests.support.lanes import (
    Connection,
    Fin,
    Pause,
    Request,
    Rst,
    ScriptedLane,
    Send,
    Silent,
    accepts_and_hangs,
    chunk,
    closes_mid_stream,
    delta,
    error_response,
    json_response,
    never_ending_stream,
    response,
    sse_head,
)
from tests.support.live import running_gate
from tests.support.stage import Stage, stage

BOTH = [Lane.SPEC, Lane.PLAIN]


def health(on: Stage) -> list[Health]:
    lanes = on.gate.service.gate.view().lanes
    return [lanes[lane].health for lane in BOTH]


@pytest.mark.usefixtures("form")
async def test_g01_dies_mid_stream():
    """The engine died in the middle of a stream, and its client saw a clean end."""
    async with stage() as on:
        on.spec.answer_next(closes_mid_stream(3, Rst()))
        reply = await on.ask()
        whole = b"".join(delta(f"t{number}") for number in range(3))
        assert reply.body.data.startswith(whole)
        event = reply.body.data.removeprefix(whole)
        assert json.loads(event.removeprefix(b"data: "))["error"]["code"] == "lane_stream_broken"
        assert b"[DONE]" not in reply.body.data
        assert reply.body.ending == "cut"
        ended = await on.ended()
        assert (ended.outcome, ended.lane) == (Outcome.LANE_FAILED, Lane.SPEC)
        assert total(await on.gate.metrics(), "specgate_upstream_errors_total", kind="broken") == 1
        assert on.plain.requests == []


WRONG: dict[str, tuple[Any, int, str]] = {
    "accepts, then a FIN": (Fin(), 502, "lane_no_answer"),
    "accepts, then a reset": (Rst(), 502, "lane_no_answer"),
    "garbage": ([Send(b"\x00\x01garbage\r\n\r\n"), Fin()], 502, "lane_no_answer"),
    "no answer in time": (accepts_and_hangs(), 504, "lane_timeout"),
}


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize(("script", "status", "code"), WRONG.values(), ids=WRONG)
async def test_g02_wrong_status_after_failure(script: Any, status: int, code: str):
    """What failed upstream came down as a 200 with the error for its text."""
    async with stage(first_byte_timeout_s=0.3) as on:
        on.spec.answer_next(script)
        reply = await on.ask()
        assert (reply.status, said(reply)["error"]["code"]) == (status, code)
        assert reply.values(b"content-type") == [b"application/json"]
        assert reply.values(b"x-specgate-lane") == [b"spec"]
        assert "spec lane" in said(reply)["error"]["message"]


async def test_g02_refused_by_both():
    async with stage(probe_interval_s=60) as on:
        await on.spec.stop()
        await on.plain.stop()
        reply = await on.ask()
        assert (reply.status, said(reply)["error"]["code"]) == (503, "no_lane_reachable")
        await on.spec.start()
        await on.plain.start()


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
async def test_g04_error_body_from_engine(status: int):
    """The engine's own error lost its body or its Retry-After, or took the lane out of service."""
    answer = error_response(status, "as the engine says it", [(b"Retry-After", b"17")])
    async with stage() as on:
        on.spec.answer("*", answer)
        for _ in range(5):
            reply = await on.ask()
            assert reply.status == status
            assert reply.body.data == answer.data.partition(b"\r\n\r\n")[2]
            assert reply.values(b"retry-after") == [b"17"]
        assert health(on) == [Health.HEALTHY] * 2
        assert on.plain.requests == []
        assert on.gate.facts.of(LaneFailed) == []


async def test_g05_sdk_and_proxy_both_retry():
    """Each of them tried three times: nine requests for one."""
    async with stage() as on:
        on.spec.answer("*", error_response(503, "overloaded"))
        async with openai.AsyncOpenAI(
            base_url=on.url + "/v1", api_key="k", max_retries=2
        ) as client:
            with pytest.raises(openai.InternalServerError):
                await client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": "Hi"}]
                )
        assert [on.spec.requests_total, on.plain.requests_total] == [3, 0]


@pytest.mark.slow
async def test_g06_breaker_opens_under_load():
    """Two thousand at once took the workers out, which were alive; then nothing came back."""

    async def works(request: Request, connection: Connection) -> None:
        await go.wait()
        await connection.send(response(200, b"ok").data)

    go = asyncio.Event()
    async with stage(probe_interval_s=0.2, threshold=250) as on:
        lanes = (on.spec, on.plain)
        for lane in lanes:
            lane.answer("*", works)
        asking = [asyncio.ensure_future(on.ask()) for _ in range(500)]
        async with asyncio.timeout(20):
            while on.gate.service.gate.in_flight < 500:
                await asyncio.sleep(0.05)
        await asyncio.sleep(1)
        assert health(on) == [Health.HEALTHY] * 2
        go.set()
        assert {reply.status for reply in await asyncio.gather(*asking)} == {200}

        for lane in lanes:
            await lane.stop()
        for _ in range(5):
            reply = await on.ask()
            assert reply.status == 503
            assert int(reply.values(b"retry-after")[0]) >= 1
        assert (await get(on.url + "/readyz")).status == 503

        await on.plain.start()
        assert (await on.ask()).status == 200, "it is asked, ejected or not"
        async with asyncio.timeout(2):
            while (await get(on.url + "/readyz")).status != 200:
                await asyncio.sleep(0.02)
        await on.spec.start()


async def test_g07_hang():
    """One engine that took connections and never answered hung the requests to the other."""
    async with stage(threshold=4, first_byte_timeout_s=1.5) as on:
        on.spec.answer("*", accepts_and_hangs())
        stuck = [asyncio.ensure_future(on.ask()) for _ in range(3)]
        await on.spec.saw_requests(3)
        others = await asyncio.gather(*(on.ask(body=chat(stream=False)) for _ in range(20)))
        assert {reply.status for reply in others} == {200}
        assert {reply.values(b"x-specgate-lane")[0] for reply in others} == {b"plain"}
        await asyncio.sleep(0.3)
        assert (await on.gate.status())["in_flight"]["spec"] == 3
        assert await on.sample("specgate_oldest_in_flight_seconds") > 0.2
        assert {reply.status for reply in await asyncio.gather(*stuck)} == {504}


async def test_g08_health_probe_lies():
    """The probe timed out while the engine served long prompts, and it was taken out."""
    async with stage(probe_interval_s=0.05) as on, connect(on.url) as client:
        on.spec.answer("/health", [Pause(30), response(200)])
        on.spec.answer("/ready", Silent())
        on.spec.answer_next(never_ending_stream(), path=CHAT.decode())
        await client.send(chat_request())
        await client.read_head()
        await client.read_until(b"\n\n\r\n", times=20)
        assert health(on) == [Health.HEALTHY] * 2
        assert (await on.ask()).values(b"x-specgate-lane") == [b"spec"]
        client.rst()
        (stream, *_) = (request for request in on.spec.requests if request.method == b"POST")
        await on.spec.saw_close(request=stream)
        on.spec.answer("/ready", json_response(200, {}))


async def test_g10_start_up_order():
    """The router was there before its workers, and gave up, or sent requests too early."""
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        for lane in (spec, plain):
            await lane.stop()
        async with running_gate(
            spec.url, plain.url, threshold="always", probe_interval_s=0.05
        ) as gate:
            assert (await get(gate.url + "/readyz")).status == 503
            async with connect(gate.url) as client:
                assert (await client.request(b"POST", CHAT, [JSON], chat())).status == 503
                await plain.start()
                async with asyncio.timeout(2):
                    while (await get(gate.url + "/readyz")).status != 200:
                        await asyncio.sleep(0.02)
                reply = await client.request(b"POST", CHAT, [JSON], chat())
                assert reply.status == 200
                assert reply.values(b"x-specgate-reason") == [b"lane_down"]
                await spec.start()
                await gate.facts.wait_for(
                    HealthChanged, where=lambda fact: (fact.lane, fact.now) == ("spec", "healthy")
                )
                reply = await client.request(b"POST", CHAT, [JSON], chat())
                assert reply.values(b"x-specgate-reason") == [b"always"]


@pytest.mark.parametrize(
    ("threshold", "down"), [("always", Lane.SPEC), (0, Lane.PLAIN)], ids=["spec", "plain"]
)
async def test_g11_fall_back_to_the_other_server(threshold: Any, down: Lane):
    """At a low load without the spec lane, at a high one without the plain lane: the other serves,
    and says why."""
    async with stage(threshold=threshold, probe_interval_s=0.05) as on:
        lanes = {Lane.SPEC: on.spec, Lane.PLAIN: on.plain}
        await lanes[down].stop()
        await on.gate.facts.wait_for(HealthChanged, count=3)
        reply = await on.ask()
        assert reply.status == 200
        assert reply.values(b"x-specgate-lane") == [down.other.encode()]
        assert reply.values(b"x-specgate-reason") == [b"lane_down"]
        assert (await on.gate.status())["side"] == down
        decided = "specgate_decisions_total"
        metrics = await on.gate.metrics()
        assert total(metrics, decided, lane=down.other, reason="lane_down") == 1
        await lanes[down].start()


async def test_g01_a_frame_that_was_cut_in_half():
    """Half of an event line came: the error begins a line of its own."""
    async with stage() as on:
        half = delta("whole") + b'data: {"choices": [{"delta": {"con'
        on.spec.answer_next([Send(sse_head()), Send(chunk(half)), Fin()])
        reply = await on.ask()
        assert reply.body.data.startswith(half + b'\n\ndata: {"error": ')
