"""The nearest curve that never rises, and where it reaches zero.

More load never makes speculation pay more: that is the one assumption about the shape of
ln(spec / plain) over concurrency. Fitting only that (pool adjacent violators, Ayer et al. 1955)
smooths what is noise and invents nothing else.
"""

import math
from collections.abc import Sequence


def antitonic(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The non-increasing values with the least weighted square distance. Weights are positive."""
    blocks: list[tuple[float, float, int]] = []  # mean, weight, how many
    for value, weight in zip(values, weights, strict=True):
        mean, total, count = value, weight, 1
        while blocks and blocks[-1][0] < mean:
            before, more, others = blocks.pop()
            mean = (mean * total + before * more) / (total + more)
            total += more
            count += others
        blocks.append((mean, total, count))
    return [mean for mean, _, count in blocks for _ in range(count)]


def first_zero(concurrency: Sequence[int], fitted: Sequence[float]) -> float:
    """Where a non-increasing curve, linear in log2 of the concurrency, first reaches zero.

    0.0: it is not above zero at the lowest level. Infinity: it is above zero at the highest. Never
    anything beyond the levels.
    """
    if fitted[0] <= 0.0:
        return 0.0
    for i in range(1, len(fitted)):
        if fitted[i] <= 0.0:
            return between(concurrency[i - 1], concurrency[i], fitted[i - 1], fitted[i])
    return math.inf


def between(low: float, high: float, at_low: float, at_high: float) -> float:
    """Where a line in log2 of the concurrency is zero, given values of unlike sign at two."""
    share = at_low / (at_low - at_high)
    at = math.log2(low) + (math.log2(high) - math.log2(low)) * share
    # 2 ** log2(x) may miss x by an ulp, and nothing lies beyond what was measured.
    return float(min(max(2.0**at, low), high))
