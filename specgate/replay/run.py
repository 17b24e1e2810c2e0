"""One policy on one stream of arrivals, in virtual time."""

import math
import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple, Protocol

from specgate.core.curves import Curves
from specgate.core.lanes import Lane
from specgate.replay.pool import Pool
from specgate.replay.traffic import Arrival


class Decider(Protocol):
    """Chooses a lane for each sequence; told of all that a gate would see."""

    def arrived(self, number: int, now: float) -> Lane: ...

    def ended(self, number: int, now: float) -> None: ...

    def accepted(self, now: float, tokens: int, accept_length: float) -> None:
        """A sequence of so many tokens has just ended in the spec lane, and its verification steps
        yielded so many on the mean. Not told where the curves hold no accept length."""

    def tick(self, now: float) -> None: ...

    @property
    def side(self) -> Lane: ...

    @property
    def switches(self) -> int: ...


class Change(NamedTuple):
    """From `at` seconds on the prompts' accept length is `factor` times the measured one."""

    at: float
    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a switch and company cost, and how the prompts change.

    contention: while both lanes work, each is (1 + contention) / 2 as fast, 0 to 1.
    cached: share of the requests that go on with a conversation, whose prompt the lane that served
        it before has cached; the other must read it anew, while its other sequences wait. gap_s:
        mean time since then.
    prefill_tok_s: how fast a lane reads a prompt with nothing else to do.
    apart: the lanes have GPUs of their own, and never slow each other.
    changes: of the accept length, ascending. accept_spread: how far a sequence's steps for a token
        are from the mean, as a share of it (standard deviation; 9 to 15 % in published traces); the
        pool serves by the mean.
    """

    contention: float = 0.0
    apart: bool = False
    cached: float = 0.0
    gap_s: float = 60.0
    prefill_tok_s: float = 7000.0
    changes: tuple[Change, ...] = ()
    accept_spread: float = 0.12

    def curves_at(self, curves: Curves, at: float) -> Curves:
        """The curves that are true at a time."""
        factor = next((each.factor for each in reversed(self.changes) if each.at <= at), 1.0)
        return curves if factor == 1.0 else curves.scaled(factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """By request, in the order of arrival, in seconds; and over the whole."""

    e2e_s: tuple[float, ...]
    ttft_s: tuple[float, ...]
    output_tokens: int
    took_s: float
    mixed_s: float
    switches: int
    sides: tuple[tuple[float, Lane], ...]
    """The side from each time on."""
    lanes: tuple[Lane, ...]
    """Where each request went."""
    span_s: float
    """To the last arrival."""


TICK_S = 0.25


def run(
    curves: Curves,
    arrivals: Sequence[Arrival],
    decider: Decider,
    world: World,
    *,
    seed: int = 0,
    tick_s: float = TICK_S,
) -> Outcome:
    """To the last request's end. `arrivals`: at least one, ascending."""
    pool = Pool(curves, contention=world.contention, apart=world.apart)
    # One each, so that a policy's choices do not change what is drawn for others.
    draw, spread = random.Random(seed), random.Random(seed)  # noqa: S311 - a simulation
    true, changes = curves, list(world.changes)
    e2e_s, ttft_s = [0.0] * len(arrivals), [0.0] * len(arrivals)
    sides, lanes = [(0.0, decider.side)], list[Lane]()
    coming, open_, tick_at = 0, 0, 0.0
    while coming < len(arrivals) or open_:
        arrival_at = arrivals[coming].at if coming < len(arrivals) else math.inf
        end_at = pool.next_at()
        if changes and changes[0].at <= min(arrival_at, end_at, tick_at):
            pool.advance(changes[0].at)
            true = world.curves_at(curves, changes.pop(0).at)
            pool.use(true)
            continue
        if tick_at <= min(arrival_at, end_at):
            pool.advance(tick_at)
            decider.tick(tick_at)
            tick_at += tick_s
        elif end_at <= arrival_at:
            pool.advance(end_at)
            ended = pool.pop()
            waited = end_at - arrivals[ended.number].at
            if ended.first:
                ttft_s[ended.number] = waited
                continue
            e2e_s[ended.number] = waited
            open_ -= 1
            if ended.lane is Lane.SPEC and true.accept_length is not None:
                # Steps are what is spread, so that the mean over steps is the true one.
                length = true.accept_length / max(0.1, spread.gauss(1.0, world.accept_spread))
                tokens = arrivals[ended.number].output_tokens
                decider.accepted(end_at, tokens, max(1.0, length))
            decider.ended(ended.number, end_at)
        else:
            pool.advance(arrival_at)
            lane = decider.arrived(coming, arrival_at)
            reading_s = 0.0
            if world.cached and draw.random() < world.cached:
                before = arrival_at - draw.expovariate(1 / world.gap_s)
                earlier = bisect_right(arrivals, before, hi=coming, key=_at)
                # The conversation's last request went where others went then.
                if earlier and lanes[earlier - 1] is not lane:
                    reading_s = arrivals[coming].prompt_tokens / world.prefill_tok_s
            lanes.append(lane)
            pool.submit(lane, coming, arrivals[coming].output_tokens, reading_s)
            coming += 1
            open_ += 1
        if decider.side is not sides[-1][1]:
            sides.append((pool.now, decider.side))
    return Outcome(
        e2e_s=tuple(e2e_s),
        ttft_s=tuple(ttft_s),
        output_tokens=sum(each.output_tokens for each in arrivals),
        took_s=pool.now,
        mixed_s=pool.mixed_s,
        switches=decider.switches,
        sides=tuple(sides),
        lanes=tuple(lanes),
        span_s=arrivals[-1].at,
    )


_at = attrgetter("at")
