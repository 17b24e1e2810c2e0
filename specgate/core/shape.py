"""What the levels say together: never, always, crosses, inverted, multi, or nothing yet.

Each level stands as

- `win`   the interval of ln(spec / plain) is above zero, and reaches beyond the margin;
- `lose`  it is below zero, and reaches beyond the margin on that side;
- `tie`   it lies within the margin: whichever it is, it is worth no more than that;
- `open`  none of these: more repeats would tell.

The shape is the order of wins and losses. Ties and open levels between two of a kind, or between a
win and a loss, do not change it; an open level at an end can hide another change of sign, so it
makes the shape inconclusive if its interval reaches beyond the margin to that side.

Without repeats there are no intervals: levels stand by the margin alone, and the shape is that of
the points as they are, each above or below 1.
"""

import math
from collections.abc import Sequence
from enum import StrEnum
from itertools import groupby

Interval = tuple[float, float]


class Standing(StrEnum):
    """How one level stands."""

    WIN = "win"
    LOSE = "lose"
    TIE = "tie"
    OPEN = "open"


class Shape(StrEnum):
    """How speculation does over load."""

    NEVER = "never"
    ALWAYS = "always"
    CROSSES = "crosses"
    INVERTED = "inverted"
    MULTI = "multi"
    INCONCLUSIVE = "inconclusive"


MEANINGS: dict[Shape, str] = {
    Shape.NEVER: "it pays at no level that was measured",
    Shape.ALWAYS: "it pays at every level that was measured; beyond the highest nothing is known",
    Shape.CROSSES: "it pays below a load, and not above it",
    Shape.INVERTED: "it pays above a load, and not below it, which no threshold can say",
    Shape.MULTI: "it pays in some ranges of load, and not between them",
    Shape.INCONCLUSIVE: "what was measured does not tell: more repeats are needed",
}
"""What each says, for people."""


def standing(interval: Interval, margin: float) -> Standing:
    """Of one level. `interval` is of ln(spec / plain); `margin` a share, 0.03 for 3 %."""
    low, high = interval
    delta = math.log1p(margin)
    if low > 0.0 and high > delta:
        return Standing.WIN
    if high < 0.0 and low < -delta:
        return Standing.LOSE
    return Standing.TIE if -delta <= low and high <= delta else Standing.OPEN


def shape(intervals: Sequence[Interval], margin: float) -> Shape:
    """Of levels in ascending order."""
    standings = [standing(interval, margin) for interval in intervals]
    if not standings:
        return Shape.INCONCLUSIVE
    decided = [s for s in standings if s in (Standing.WIN, Standing.LOSE)]
    if not decided:
        tied = all(s is Standing.TIE for s in standings)
        return Shape.NEVER if tied else Shape.INCONCLUSIVE
    order = tuple(kind for kind, _ in groupby(decided))
    if len(order) == 1:
        return _one_sided(order[0], intervals, standings, math.log1p(margin))
    if order == (Standing.WIN, Standing.LOSE):
        return Shape.CROSSES
    return Shape.INVERTED if order == (Standing.LOSE, Standing.WIN) else Shape.MULTI


def shape_of_points(means: Sequence[float]) -> Shape:
    """Of single measurements of ln(spec / plain)."""
    return shape([(mean, mean) for mean in means], margin=0.0)


def ranges_that_pay(
    concurrency: Sequence[int], lower_ends: Sequence[float]
) -> tuple[tuple[int, int], ...]:
    """The runs of levels at which speculation pays, each from its first level to its last."""
    pays = zip(concurrency, lower_ends, strict=True)
    runs = [
        [c for c, _ in run] for above, run in groupby(pays, key=lambda it: it[1] > 0.0) if above
    ]
    return tuple((run[0], run[-1]) for run in runs)


def _one_sided(
    kind: Standing, intervals: Sequence[Interval], standings: Sequence[Standing], delta: float
) -> Shape:
    first = standings.index(kind)
    last = len(standings) - 1 - standings[::-1].index(kind)
    ends = [*intervals[:first], *intervals[last + 1 :]]
    if kind is Standing.LOSE:
        hidden = any(high > delta for _, high in ends)
        return Shape.INCONCLUSIVE if hidden else Shape.NEVER
    hidden = any(low < -delta for low, _ in ends)
    return Shape.INCONCLUSIVE if hidden else Shape.ALWAYS
