"""Verdicts in a sentence, and figures in few digits."""

import math
from collections.abc import Iterable

from specgate.core.profile import SINGLE_RUN, Curve, Objective, Profile, Verdict
from specgate.core.shape import MEANINGS, Shape

OBJECTIVES = {
    "throughput": "tok/s",
    "tpot": "1/TPOT",
    "e2e": "1/E2E",
    "goodput": "SLO goodput",
}


def number(value: float | None, digits: int = 3) -> str:
    """So many significant digits, without an exponent; a dash where there is none."""
    if value is None:
        return "-"
    if value == 0.0:
        return "0"
    before_point = math.floor(math.log10(abs(value))) + 1
    return f"{value:.{max(0, digits - before_point)}f}"


def bounds(interval: Iterable[float | None] | None) -> str:
    """Two ends of a ratio or throughput."""
    return "" if interval is None else " to ".join(number(end) for end in interval)


def headline(curve: Curve) -> str:
    """What the curve says, in one sentence or two."""
    verdict = curve.verdict
    if not curve.levels:
        if isinstance(curve, Profile) and curve.open_loop:
            return "Measured at rates of arrivals alone, which tell no crossover."
        return "Nothing was measured."
    low, high = curve.compared[0].concurrency, curve.compared[-1].concurrency
    arm = f"Speculation as {verdict.arm}" if verdict.arm not in (None, "spec") else "Speculation"
    if verdict.shape is Shape.CROSSES and verdict.crossover is not None:
        said = f"{arm} pays below a load of {number(verdict.crossover)}{_interval(verdict)}."
    elif verdict.shape is Shape.NEVER:
        said = f"{arm} never pays: {_over('at no level', low, high)}."
    elif verdict.shape is Shape.ALWAYS:
        over = _over("at every level", low, high)
        said = f"{arm} always pays: {over}. Nothing is known above."
    elif verdict.shape is Shape.INCONCLUSIVE:
        said = f"Inconclusive: more repeats are needed{_at(verdict.undecided)}."
        if verdict.interval is not None:
            said += f" So far the crossover is{_interval(verdict, bare=True)}."
    else:
        said = f"{arm} pays {ranges(verdict)}: {MEANINGS[verdict.shape]}."
    if verdict.confidence == SINGLE_RUN and verdict.shape is not Shape.INCONCLUSIVE:
        said += " From a single run: no interval."
    if verdict.objective is not Objective.THROUGHPUT:
        said += f" Compared by {OBJECTIVES[verdict.objective].removeprefix('1/')}."
    return said


def _over(which: str, low: int, high: int) -> str:
    return f"{which} from {low} to {high}" if low < high else f"at {low}, the one level"


def ranges(verdict: Verdict) -> str:
    """The ranges of levels that pay."""
    if not verdict.pays:
        return "at no level for sure"
    return "in " + ", ".join(
        f"{low}" if low == high else f"{low} to {high}" for low, high in verdict.pays
    )


def _interval(verdict: Verdict, *, bare: bool = False) -> str:
    if verdict.interval is None or verdict.confidence == SINGLE_RUN:
        return ""
    low, high = verdict.interval
    ends = f"{_end(low)} to {_end(high)}"
    share = f"{float(verdict.confidence):.0%} interval"
    return f" {ends} ({share})" if bare else f" ({share} {ends})"


def _end(value: float | None) -> str:
    if value is None:
        return "beyond the highest level"
    return "below the lowest level" if value == 0.0 else number(value)


def _at(levels: tuple[int, ...]) -> str:
    return f", at {', '.join(map(str, levels))}" if levels else ""
