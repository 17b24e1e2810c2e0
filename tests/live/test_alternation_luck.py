"""The lanes in turn, with engines that fail at random: nobody meets one that sleeps."""

import asyncio
from random import Random

import pytest

from specgate.core.errors import QueueTimeout
from specgate.core.lanes import Lane
from specgate.core.policy import Mode
from tests.support.turns import Stage, on_stage


@pytest.mark.parametrize("seed", range(8))
def test_whatever_fails_nobody_meets_an_engine_that_sleeps_and_nothing_is_stuck(seed: int):
    random = Random(seed)

    async def client(on: Stage, over: asyncio.Event) -> int:
        served = 0
        while not over.is_set():
            await asyncio.sleep(random.random() * 3)
            try:
                await on.request(lasts_s=random.random() * 15)
            except QueueTimeout:
                continue
            served += 1
        return served

    async def scenario(on: Stage) -> None:
        over = asyncio.Event()
        clients = [asyncio.ensure_future(client(on, over)) for _ in range(5)]
        for _ in range(60):
            await asyncio.sleep(random.random() * 60)
            what = random.randrange(4)
            lane = random.choice(tuple(Lane))
            if what == 0:
                on.gate.set_mode(Mode(lane.value))
            elif what == 1:
                name = random.choice(("park", "wake", "check", "accept", "in_hand"))
                on.hands.engines[lane].fails[name] = random.randrange(1, 4)
            elif what == 2:
                on.hands.engines[lane].takes_s = random.choice((0.1, 5.0, 70.0))
            elif on.gate.lanes[lane.other].draining:
                on.gate.undrain(lane.other)
            else:
                on.gate.drain(lane)
        for lane, engine in on.hands.engines.items():
            on.gate.undrain(lane)
            engine.fails.clear()
            engine.takes_s = 0.1
        over.set()
        assert sum(await asyncio.gather(*clients)) > 20
        # Once all is well the gate is where it is wanted.
        await on.awake(on.gate.wanted, within_s=4000)
        assert await on.request() is on.gate.wanted

    on_stage(scenario, dwell_s=30.0)
