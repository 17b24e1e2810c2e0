"""From the cells of open loops to curves of latency by rate. Pure.

A rate at which an arm was saturated, in one repeat at least, has no figures: they would depend on
how long was measured. Where no arm was, each is held against the plain one by the mean E2E (or by
TPOT or goodput, where the objective is that; at a rate that both carry, throughput is the rate and
tells nothing).

No crossover follows: the arms hold different numbers in flight at one rate, and which of them a
gate would see depends on which arm it chose.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from math import exp
from statistics import fmean

from specgate.bench.judging import Rules
from specgate.core.cells import RateCell, Spread
from specgate.core.profile import PLAIN, ArmRate, Objective, OpenLoop, Rate, Times
from specgate.core.ratios import Runs, log_ratios


def rated(cells: Iterable[RateCell], rules: Rules) -> tuple[OpenLoop, ...]:
    """One for each length of prompts and outputs. Void cells are left out, and told. Raises
    ValueError where a cell lacks what the objective compares."""
    ordered = sorted(cells, key=_workload)
    found = []
    for (context, max_tokens), group in groupby(ordered, key=_workload):
        measured = list(group)
        counted = [cell for cell in measured if cell.void is None]
        rates = [
            Rate(
                rate=rate,
                arms={
                    arm: _arm([c for c in counted if (c.rate, c.arm) == (rate, arm)])
                    for arm in sorted({c.arm for c in counted if c.rate == rate})
                },
            )
            for rate in sorted({c.rate for c in counted})
        ]
        compared = Objective.E2E if rules.objective is Objective.THROUGHPUT else rules.objective
        found.append(
            OpenLoop(
                rates=_compared(rates, counted, compared, rules.confidence),
                context=None if context < 0 else context,
                max_tokens=max_tokens,
                compared=compared,
                alarms=tuple(
                    f"void: {c.arm} at {c.rate:g} requests a second, repeat {c.repeat}: {c.void}"
                    for c in measured
                    if c.void is not None
                ),
            )
        )
    return tuple(found)


def _arm(cells: Sequence[RateCell]) -> ArmRate:
    cells = sorted(cells, key=lambda cell: cell.repeat)
    runs = tuple(cell.repeat for cell in cells)
    saturated = next((cell.saturated for cell in cells if cell.saturated is not None), None)
    requests = sum(cell.requests for cell in cells)
    if saturated is not None:
        return ArmRate(runs=runs, saturated=saturated, requests=requests)
    goodputs = [cell.slo_goodput for cell in cells if cell.slo_goodput is not None]
    lengths = [cell.accept_length for cell in cells if cell.accept_length is not None]
    return ArmRate(
        runs=runs,
        requests=requests,
        in_flight=fmean(cell.in_flight for cell in cells),
        tok_s=fmean(cell.tok_s for cell in cells),
        ttft_s=_times([cell.ttft_s for cell in cells]),
        tpot_s=_times([cell.tpot_s for cell in cells]),
        e2e_s=_times([cell.e2e_s for cell in cells]),
        slo_goodput=fmean(goodputs) if goodputs else None,
        accept_length=fmean(lengths) if lengths else None,
    )


def _times(spreads: Sequence[Spread | None]) -> Times | None:
    """Over repeats, which have as many requests each. Percentiles are averaged: a summary."""
    known = [spread for spread in spreads if spread is not None]
    if not known:
        return None
    return Times(
        mean=fmean(spread.mean for spread in known),
        p50=fmean(spread.p50 for spread in known),
        p90=fmean(spread.p90 for spread in known),
        p99=fmean(spread.p99 for spread in known),
    )


def _compared(
    rates: Sequence[Rate], cells: Sequence[RateCell], compared: Objective, confidence: float
) -> tuple[Rate, ...]:
    """With each arm's ratio over plain; the intervals' spread is pooled over rates."""
    done = {rate.rate: rate for rate in rates}
    values = {(c.rate, c.arm, c.repeat): _value(c, compared) for c in cells}
    for name in sorted({arm for rate in rates for arm in rate.arms} - {PLAIN}):
        both = [
            rate.rate
            for rate in rates
            if {name, PLAIN} <= rate.arms.keys()
            and rate.arms[name].saturated is None
            and rate.arms[PLAIN].saturated is None
        ]
        levels = [
            Runs(
                concurrency=place,
                spec={r: v for (at, arm, r), v in values.items() if (at, arm) == (rate, name)},
                plain={r: v for (at, arm, r), v in values.items() if (at, arm) == (rate, PLAIN)},
            )
            for place, rate in enumerate(both)
        ]
        paired = all(c.paired for c in cells if c.arm in (name, PLAIN))
        ratios = log_ratios(levels, paired=paired)
        intervals = ratios.intervals(confidence)
        for i, place in enumerate(ratios.concurrency):
            rate = done[both[place]]
            ends = None if intervals is None else (exp(intervals[i][0]), exp(intervals[i][1]))
            arm = replace(rate.arms[name], ratio=exp(ratios.means[i]), ratio_interval=ends)
            done[rate.rate] = replace(rate, arms={**rate.arms, name: arm})
    return tuple(done.values())


def _value(cell: RateCell, objective: Objective) -> float:
    where = f"{cell.arm} at {cell.rate:g} requests a second"
    if cell.saturated is not None:
        return 1.0  # Never compared.
    if objective is Objective.GOODPUT:
        if cell.slo_goodput is None:
            raise ValueError(f"{where} has no goodput: no SLO was given")
        return max(cell.slo_goodput, 0.5 / cell.window_s)
    if objective is Objective.TPOT:
        if cell.tpot_s is None:
            raise ValueError(f"{where} has no TPOT: nothing was streamed")
        return 1.0 / cell.tpot_s.mean
    return 1.0 / cell.e2e_s.mean


def _workload(cell: RateCell) -> tuple[int, int]:
    return (-1 if cell.context is None else cell.context), cell.max_tokens
