"""What traffic says of a lane's health, and what it never says. core/health has the table of moves;
docs/explanation/health.md is held to it here where sockets are needed."""

import asyncio
from typing import Any

import pytest

from specgate.core.events import HealthChanged, LaneFailed, Probed, RequestEnded
from specgate.core.health import Health
from specgate.core.lanes import Lane
from specgate.upstream.base import Origin
from tests.support.client import chat, connect
from tests.support.lanes import (
    Connection,
    Fin,
    Pause,
    Request,
    Rst,
    Send,
    Silent,
    accepts_and_hangs,
    closes_mid_stream,
    error_response,
    json_response,
    response,
)
from tests.support.stage import Stage, stage

RARELY: dict[str, Any] = {"probe_interval_s": 3600}
"""Traffic alone has a say."""


def health(on: Stage, lane: Lane = Lane.SPEC) -> Health:
    return on.gate.service.gate.view().lanes[lane].health


async def ask(on: Stage) -> int:
    return (await on.ask(body=chat(stream=False))).status


@pytest.mark.parametrize("upstream", ["pooled", "httpx"])
@pytest.mark.parametrize("end", [Fin(), Rst()], ids=["fin", "rst"])
async def test_an_end_before_the_first_byte_counts(end: Any, upstream: str):
    """The second in a row ejects, and what comes then goes to the other lane."""
    async with stage(upstream=upstream, **RARELY) as on:
        on.spec.answer("*", end)
        assert await ask(on) == 502
        assert health(on) is Health.HEALTHY
        assert await ask(on) == 502
        assert health(on) is Health.EJECTED
        assert await ask(on) == 200
        assert on.spec.requests_total == 2
        changed = on.gate.facts.of(HealthChanged)[-1]
        assert (changed.lane, changed.now) == ("spec", Health.EJECTED)


async def test_an_answer_between_two_ends_forgets_the_first():
    async with stage(**RARELY) as on:
        for _ in range(5):
            # On a kept connection the end might be its age.
            on.spec.answer_next(Fin(), response(200, b"ok", [(b"connection", b"close")]))
            assert [await ask(on), await ask(on)] == [502, 200]
        assert health(on) is Health.HEALTHY


NO_WORD = {
    "400": error_response(400, "bad"),
    "404": error_response(404, "no such model"),
    "429": error_response(429, "too many", [(b"Retry-After", b"1")]),
    "500": error_response(500, "the engine broke"),
    "502": error_response(502, "its own proxy"),
    "503, full": json_response(503, {"object": "error", "message": "The request queue is full."}),
    "503, loading": error_response(503, "Loading model"),
    "503, other": error_response(503, "Request waiting timeout reached."),
    "late": [Pause(0.2), response(200, b"ok")],
    "breaks off": closes_mid_stream(2, Rst()),
}


@pytest.mark.parametrize("answer", NO_WORD.values(), ids=NO_WORD)
async def test_an_answer_says_nothing(answer: Any):
    async with stage(**RARELY) as on:
        on.spec.answer("*", answer)
        on.plain.answer("*", answer)
        for _ in range(4):
            await ask(on)
        assert (health(on), health(on, Lane.PLAIN)) == (Health.HEALTHY, Health.HEALTHY)
        assert len(on.gate.facts.of(HealthChanged)) == 2, "the two of the start"


async def test_slowness_says_nothing():
    """Time-outs of the gate's own, and clients that do not wait."""
    async with stage(first_byte_timeout_s=0.1, idle_timeout_s=0.1, **RARELY) as on:
        on.spec.answer("*", accepts_and_hangs())
        assert [await ask(on) for _ in range(4)] == [504] * 4
        for _ in range(4):
            async with connect(on.url) as client:
                await client.send(b"POST /v1/completions HTTP/1.1\r\nhost: g\r\n")
                await client.send(b"content-length: 2\r\n\r\n{}")
                await asyncio.sleep(0.02)
                client.rst()
        assert health(on) is Health.HEALTHY


async def test_both_lanes_are_never_ejected_by_load():
    """Two hundred at once, and neither lane answers for longer than its probes wait."""

    async def late(request: Request, connection: Connection) -> None:
        await go.wait()
        await connection.send(response(200, b"ok").data)

    go = asyncio.Event()
    async with stage(threshold=100) as on:
        for lane in (on.spec, on.plain):
            lane.answer("*", late)
            lane.answer("/ready", Silent())
        asking = [asyncio.ensure_future(ask(on)) for _ in range(200)]
        await on.spec.saw_requests(50, within_s=10)
        await asyncio.sleep(0.5)
        assert (health(on), health(on, Lane.PLAIN)) == (Health.HEALTHY, Health.HEALTHY)
        go.set()
        assert set(await asyncio.gather(*asking)) == {200}
        for lane in (on.spec, on.plain):
            lane.answer("/ready", json_response(200, {}))


async def test_an_ejected_lane_is_tried_by_one_probe_at_a_time():
    """Traffic keeps off it while the other lane serves, and a probe waits for the one before it."""
    trying = most = 0

    async def slow(request: Request, connection: Connection) -> None:
        nonlocal trying, most
        trying += 1
        most = max(most, trying)
        await asyncio.sleep(0.15)
        trying -= 1
        await connection.send(error_response(503, "not yet").data)

    async with stage(probe_interval_s=0.05) as on:
        on.spec.answer("/ready", slow)
        await on.gate.facts.wait_for(HealthChanged, count=3)
        assert health(on) is Health.EJECTED
        assert [await ask(on) for _ in range(20)] == [200] * 20
        tried = len([fact for fact in on.gate.facts.of(Probed) if fact.lane == "spec"])
        await on.gate.facts.wait_for(
            Probed, count=tried + 2, where=lambda fact: fact.lane == "spec"
        )
        assert most == 1
        asked_for = {request.target for request in on.spec.requests}
        assert asked_for == {b"/ready"}, "no traffic"
        on.spec.answer("/ready", json_response(200, {}))
        await on.gate.facts.wait_for(HealthChanged, count=4)
        assert health(on) is Health.HEALTHY
        assert await ask(on) == 200


async def test_sglangs_health_is_never_asked():
    """It generates a token; its 503 and its hanging under long prompts are no verdict (G08)."""
    async with stage(probe_interval_s=0.05) as on:
        for lane in (on.spec, on.plain):
            lane.answer("/health", error_response(503, "busy"))
            lane.answer("/health_generate", Silent())
        assert [await ask(on) for _ in range(5)] == [200] * 5
        await on.gate.facts.wait_for(Probed, count=10)
        probed = {request.target for lane in (on.spec, on.plain) for request in lane.probes}
        assert b"/health" not in probed
        assert health(on) is Health.HEALTHY


async def test_one_trouble_of_two_kinds_counts_together():
    """Not reached, and ended before a byte: the lane is gone either way."""
    async with stage(**RARELY) as on:
        on.spec.answer_next(Fin())
        assert await ask(on) == 502
        await on.spec.stop()
        assert await ask(on) == 200
        assert health(on) is Health.EJECTED
        kinds = [fact.kind for fact in on.gate.facts.of(LaneFailed)]
        assert kinds == ["no_answer", "connect"]
        await on.spec.start()


async def test_a_503_is_no_sign_that_a_lane_serves():
    """At the start, when nothing is known of it: an engine that loads its model is not up."""
    async with stage(**RARELY) as on:
        on.spec.answer_next(error_response(503, "Loading model"))
        on.gate.service.gate.set_origin(Origin.of(Lane.SPEC, on.spec.url + "/elsewhere"))
        assert health(on) is Health.PROBING
        assert await ask(on) == 200, "by the other lane"
        assert health(on) is Health.PROBING
        assert await ask(on) == 200
        assert health(on) is Health.HEALTHY
        assert len(on.gate.facts.of(RequestEnded)) == 2


async def test_half_a_status_line_is_no_end_before_the_first_byte():
    async with stage(**RARELY) as on:
        on.spec.answer("*", [Send(b"HTTP/1.1 2"), Rst()])
        assert [await ask(on) for _ in range(4)] == [502] * 4
        assert health(on) is Health.HEALTHY
