"""The gate's memory after many requests beside that after some: what leaks shows in the difference.

The same crowd, with nothing slow in it, and lanes that are mostly well. Before each look everybody
closes their connections, and the gate gets time to let go of its own.
"""

import asyncio
from pathlib import Path
from typing import NamedTuple

from tests.chaos.fates import Fate, Weather
from tests.chaos.gate import read_log
from tests.chaos.run import at_rest, scene

WEATHER: Weather = {
    Fate.ERROR: 0.01,
    Fate.NOT_READY: 0.01,
    Fate.FULL_EVENT: 0.01,
    Fate.RST_READ: 0.01,
    Fate.GARBLED: 0.01,
    Fate.CUT_RST: 0.01,
    Fate.CUT_FIN: 0.01,
}
REST_S = 7.0
"""Longer than the gate's connections to lanes rest in its pool."""


class Growth(NamedTuple):
    """Resident memory in MiB, after so many requests each; and what was wrong meanwhile."""

    requests: tuple[int, int]
    memory_mb: tuple[float, float]
    problems: list[str]

    @property
    def grown_mb(self) -> float:
        return self.memory_mb[1] - self.memory_mb[0]


async def growth(folder: Path, *, first: int, last: int, clients: int, seed: int) -> Growth:
    """first, last: after how many requests it looks."""
    async with scene(folder, clients=clients, seed=seed, brief=True) as on:
        await on.weather(WEATHER)
        memory = []
        for limit in (first, last):
            on.crowd.limit = limit
            await asyncio.gather(*(on.crowd.client(number) for number in range(clients)))
            await asyncio.sleep(REST_S)
            memory.append(on.gate.rss_mb())
        problems = await at_rest(on)
        verdict = on.verdict(read_log(on.gate.lines()))
        return Growth((first, last), (memory[0], memory[1]), verdict.problems + problems)
