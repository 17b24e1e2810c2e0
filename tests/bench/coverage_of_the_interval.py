"""How often the crossover's 90 % interval holds the truth.

    python -m tests.bench.coverage_of_the_interval

Prints the table of docs/explanation/trust.md. For each truth, noise and number of repeats: so many
measurements are drawn, each is analysed, and the intervals that hold the true crossing are counted.
Levels 1, 2, 5, 10, 30, 70, 100, 250. Deterministic: the seed of a measurement is its
number, noise and repeats.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from statistics import median

from specgate.core.crossover import find
from specgate.core.shape import Shape
from tests.bench.synthetic import falling, runs

TRUTHS = {
    "steep: 13 % an octave, crossing 20": (falling(0.13, 20.0), 20.0),
    "shallow: 3 % an octave, crossing 40": (falling(0.03, 40.0), 40.0),
}
DRIFT = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Shares of trials. width: the median of the interval's high end over its low one."""

    trials: int
    covered: float
    width: float
    crosses: float
    wrong: float


def coverage(
    truth: Callable[[int], float],
    crossing: float,
    *,
    sd: float,
    repeats: int,
    paired: bool,
    trials: int,
    draws: int,
) -> Coverage:
    """`sd` is of ln(spec / plain) within a block."""
    covered, widths, shapes = 0, [], []
    for trial in range(trials):
        seed = f"{trial} {repeats} {sd} {paired}"
        levels = runs(truth, sd=sd, repeats=repeats, seed=seed, paired=paired, drift=DRIFT)
        found = find(levels, rng=Random(f"draws {seed}"), paired=paired, draws=draws)
        shapes.append(found.shape)
        if found.interval is None:
            continue  # Called inverted or multi: no interval, so it does not cover.
        low, high = found.interval
        covered += low <= crossing <= high
        widths.append(high / low if low > 0.0 else math.inf)
    right = (Shape.CROSSES, Shape.INCONCLUSIVE)
    return Coverage(
        trials=trials,
        covered=covered / trials,
        width=median(widths),
        crosses=shapes.count(Shape.CROSSES) / trials,
        wrong=sum(shape not in right for shape in shapes) / trials,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=600)
    parser.add_argument("--draws", type=int, default=1000)
    given = parser.parse_args(arguments)
    print("| truth | noise | measured | repeats | covered | high / low | crosses | wrong shape |")
    print("|---|---|---|---|---|---|---|---|")
    for (name, (truth, crossing)), sd, paired, repeats in product(
        TRUTHS.items(), (0.02, 0.04), (True, False), (2, 3, 5)
    ):
        found = coverage(
            truth,
            crossing,
            sd=sd,
            repeats=repeats,
            paired=paired,
            trials=given.trials,
            draws=given.draws,
        )
        how = "in blocks" if paired else "one after the other"
        shares = f"{found.crosses:.0%} | {found.wrong:.1%}"
        print(
            f"| {name} | {sd:.0%} | {how} | {repeats} "
            f"| {found.covered:.1%} | {found.width:.2f} | {shares} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
