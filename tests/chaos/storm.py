"""The seeded schedule: each lane's weather, each for itself, and an operator who forces sides."""

import asyncio
import json
import random

from tests.chaos.fates import CLEAR, STORMS, Weather
from tests.chaos.lanes import LaneProcess
from tests.support.client import connect
from tests.support.control import KEY

CLEAR_SHARE = 0.45


async def storms(lane: LaneProcess, seed: int) -> None:
    """Until it is cancelled. Every storm is met once before any is met again."""
    rng = random.Random(f"{seed} {lane.name} weather")
    events = ["refuse", "kill", "stop", *range(len(STORMS))]
    while True:
        rng.shuffle(events)
        for event in events:
            if rng.random() < CLEAR_SHARE:
                await _weather(lane, CLEAR)
                await asyncio.sleep(rng.uniform(0.5, 3.0))
            await _meet(lane, event, rng.uniform(0.2, 2.0))


async def forced(url: str, seed: int) -> None:
    """An operator who forces one side, then the other, and lets go again; until it is cancelled."""
    rng = random.Random(f"{seed} operator")
    while True:
        for mode in ("auto", "spec", "auto", "plain"):
            async with connect(url) as client:
                body = json.dumps({"mode": mode}).encode()
                reply = await client.request(b"PUT", b"/_specgate/mode", KEY, body)
            assert reply.status == 200, reply
            await asyncio.sleep(rng.uniform(1, 6))


async def _meet(lane: LaneProcess, event: object, seconds: float) -> None:
    match event:
        case "refuse":
            async with lane.lock:
                await lane.refuse_for(seconds)
        case "kill":
            async with lane.lock:
                await lane.be_killed_for(seconds)
        case "stop":
            async with lane.lock:
                await lane.be_stopped_for(min(seconds, 1.0))
        case int():
            await _weather(lane, {**CLEAR, **STORMS[event]})
            await asyncio.sleep(seconds)
        case _:
            raise AssertionError(event)


async def _weather(lane: LaneProcess, weather: Weather) -> None:
    async with lane.lock:
        await lane.be(weather)
