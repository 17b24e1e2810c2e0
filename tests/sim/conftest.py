"""Both simulated lanes on real sockets, thirty times as fast as real time."""

from collections.abc import AsyncIterator, Mapping

import pytest

from specgate.core.lanes import Lane
from specgate.sim.profiles import load_profile
from specgate.sim.server import RunningLane, SimLane, running


@pytest.fixture
async def sims() -> AsyncIterator[Mapping[Lane, RunningLane]]:
    lanes = [SimLane(lane=lane) for lane in Lane]
    async with running(lanes, profile=load_profile("reference"), time_scale=30, seed=7) as sims:
        yield sims


@pytest.fixture
def spec(sims: Mapping[Lane, RunningLane]) -> RunningLane:
    return sims[Lane.SPEC]


@pytest.fixture
def plain(sims: Mapping[Lane, RunningLane]) -> RunningLane:
    return sims[Lane.PLAIN]
