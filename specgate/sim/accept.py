"""Acceptance of draft tokens: how p, the draft steps and the accept length hang together.

A step yields the bonus token and then each draft token, until the first that is refused:

    a(p, K) = 1 + p + p^2 + ... + p^K        1 <= a <= K + 1

p is one number for a sequence. It is drawn around the mean of its prompt's class, so that code or
maths speculates better than free text, as published acceptance tables show.
"""

from collections.abc import Callable
from statistics import NormalDist

SPREAD = 0.06
LOWEST, HIGHEST = 0.02, 0.98
# The fractional parts of its multiples fill (0, 1) evenly from the first few on.
GOLDEN = 0.618_033_988_749_895
EVENLY = 64


def accept_length(p: float, steps: int) -> float:
    """Mean tokens of one step."""
    return sum(p**k for k in range(steps + 1))


def p_for_accept_length(length: float, steps: int) -> float:
    """The p in [0, 1] that gives this mean; out of reach is clamped to an end."""
    return _p_where(accept_length, length, steps, halvings=60)


def mean_accept_length(p: float, steps: int) -> float:
    """Tokens over steps of sequences of equal length whose p is spread around this mean.

    Sequences that speculate badly take more of the steps, so this is the harmonic mean of their
    accept lengths, a little below accept_length(p, steps).
    """
    lengths = [accept_length(spread_p(p, i, 0.0), steps) for i in range(EVENLY)]
    return EVENLY / sum(1 / length for length in lengths)


def mean_p_for(length: float, steps: int) -> float:
    """The mean p at which the spread sequences have this mean_accept_length."""
    return _p_where(mean_accept_length, length, steps, halvings=40)


def _p_where(
    mean: Callable[[float, int], float], length: float, steps: int, *, halvings: int
) -> float:
    """The p in [0, 1] at which `mean`, which grows with it, is `length`: by bisection."""
    low, high = 0.0, 1.0
    for _ in range(halvings):
        middle = (low + high) / 2
        if mean(middle, steps) < length:
            low = middle
        else:
            high = middle
    return high if steps else 0.0


def spread_p(mean: float, order: int, phase: float) -> float:
    """The p of the `order`-th sequence: Normal(mean, 0.06), kept inside (0.02, 0.98).

    The quantiles follow an even sequence from `phase` in [0, 1), not chance: the mean over a few
    dozen sequences is then the mean wanted, and a short measurement is not at the mercy of luck.
    """
    quantile = (phase + order * GOLDEN) % 1.0
    quantile = min(max(quantile, 1e-9), 1 - 1e-9)
    return min(max(NormalDist(mean, SPREAD).inv_cdf(quantile), LOWEST), HIGHEST)


def scale_p(p: float, steps: int, factor: float) -> float:
    """The p at which the accept length is `factor` times as long, as far as 1 and K + 1 allow."""
    if factor == 1.0 or not steps:
        return p
    return p_for_accept_length(max(1.0, accept_length(p, steps) * factor), steps)


def shift_odds(p: float, base: float, wanted_base: float) -> float:
    """Move p as far as `base` would have to move to become `wanted_base`, in odds.

    A class's p was published for one draft model; another profile's draft is better or worse
    throughout. Odds keep the result inside (0, 1).
    """
    odds = p / (1 - p) * (wanted_base / (1 - wanted_base)) / (base / (1 - base))
    return odds / (1 + odds)


def thresholds(p: float, steps: int) -> tuple[float, ...]:
    """(p, p^2, ..., p^K): a uniform draw below the k-th means at least k accepted draft tokens."""
    return tuple(p**k for k in range(1, steps + 1))
