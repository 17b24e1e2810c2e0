"""Curves by context: a profile's, at the length of the recent prompts.

How much speculation gives depends on how much there is to attend to. A profile may hold curves of
several prompt lengths; which are true now, the recent prompts say: their mean length, as engines
state it in `usage` when a request ends.

    mean        over requests, each with a weight of WEIGHT (the first ones all alike)
    missing     fewer than ENOUGH lengths so far, or more than half of the recent requests ended
                without one: a mean of the others may be of other prompts
    stale       none for STALE_S; the mean then begins anew
    then        the profile's main curves, the most cautious ones

Between two measured lengths the time for a token is taken as linear in the length, at each load:
each step reads the weights once and the prompts' keys and values in proportion to their length.
Beyond the shortest and the longest the curves are what they were there. The mean is taken in steps
of STEP, and must be off by a whole one to count, so that noise changes nothing.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass, replace

from specgate.core.curves import Curve, Curves
from specgate.core.prefixes import Prefixes

WEIGHT = 0.01
"""Of one request in the mean: the last hundred or so, known to a tenth if lengths vary much."""

ENOUGH = 8

STALE_S = 600.0

STEP = math.log(1.1)


@dataclass(frozen=True, slots=True)
class Contexts:
    """`main`: when nothing is known of the prompts. `measured`: prompt tokens, ascending, from 1
    on, each with its curves; two at least."""

    main: Curves
    measured: tuple[tuple[int, Curves], ...]

    def at(self, prompt_tokens: float) -> Curves:
        """At a mean prompt, above 0, by the rule above."""
        measured = self.measured
        place = bisect_left(measured, prompt_tokens, key=lambda each: each[0])
        if place == 0:
            return measured[0][1]
        if place == len(measured):
            return measured[-1][1]
        (shorter, low), (longer, high) = measured[place - 1 : place + 1]
        return _between(low, high, (prompt_tokens - shorter) / (longer - shorter))

    def losing(self, prefixes: Prefixes) -> "Contexts":
        """With what a switch loses of the lanes' caches."""
        measured = tuple((at, replace(each, prefixes=prefixes)) for at, each in self.measured)
        return Contexts(replace(self.main, prefixes=prefixes), measured)


class Prompts:
    """Follows the prompts' length. `now`: monotonic seconds, of calls in the order of time."""

    __slots__ = ("_contexts", "_count", "_curves", "_ended", "_mean", "_seen_at", "_step", "_told")

    def __init__(self, contexts: Contexts) -> None:
        self._contexts = contexts
        self._mean = 0.0
        self._told = 0.0
        """The share of recent requests that told a length."""
        self._count = self._ended = 0
        self._seen_at = -math.inf
        self._step: int | None = None
        self._curves = contexts.main

    def use(self, contexts: Contexts) -> None:
        """Another profile; what was seen of the prompts stays."""
        if contexts != self._contexts:
            self._contexts = contexts
            self._step, self._curves = None, contexts.main

    def ended(self, prompt_tokens: int | None, now: float) -> None:
        """A request ended, and told so many prompt tokens; None or 0: it told nothing."""
        if now - self._seen_at > STALE_S:
            self._count = self._ended = 0
        self._ended += 1
        known = 1.0 if prompt_tokens else 0.0
        self._told += max(WEIGHT, 1.0 / self._ended) * (known - self._told)
        if prompt_tokens:
            self._count += 1
            self._mean += max(WEIGHT, 1.0 / self._count) * (prompt_tokens - self._mean)
            self._seen_at = now

    def mean(self, now: float) -> float | None:
        """Of recent prompts, in tokens; None while it is missing or stale."""
        if self._count < ENOUGH or self._told < 0.5 or now - self._seen_at > STALE_S:
            return None
        return self._mean

    def curves(self, now: float) -> Curves:
        """To weigh by; the same object while nothing changes."""
        mean = self.mean(now)
        if mean is None:
            self._step, self._curves = None, self._contexts.main
            return self._curves
        at = math.log(mean) / STEP
        if self._step is None or abs(at - self._step) > 1.0:
            self._step = round(at)
            self._curves = self._contexts.at(math.exp(self._step * STEP))
        return self._curves


def _between(low: Curves, high: Curves, share: float) -> Curves:
    accept = None
    if low.accept_length is not None and high.accept_length is not None:
        accept = low.accept_length + share * (high.accept_length - low.accept_length)
    mixed = replace(
        low,
        spec=_mixed(low.spec, high.spec, share),
        plain=_mixed(low.plain, high.plain, share),
        open=(),
        margin=max(low.margin, high.margin),
        spread=None if low.spread is None or high.spread is None else max(low.spread, high.spread),
        output_tokens=low.output_tokens + share * (high.output_tokens - low.output_tokens),
        accept_length=accept,
    )
    return replace(mixed, open=_open(low, high, share, mixed.first_edge))


def _mixed(low: Curve, high: Curve, share: float) -> Curve:
    loads = sorted({*low.loads, *high.loads})
    times = [(1.0 - share) / low.rate(load) + share / high.rate(load) for load in loads]
    return Curve(tuple(loads), tuple(1.0 / each for each in times))


def _open(low: Curves, high: Curves, share: float, edge: float) -> tuple[tuple[float, float], ...]:
    """The crossover's interval, about as far from it as at both lengths. Without one at either,
    none: within the margin neither lane is better all the same."""
    edges = (low.first_edge, high.first_edge, edge)
    if len(low.open) != 1 or len(high.open) != 1 or not all(0 < each < math.inf for each in edges):
        return ()
    shares = (1.0 - share, share)
    found = []
    for end in (0, 1):
        away = [of.open[0][end] / of.first_edge for of in (low, high)]
        if 0.0 in away or math.inf in away:
            found.append(min(away) if end == 0 else max(away))
        else:
            found.append(math.prod(each**weight for each, weight in zip(away, shares, strict=True)))
    return ((edge * found[0], edge * found[1]),)
