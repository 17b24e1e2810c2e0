"""Looks for the constants of `core.regret`: `python -m tests.policy.search [--tries N]`.

Random search on training seeds, with no contention, where a switch costs most. Prints each
candidate that is better than all before: its score, the constants, and how many cells it misses.
The score is the mean log of the gate's latency over the better lane's, with what is above 5 % of
it counted ten times.
"""

import argparse
import math
import random
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from statistics import fmean

from specgate.core.config import PolicyConfig
from specgate.core.lanes import Lane
from specgate.core.regret import CONSTANTS, Constants
from specgate.core.threshold import curves_of, measured_curves
from specgate.replay.deciders import Fixed, Policy
from specgate.replay.run import World, run
from specgate.replay.traffic import Arrival
from tests.policy.cells import Cell, all_cells, arrivals_of, profile_of

RANGES: dict[str, tuple[float, float]] = {
    "leave": (0.1, 2.0),
    "enter": (0.2, 3.0),
    "least": (0.02, 1.0),
    "stays": (5.0, 200.0),
    "guard": (0.5, 1.0),
    "guard_most": (0.7, 1.2),
    "memory_s": (60.0, 3600.0),
    "doubt": (0.0, 3.0),
    "arrivals": (1.0, 30.0),
    "alongside": (0.0, 1.0),
    "horizon": (1.0, 12.0),
    "backoff": (1.0, 2.5),
    "burst": (1.1, 3.0),
    "costly": (0.5, 1.0),
}

PART = 6000


def training() -> Iterator[Cell]:
    for cell in all_cells():
        weighed = curves_of(profile_of(cell.profile)) is not None
        if weighed and cell.contention == 0.0:
            yield cell


@cache
def _arrivals(cell: Cell, seed: int) -> list[Arrival]:
    """The first part of them: most of what a candidate does wrong, it does early."""
    return arrivals_of(cell.profile, cell.traffic, cell.load, seed)[:PART]


@cache
def _better(cell: Cell, seed: int) -> float:
    curves = measured_curves(profile_of(cell.profile))
    assert curves is not None
    arrivals = _arrivals(cell, seed)
    return min(fmean(run(curves, arrivals, Fixed(lane), World()).e2e_s) for lane in Lane)


def over_better(values: dict[str, float], job: tuple[Cell, int]) -> float:
    cell, seed = job
    curves = curves_of(profile_of(cell.profile))
    assert curves is not None
    constants = Constants(**values)
    config = PolicyConfig(threshold=1.0, curves=curves)
    arrivals = _arrivals(cell, seed)
    found = run(curves, arrivals, Policy(config, constants), World())
    return fmean(found.e2e_s) / _better(cell, seed)


def score(ratios: list[float]) -> float:
    return fmean(math.log(each) + 10 * max(0.0, each - 1.05) for each in ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=100)
    parser.add_argument("--seeds", default="1,2")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    jobs = [(cell, seed) for cell in training() for seed in seeds]
    draw = random.Random(0)
    best = CONSTANTS._asdict()
    best_score = math.inf
    with ProcessPoolExecutor(options.processes) as pool:
        for number in range(options.tries):
            values = dict(best)
            if number:
                for name in draw.sample(sorted(RANGES), 3):
                    low, high = RANGES[name]
                    values[name] = min(high, max(low, values[name] * math.exp(draw.gauss(0, 0.5))))
            ratios = list(pool.map(partial(over_better, values), jobs, chunksize=4))
            found = score(ratios)
            if found < best_score:
                best, best_score = values, found
                missed = sum(each > 1.05 for each in ratios)
                worst = max(ratios)
                shown = ", ".join(f"{name}={value:.3g}" for name, value in values.items())
                print(
                    f"{number}: {found:.4f} missed {missed} of {len(ratios)}, worst {worst:.2f}: "
                    f"{shown}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
