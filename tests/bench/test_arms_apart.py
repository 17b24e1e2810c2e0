"""Arms measured together and one after the other: the same verdict, and what the second costs.

The machine drifts: each repeat of a level is slower than the one before, for both lanes. Blocks
cancel that, and arms measured apart cannot, so theirs is the wider interval.
"""

import math
from contextlib import asynccontextmanager
from pathlib import Path

from specgate.bench import sweep
from specgate.bench.asking import Arm
from specgate.bench.concluding import conclude, undecided
from specgate.bench.plan import Plan
from specgate.bench.stage import Bench
from specgate.core.lanes import Lane
from specgate.core.profile import Profile
from specgate.core.shape import Shape
from specgate.sim.faults import Faults
from specgate.sim.profiles import load_profile
from specgate.sim.server import RunningLane, SimLane, running
from tests.bench.test_sweep import Listener

LEVELS = (1, 8)
DRIFT = (1.0, 1.25, 1.5)


class Drifts(Listener):
    """Slows the lane that is measured: as the repeat has it, and where it is to lose."""

    def __init__(self, sims: dict[Lane, RunningLane]) -> None:
        super().__init__()
        self.sims = sims

    def begins(self, arm, block, requests) -> None:
        loses = (arm == Lane.PLAIN) == (block.concurrency == LEVELS[0])
        factor = DRIFT[block.repeat] * (4.0 if loses else 1.0)
        self.sims[Lane(arm)].engine.set_faults(Faults(slow_factor=factor))


@asynccontextmanager
async def simulated(*lanes: Lane):
    async with running(
        [SimLane(lane=lane) for lane in lanes],
        profile=load_profile("reference"),
        time_scale=5,
        seed=7,
    ) as sims:
        yield sims


async def measure(out: Path, sims: dict[Lane, RunningLane]) -> None:
    plan = Plan(
        arms=tuple(lane.value for lane in sims),
        levels=LEVELS,
        max_tokens=(16,),
        repeats=len(DRIFT),
        requests=6,
    )
    arms = tuple(Arm(name=lane.value, url=sim.url) for lane, sim in sims.items())
    outcome = await sweep.run(Bench(arms=arms, plan=plan, out=out), Drifts(sims))
    assert outcome.voids == ()


def width(profile: Profile, concurrency: int) -> float:
    (level,) = [level for level in profile.levels if level.concurrency == concurrency]
    assert level.ratio_interval is not None
    low, high = level.ratio_interval
    return math.log(high / low)


async def test_apart_they_give_the_same_verdict_with_a_wider_interval(tmp_path):
    async with simulated(*Lane) as sims:
        await measure(tmp_path / "together", sims)
    for lane in Lane:
        # One engine at a time: the other is not there.
        async with simulated(lane) as sims:
            await measure(tmp_path / "apart", sims)
    together, apart = (conclude(tmp_path / name, 0.03) for name in ("together", "apart"))
    assert together is not None
    assert apart is not None
    assert (together.verdict.paired, apart.verdict.paired) == (True, False)
    assert together.verdict.shape is apart.verdict.shape is Shape.CROSSES
    assert undecided(together) is undecided(apart) is None
    for level, other in zip(together.levels, apart.levels, strict=True):
        assert level.standing is other.standing
        assert width(apart, level.concurrency) > width(together, level.concurrency)
    low, high = apart.verdict.interval or (None, None)
    assert low is not None
    assert high is not None
    assert together.verdict.crossover is not None
    assert low < together.verdict.crossover < high
