"""The crossover: from which load on speculation stops paying, and how sure that is.

Given what both arms reached at some levels, in some repeats:

1. y = ln(spec / plain) for each block; its mean at each level; one pooled standard deviation
   (`core.ratios`).
2. The shape, before any fit (`core.shape`): a crossover is only a number where the curves cross
   once, from winning to losing.
3. The fit: non-increasing, linear in log2 of the concurrency, and its first zero
   (`core.antitonic`). It is 0 if speculation pays at no level, and infinity if it pays at the
   highest; nothing is ever said of loads beyond the levels.
4. The interval: `draws` further measurements are drawn (`Ratios.draw`) and fitted alike; the
   interval is between quantiles of their zeros, on the line that has 0 and infinity as its ends.
   P(never) and P(always) are the shares of draws that end up there.

The method is that of a parametric bootstrap of an isotonic fit; how well its intervals cover is
measured by tests/bench/coverage_of_the_interval.py, and told in docs/explanation/trust.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from specgate.core.antitonic import antitonic, first_zero
from specgate.core.ratios import Draws, Ratios, Runs, log_ratios
from specgate.core.shape import (
    Interval,
    Shape,
    Standing,
    ranges_that_pay,
    shape,
    shape_of_points,
    standing,
)

MARGIN = 0.03
"""Differences below 3 % are worth nothing: careful runs of one setting differ by 1.5 to 3.7 %."""

CONFIDENCE = 0.9

DRAWS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRatio:
    """One level: spec over plain, its interval (None without repeats), and how it stands."""

    concurrency: int
    ratio: float
    interval: Interval | None
    standing: Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found.

    crossover: 0.0 for `never`, a load for `crosses`; None for other shapes. interval: of the zero
    of the fit, in [0, infinity]; None without repeats, and where no single crossing exists
    (inverted, multi). p_never, p_always: shares of the draws, None as the interval.
    pays: ranges of levels at which the lower bound is above 1. undecided: the levels at which more
    repeats would help most. confidence: None without repeats.
    """

    shape: Shape
    crossover: float | None
    interval: Interval | None
    p_never: float | None
    p_always: float | None
    levels: tuple[LevelRatio, ...]
    pays: tuple[tuple[int, int], ...]
    undecided: tuple[int, ...]
    paired: bool
    confidence: float | None


def find(
    levels: Sequence[Runs],
    *,
    rng: Draws,
    paired: bool,
    margin: float = MARGIN,
    confidence: float = CONFIDENCE,
    draws: int = DRAWS,
) -> Finding:
    """Apply the steps above. Raises ValueError for numbers that are not above 0."""
    ratios = log_ratios(levels, paired=paired)
    intervals = ratios.intervals(confidence)
    spans = intervals or [(mean, mean) for mean in ratios.means]
    found = shape(spans, margin) if intervals is not None else shape_of_points(ratios.means)
    standings = [standing(span, margin) for span in spans]

    zero = fitted_zero(ratios, ratios.means) if ratios.means else 0.0
    if found is Shape.CROSSES and not 0.0 < zero < math.inf:
        # Wins and losses in this order, and a fit that pools them to one side: too noisy to say.
        found = Shape.INCONCLUSIVE
    zeros: list[float] = []
    if intervals is not None and found not in (Shape.INVERTED, Shape.MULTI):
        zeros = sorted(fitted_zero(ratios, ratios.draw(rng)) for _ in range(draws))

    return Finding(
        shape=found,
        crossover={Shape.NEVER: 0.0, Shape.CROSSES: zero}.get(found),
        interval=_between_quantiles(zeros, confidence) if zeros else None,
        p_never=zeros.count(0.0) / len(zeros) if zeros else None,
        p_always=zeros.count(math.inf) / len(zeros) if zeros else None,
        levels=tuple(
            LevelRatio(
                concurrency=concurrency,
                ratio=math.exp(mean),
                interval=None if intervals is None else (math.exp(span[0]), math.exp(span[1])),
                standing=stands,
            )
            for concurrency, mean, span, stands in zip(
                ratios.concurrency, ratios.means, spans, standings, strict=True
            )
        ),
        pays=ranges_that_pay(ratios.concurrency, [low for low, _ in spans]),
        undecided=_undecided(found, ratios.concurrency, standings, zero),
        paired=paired,
        confidence=confidence if intervals is not None else None,
    )


def fitted_zero(ratios: Ratios, means: Sequence[float]) -> float:
    """The zero of the fit through `means`, weighted as `ratios` are."""
    return first_zero(ratios.concurrency, antitonic(means, ratios.weights()))


def _between_quantiles(ordered: Sequence[float], confidence: float) -> Interval:
    """Order statistics, without averaging: two of them may be 0 and infinity."""
    last = len(ordered) - 1
    tail = (1.0 - confidence) / 2.0
    return ordered[math.floor(tail * last)], ordered[math.ceil((1.0 - tail) * last)]


def _undecided(
    found: Shape, concurrency: Sequence[int], standings: Sequence[Standing], zero: float
) -> tuple[int, ...]:
    if found is Shape.CROSSES:
        below = max(c for c in concurrency if c <= zero)
        return tuple(sorted({below, min(c for c in concurrency if c >= zero)}))
    if found is not Shape.INCONCLUSIVE:
        return ()
    pairs = list(zip(concurrency, standings, strict=True))
    return tuple(c for c, stands in pairs if stands is Standing.OPEN) or tuple(concurrency)
