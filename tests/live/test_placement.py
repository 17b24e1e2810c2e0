"""Split pools and the shadow: over a real socket."""

import asyncio

from tests.support.client import chat_request, connect
from tests.support.stage import Stage, stage
from tests.support.streams import held


async def lane_and_reason(on: Stage, *, n: int = 1) -> tuple[str, str]:
    async with connect(on.url) as client:
        await client.send(chat_request(n=n))
        _, headers = await client.read_head()
        await client.read_body()
    named = dict(headers)
    return named[b"x-specgate-lane"].decode(), named[b"x-specgate-reason"].decode()


async def test_split_fills_the_spec_lane_up_to_its_own_threshold_and_lets_the_rest_overflow():
    end = asyncio.Event()
    async with stage(threshold=3, pool="split") as on:
        on.spec.answer_next(held(end))
        async with connect(on.url) as one, connect(on.url) as two:
            await one.send(chat_request(n=2))
            await one.read_head()
            assert await lane_and_reason(on) == ("plain", "overflow")
            on.plain.answer_next(held(end))
            await two.send(chat_request(n=40))
            await two.read_head()
            status = await on.gate.status()
            assert status["in_flight"]["spec"] == 2
            assert (status["side"], status["switches"]) == ("spec", 0)
            end.set()
            await one.read_body()
            await two.read_body()
        assert await lane_and_reason(on, n=2) == ("spec", "below_threshold")


async def test_split_with_never_stays_plain_and_with_always_fills_the_spec_lane():
    async with stage(threshold="never", pool="split") as on:
        assert await lane_and_reason(on) == ("plain", "never")
    async with stage(threshold="always", pool="split") as on:
        assert await lane_and_reason(on, n=100) == ("spec", "always")


async def test_in_shadow_one_lane_serves_and_the_gate_decides_for_show():
    async with stage(threshold=3, smoothing_s=0, shadow="spec") as on:
        assert await lane_and_reason(on) == ("spec", "shadow")
        assert await lane_and_reason(on, n=5) == ("spec", "shadow")
        status = await on.gate.status()
        assert (status["side"], status["reason"]) == ("plain", "above_threshold")
        assert status["switches"] == 1
        assert not on.plain.requests


async def test_in_shadow_of_plain_nothing_speculates():
    async with stage(threshold="always", shadow="plain") as on:
        assert await lane_and_reason(on) == ("plain", "shadow")
        assert (await on.gate.status())["side"] == "spec"
        assert not on.spec.requests
