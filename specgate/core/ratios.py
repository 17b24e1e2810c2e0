"""From repeated measurements of two arms to ln(spec / plain) at each level, and its noise.

The noise is pooled: one relative standard deviation for all levels, as a few repeats at one level
say next to nothing of their own spread. Measured in blocks, the two arms of a block share what
drifts over minutes, so the ratio within the block is what has a spread (paired). Measured one after
the other, the spreads of both arms add up (unpaired), which is wider.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Protocol

from specgate.core.student import t_quantile


class Draws(Protocol):
    """What is random, given from outside: `random.Random` is one."""

    def gauss(self, mu: float, sigma: float, /) -> float: ...

    def gammavariate(self, alpha: float, beta: float, /) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """One level: what each arm reached in each repeat, by the repeat's number.

    The numbers are positive, and more is better (tokens a second; or one over a time). error: of
    ln(spec / plain), systematic: the same in all repeats.
    """

    concurrency: int
    spec: Mapping[int, float]
    plain: Mapping[int, float]
    error: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """One source: its standard deviation, with how many degrees of freedom that was found, and how
    many repeats each level's mean has of it."""

    sd: float
    df: int
    repeats: tuple[int, ...]

    def variance(self, level: int) -> float:
        return self.sd**2 / self.repeats[level]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratios:
    """Mean ln(spec / plain) of each level, ascending. No `noise`: nothing was repeated. `errors`:
    systematic, of each level."""

    concurrency: tuple[int, ...]
    means: tuple[float, ...]
    noise: tuple[Noise, ...]
    paired: bool
    errors: tuple[float, ...]

    def weights(self) -> list[float]:
        """For a fit: one over each level's variance, up to a factor; equal without noise."""
        variances = [self._variance(level) for level in range(len(self.means))]
        return [1.0 / v if v > 0.0 else 1.0 for v in variances]

    def intervals(self, confidence: float) -> list[tuple[float, float]] | None:
        """Of each level's mean, two-sided, by Student's t. None without noise.

        Of two sources the degrees of freedom are Welch and Satterthwaite's. The systematic error
        is added to both ends.
        """
        if not self.noise:
            return None
        found = []
        for level, mean in enumerate(self.means):
            variance = self._variance(level)
            half = 0.0
            if variance > 0.0:
                df = variance**2 / sum(n.variance(level) ** 2 / n.df for n in self.noise)
                half = t_quantile((1.0 + confidence) / 2.0, df) * math.sqrt(variance)
            half += self.errors[level]
            found.append((mean - half, mean + half))
        return found

    def draw(self, rng: Draws) -> list[float]:
        """Means as another measurement might find them: a parametric bootstrap.

        Each source's standard deviation is drawn once for all levels (sd x sqrt(df / chi-square)),
        as it was found once for all of them; then each level's mean around what was found. With
        two to five repeats this covers what it promises, where drawing the repeats again with
        replacement does not (measured in docs/explanation/trust.md). A level's systematic error is
        drawn as one standard deviation.
        """
        drawn = list(self.means)
        for noise in self.noise:
            if noise.sd <= 0.0:
                continue
            # A chi-square with df degrees of freedom is a gamma of shape df / 2 and scale 2.
            sd = noise.sd * math.sqrt(noise.df / rng.gammavariate(noise.df / 2.0, 2.0))
            for level, repeats in enumerate(noise.repeats):
                drawn[level] += rng.gauss(0.0, sd / math.sqrt(repeats))
        for level, error in enumerate(self.errors):
            if error > 0.0:
                drawn[level] += rng.gauss(0.0, error)
        return drawn

    def _variance(self, level: int) -> float:
        return sum(noise.variance(level) for noise in self.noise)


def log_ratios(levels: Sequence[Runs], *, paired: bool) -> Ratios:
    """Levels at which the arms cannot be compared (no block in common, an arm missing) are left
    out. Raises ValueError for a number that is not positive and finite."""
    usable = []
    for level in sorted(levels, key=lambda level: level.concurrency):
        spec, plain = _logs(level.spec), _logs(level.plain)
        if paired:
            blocks = sorted(spec.keys() & plain.keys())
            if blocks:
                usable.append((level, [[spec[i] - plain[i] for i in blocks]]))
        elif spec and plain:
            usable.append((level, [list(spec.values()), list(plain.values())]))
    sources = (1,) if paired else (1, -1)
    means = tuple(
        sum(sign * fmean(values) for sign, values in zip(sources, arms, strict=True))
        for _, arms in usable
    )
    noise = [pooled([arms[i] for _, arms in usable]) for i in range(len(sources))]
    return Ratios(
        concurrency=tuple(level.concurrency for level, _ in usable),
        means=means,
        noise=tuple(n for n in noise if n is not None) if None not in noise else (),
        paired=paired,
        errors=tuple(level.error for level, _ in usable),
    )


def pooled(groups: Sequence[Sequence[float]]) -> Noise | None:
    """The standard deviation within groups, pooled over them; None if nothing was repeated."""
    df = sum(len(values) - 1 for values in groups)
    if df < 1:
        return None
    means = [fmean(values) for values in groups]
    squares = sum(
        (value - mean) ** 2 for values, mean in zip(groups, means, strict=True) for value in values
    )
    return Noise(sd=math.sqrt(squares / df), df=df, repeats=tuple(map(len, groups)))


def _logs(values: Mapping[int, float]) -> dict[int, float]:
    for value in values.values():
        if not 0.0 < value < math.inf:
            raise ValueError(f"{value} has no logarithm: only what is above 0 can be compared")
    return {repeat: math.log(value) for repeat, value in values.items()}
