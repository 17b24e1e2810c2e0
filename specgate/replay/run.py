"""One policy on one stream of arrivals, in virtual time."""

import math
import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple, Protocol

from specgate.core.contexts import Contexts
from specgate.core.curves import Curves
from specgate.core.lanes import Lane
from specgate.replay.pool import Pool
from specgate.replay.traffic import Arrival
from specgate.replay.truth import Truth


class Decider(Protocol):
    """Chooses a lane for each sequence; told of all that a gate would see."""

    def arrived(self, number: int, now: float) -> Lane: ...

    def ended(self, number: int, now: float, prompt_tokens: int) -> None: ...

    def accepted(self, now: float, tokens: int, accept_length: float) -> None:
        """A sequence of so many tokens has just ended in the spec lane, and its verification steps
        yielded so many on the mean. Not told where the curves hold no accept length."""

    def tick(self, now: float) -> None: ...

    def holding(self, now: float, waiting: int) -> bool:
        """Whether what arrives must wait, as so many do already; asked again after all that
        happens."""
        ...

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
    contexts: the lanes are as fast as at the mean prompt of what they serve (`replay.truth`); None:
        whatever the prompts.
    """

    contention: float = 0.0
    apart: bool = False
    cached: float = 0.0
    gap_s: float = 60.0
    prefill_tok_s: float = 7000.0
    changes: tuple[Change, ...] = ()
    accept_spread: float = 0.12
    contexts: Contexts | None = None

    def factor_at(self, at: float) -> float:
        """Of the accept length."""
        return next((each.factor for each in reversed(self.changes) if each.at <= at), 1.0)


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
    held_s: tuple[float, ...] = ()
    """How long each of those waited that the decider held, before it went to a lane."""


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
    running = _Run(curves, arrivals, decider, world, seed)
    changes = [*world.changes]
    tick_at = 0.0
    while not running.over:
        arrival_at, end_at = running.arrival_at, running.pool.next_at()
        if changes and changes[0].at <= min(arrival_at, end_at, tick_at):
            running.change(changes.pop(0))
            continue
        if tick_at <= min(arrival_at, end_at):
            running.pool.advance(tick_at)
            decider.tick(tick_at)
            tick_at += tick_s
        elif end_at <= arrival_at:
            running.pool.advance(end_at)
            if not running.end(end_at):
                continue
        else:
            running.pool.advance(arrival_at)
            running.arrive(arrival_at)
        running.settle()
    return running.outcome()


class _Run:
    """What there is between the events of one run."""

    def __init__(
        self,
        curves: Curves,
        arrivals: Sequence[Arrival],
        decider: Decider,
        world: World,
        seed: int,
    ) -> None:
        self._arrivals, self._decider, self._world = arrivals, decider, world
        self._truth = Truth(curves, world.contexts)
        self._factor = 1.0
        self._prompts = 0
        """Tokens of all prompts in flight."""
        self._true = self._truth.at(1.0, arrivals[0].prompt_tokens)
        self.pool = Pool(self._true, contention=world.contention, apart=world.apart)
        # One each, so that a policy's choices do not change what is drawn for others.
        self._draw = random.Random(seed)  # noqa: S311 - a simulation
        self._spread = random.Random(seed)  # noqa: S311
        self._e2e_s, self._ttft_s = [0.0] * len(arrivals), [0.0] * len(arrivals)
        self._sides, self._lanes = [(0.0, decider.side)], list[Lane]()
        self._held_s: list[float] = []
        self._coming = self._open = 0

    @property
    def over(self) -> bool:
        return len(self._lanes) == len(self._arrivals) and not self._open

    @property
    def arrival_at(self) -> float:
        """Of the next one; infinity after the last."""
        left = self._coming < len(self._arrivals)
        return self._arrivals[self._coming].at if left else math.inf

    def change(self, change: Change) -> None:
        self.pool.advance(change.at)
        self._factor = change.factor
        self._use()

    def arrive(self, now: float) -> None:
        """The next one comes: to its lane, or to those that wait."""
        self._coming += 1
        waiting = self._coming - 1 - len(self._lanes)
        if not waiting and not self._decider.holding(now, 0):
            self._submit(now)

    def end(self, now: float) -> bool:
        """What is due now; whether a sequence has ended, or has but got its first token."""
        ended = self.pool.pop()
        arrival = self._arrivals[ended.number]
        waited = now - arrival.at
        if ended.first:
            self._ttft_s[ended.number] = waited
            return False
        self._e2e_s[ended.number] = waited
        self._open -= 1
        self._prompts -= arrival.prompt_tokens
        if ended.lane is Lane.SPEC and self._true.accept_length is not None:
            # Steps are what is spread, so that the mean over steps is the true one.
            steps = max(0.1, self._spread.gauss(1.0, self._world.accept_spread))
            length = max(1.0, self._true.accept_length / steps)
            self._decider.accepted(now, arrival.output_tokens, length)
        self._decider.ended(ended.number, now, arrival.prompt_tokens)
        if self._world.contexts is not None and self._open:
            self._use()
        return True

    def settle(self) -> None:
        """After each event: those that waited go on, in their order, as soon as they may."""
        now = self.pool.now
        waiting = self._coming - len(self._lanes)
        if waiting and not self._decider.holding(now, waiting):
            while self._coming > len(self._lanes):
                waited = now - self._arrivals[len(self._lanes)].at
                if waited > 0.0:
                    self._held_s.append(waited)
                self._submit(now)
        if self._decider.side is not self._sides[-1][1]:
            self._sides.append((now, self._decider.side))

    def _submit(self, now: float) -> None:
        """The next one in line goes to a lane."""
        number, world = len(self._lanes), self._world
        arrival = self._arrivals[number]
        lane = self._decider.arrived(number, now)
        reading_s = 0.0
        if world.cached and self._draw.random() < world.cached:
            before = arrival.at - self._draw.expovariate(1 / world.gap_s)
            earlier = bisect_right(self._arrivals, before, hi=number, key=_at)
            # The conversation's last request went where others went then.
            if earlier and self._lanes[earlier - 1] is not lane:
                reading_s = arrival.prompt_tokens / world.prefill_tok_s
        self._lanes.append(lane)
        self._open += 1
        self._prompts += arrival.prompt_tokens
        if world.contexts is not None:
            self._use()
        self.pool.submit(lane, number, arrival.output_tokens, reading_s)

    def _use(self) -> None:
        """What is true by now of the lanes."""
        true = self._truth.at(self._factor, self._prompts / max(1, self._open))
        if true is not self._true:
            self._true = true
            self.pool.use(true)

    def outcome(self) -> Outcome:
        return Outcome(
            e2e_s=tuple(self._e2e_s),
            ttft_s=tuple(self._ttft_s),
            output_tokens=sum(each.output_tokens for each in self._arrivals),
            took_s=self.pool.now,
            mixed_s=self.pool.mixed_s,
            switches=self._decider.switches,
            sides=tuple(self._sides),
            lanes=tuple(self._lanes),
            span_s=self._arrivals[-1].at,
            held_s=tuple(self._held_s),
        )


_at = attrgetter("at")
