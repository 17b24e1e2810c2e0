"""The best that is known to be possible: sides chosen by one who knows all that will come.

Not a proven optimum: schedules from what is offered in windows of several lengths, and both lanes
for the whole time, are tried, and the best is taken.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean

from specgate.core.curves import Curves
from specgate.core.lanes import Lane
from specgate.replay.deciders import Scheduled
from specgate.replay.run import Outcome, World, run
from specgate.replay.traffic import Arrival
from specgate.replay.truth import Truth, better

WINDOWS_S = (20.0, 60.0, 180.0, 600.0)


def clairvoyant(
    curves: Curves,
    arrivals: Sequence[Arrival],
    world: World,
    fixed: Mapping[Lane, Outcome],
    *,
    seed: int = 0,
) -> Outcome:
    """The one with the lowest mean E2E. `fixed`: how each lane did alone, by `replay.run`."""
    tried = [*fixed.values()]
    for window_s in WINDOWS_S:
        sides = foresight(curves, arrivals, window_s, world)
        if len(sides) > 1:  # else it is one of the fixed ones
            tried.append(run(curves, arrivals, Scheduled(sides), world, seed=seed))
    return min(tried, key=lambda outcome: fmean(outcome.e2e_s))


def foresight(
    curves: Curves, arrivals: Sequence[Arrival], window_s: float, world: World | None = None
) -> list[tuple[float, Lane]]:
    """At each time the lane that would hold the smaller load at what is offered in the window
    around it, by the curves that are true then, with its prompts."""
    world = world or World()
    truth = Truth(curves, world.contexts)
    sides: list[tuple[float, Lane]] = []
    step_s = window_s / 4
    first = last = 0
    tokens = prompts = 0
    at = 0.0
    while at <= arrivals[-1].at:
        while last < len(arrivals) and arrivals[last].at < at + window_s / 2:
            tokens += arrivals[last].output_tokens
            prompts += arrivals[last].prompt_tokens
            last += 1
        while arrivals[first].at < at - window_s / 2:
            tokens -= arrivals[first].output_tokens
            prompts -= arrivals[first].prompt_tokens
            first += 1
        seen_s = min(at + window_s / 2, arrivals[-1].at) - max(at - window_s / 2, 0.0)
        offered = tokens / max(seen_s, step_s)
        mean = prompts / (last - first) if last > first else 0.0
        side = better(truth.at(world.factor_at(at), mean), offered)
        if not sides or sides[-1][1] is not side:
            sides.append((at, side))
        at += step_s
    return sides
