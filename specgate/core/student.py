"""Quantiles of Student's t: what turns a standard error into an interval.

The standard library has the normal distribution alone. The distribution function is the regularised
incomplete beta function (Abramowitz & Stegun 26.5.27), by its continued fraction (26.5.8, Lentz's
way of summing it); the quantile is found by halving. Good to about 1e-9, in some tens of
microseconds.
"""

import math
from functools import lru_cache

_TERMS = 300
_TINY = 1e-300
_HALVINGS = 80


@lru_cache(maxsize=256)
def t_quantile(p: float, df: float) -> float:
    """The value that t with `df` degrees of freedom stays below with probability p.

    Raises ValueError unless 0 < p < 1 and df > 0.
    """
    if not 0.0 < p < 1.0 or not df > 0.0:
        raise ValueError(f"no quantile {p} of t with {df} degrees of freedom")
    if p < 0.5:
        return -t_quantile(1.0 - p, df)
    low, high = 0.0, 1.0
    while _above(high, df) > 1.0 - p and high < 1e12:
        high *= 2.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _above(middle, df) > 1.0 - p else (low, middle)
    return (low + high) / 2.0


def _above(t: float, df: float) -> float:
    """P(T > t) for t >= 0."""
    return _beta(df / (df + t * t), df / 2.0, 0.5) / 2.0


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b)."""
    if x <= 0.0 or x >= 1.0:
        return min(1.0, max(0.0, x))
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    # The fraction converges fast on this side of the mean, and the function is symmetric.
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _fraction(x, a, b) / a
    return 1.0 - front * _fraction(1.0 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    c = 1.0
    d = 1.0 / _off_zero(1.0 - (a + b) * x / (a + 1.0))
    total = d
    for m in range(1, _TERMS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0)),
        ):
            d = 1.0 / _off_zero(1.0 + term * d)
            c = _off_zero(1.0 + term / c)
            total *= d * c
        if abs(d * c - 1.0) < 1e-12:
            break
    return total


def _off_zero(x: float) -> float:
    return x if abs(x) > _TINY else _TINY
