"""Both lanes' measured curves: what each gives at a load, and at which load it gives so much.

Between two measured levels ln(tok/s) is taken as linear in log2 of the load; below the lowest
level a sequence is as fast as there; above the highest the total stays what it was there.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from itertools import pairwise

from specgate.core.lanes import Lane
from specgate.core.prefixes import Prefixes


@dataclass(frozen=True, slots=True)
class Curve:
    """`loads`: sequences, ascending, above 0. `tok_s`: output tokens a second at each, above 0."""

    loads: tuple[float, ...]
    tok_s: tuple[float, ...]
    top: float = field(init=False, compare=False, repr=False)
    """The most tokens a second that were measured."""
    _known: dict[int, float] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "top", max(self.tok_s))

    def rate(self, load: float) -> float:
        """Tokens a second of all sequences together at a load."""
        loads, tok_s = self.loads, self.tok_s
        if load <= loads[0]:
            return tok_s[0] * max(0.0, load) / loads[0]
        if load >= loads[-1]:
            return tok_s[-1]
        at = bisect_right(loads, load)
        share = math.log(load / loads[at - 1]) / math.log(loads[at] / loads[at - 1])
        return float(tok_s[at - 1] * (tok_s[at] / tok_s[at - 1]) ** share)

    def each(self, count: int) -> float:
        """Tokens a second of one of `count` sequences (above 0); remembered, as it is asked at
        every arrival."""
        found = self._known.get(count)
        if found is None:
            found = self.rate(count) / count
            if count <= self.loads[-1]:  # so the memory is bounded
                self._known[count] = found
        return found

    def load_at(self, tok_s: float) -> float:
        """The lowest load at which it gives so much; infinity where it never does."""
        if tok_s <= self.tok_s[0]:
            return max(0.0, tok_s) / self.tok_s[0] * self.loads[0]
        for at in range(1, len(self.loads)):
            low, high = self.tok_s[at - 1], self.tok_s[at]
            if high >= tok_s:
                share = math.log(tok_s / low) / math.log(high / low)
                return float(self.loads[at - 1] * (self.loads[at] / self.loads[at - 1]) ** share)
        return math.inf

    def load_for(self, tok_s: float, horizon: float) -> float:
        """The load that there is when so much is asked of it. Where it cannot give that, the load
        at its top and a backlog: `horizon` times the excess, as a share."""
        top = self.top
        if tok_s <= top:
            return self.load_at(tok_s)
        return self.load_at(top) * (1.0 + (tok_s / top - 1.0) * horizon)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """What a profile says of both lanes at one length of prompts.

    open: load intervals of which the measurement does not say which lane is better, such as the
        crossover's interval; there neither gains anything over the other.
    margin: a share; a smaller difference is worth nothing.
    spread: half the width of the interval of ln(spec / plain), on the mean; None without intervals.
    output_tokens: of a sequence of the measurement, on the mean.
    accept_length: the spec lane's in the measurement, None if it is not known; steps: its draft
        steps, if known: a verification step yields at most one token more.
    prefixes: what a switch loses of the lanes' caches; None: it was not measured, and counts for
        nothing.
    """

    spec: Curve
    plain: Curve
    open: tuple[tuple[float, float], ...] = ()
    margin: float = 0.03
    spread: float | None = None
    output_tokens: float = 256.0
    accept_length: float | None = None
    steps: int | None = None
    prefixes: Prefixes | None = None
    paying: tuple[tuple[float, float], ...] = field(init=False, compare=False)
    """The load intervals where the spec lane gives more, ascending; the first may begin at 0 and
    the last end at infinity."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "paying", self._paying())

    @property
    def top(self) -> float:
        """The most tokens a second that either lane gave."""
        return max(self.spec.top, self.plain.top)

    @property
    def carries_more(self) -> Lane:
        """The lane with the higher top; plain if they are alike."""
        return Lane.SPEC if self.spec.top > self.plain.top else Lane.PLAIN

    @property
    def best_idle(self) -> Lane:
        """The lane that serves a single sequence best."""
        return Lane.SPEC if self.first_edge > 0.0 else Lane.PLAIN

    @property
    def parting(self) -> float:
        """The tokens a second that both give where they cross last; 0 where they never do."""
        edges = [edge for ends in self.paying for edge in ends if 0.0 < edge < math.inf]
        return self.spec.rate(max(edges)) if edges else 0.0

    def of(self, lane: Lane) -> Curve:
        return self.spec if lane is Lane.SPEC else self.plain

    def standing(self, load: float) -> int:
        """1 where speculation pays at a load, -1 where it costs, 0 where that is open."""
        if load <= 0.0 or any(low <= load <= high for low, high in self.open):
            return 0
        lead = math.log(self.spec.rate(load) / self.plain.rate(load))
        worth = math.log1p(self.margin)
        return 1 if lead > worth else -1 if lead < -worth else 0

    def scaled(self, factor: float) -> "Curves":
        """With the spec lane's accept length so many times what it was in the measurement: a step
        costs what it did and yields that much more or less (`core.breakeven`)."""
        spec = Curve(self.spec.loads, tuple(factor * each for each in self.spec.tok_s))
        accept = self.accept_length
        # What was open at the measured accept length says nothing about another.
        ends = () if abs(factor - 1.0) > self.margin else self.open
        return replace(
            self, spec=spec, open=ends, accept_length=None if accept is None else accept * factor
        )

    @property
    def first_edge(self) -> float:
        """Up to which load speculation pays from the first sequence on; 0 where it does not."""
        return self.paying[0][1] if self.paying and self.paying[0][0] <= 0.0 else 0.0

    def burst(self, load: float, times: float, costly: float) -> float:
        """From which count on a load is a burst, as seen from `load`; infinity for none.

        It lies at `times` the end of the paying interval that holds the load or lies below it, or
        above, where speculation gives no more than `costly` of what plain does. A gap of less than
        a doubling ends no interval."""
        edge, begun = math.inf, False
        for low, high in self.paying:
            if low <= load or (begun and low <= 2.0 * edge):
                edge, begun = high, True
        if edge == math.inf:
            return math.inf
        edge *= times
        levels = sorted({edge, *self.spec.loads, *self.plain.loads})
        costs = (
            level
            for level in levels
            if level >= edge and self.spec.rate(level) <= costly * self.plain.rate(level)
        )
        return next(costs, math.inf)

    def _paying(self) -> tuple[tuple[float, float], ...]:
        grid = sorted({*self.spec.loads, *self.plain.loads})
        found: list[tuple[float, float]] = []
        begun: float | None = 0.0 if self._lead(grid[0]) > 0 else None
        for low, high in pairwise(grid):
            a, b = self._lead(low), self._lead(high)
            if (a > 0) == (b > 0):
                continue
            meet = low * (high / low) ** (a / (a - b))
            if begun is None:
                begun = meet
            else:
                found.append((begun, meet))
                begun = None
        if begun is not None:
            found.append((begun, math.inf))
        return tuple(found)

    def _lead(self, load: float) -> float:
        return math.log(self.spec.rate(load) / self.plain.rate(load))
