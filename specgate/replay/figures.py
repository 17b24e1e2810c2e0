"""What one replay comes to, in a handful of numbers."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from specgate.bench.samples import percentile
from specgate.core.lanes import Lane
from specgate.replay.run import Outcome
from specgate.replay.traffic import Arrival

Sides = Sequence[tuple[float, Lane]]
"""The side from each time on, from 0 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Latencies in seconds over all requests.

    tok_s: output tokens over the time to the last request's end. wrong_side_share: of the time to
    the last arrival, the share on the side that the clairvoyant is not on. mixed_share: of the
    time to the last end, the share in which both lanes worked. spec_share: of the requests, those
    that the spec lane served. mean_load, peak_load: in flight, those that were held included.
    held: requests that waited at a switch; mean_held_s: how long those did, 0 where none did.
    """

    mean_e2e_s: float
    p50_e2e_s: float
    p95_e2e_s: float
    p99_e2e_s: float
    mean_ttft_s: float
    p50_ttft_s: float
    p95_ttft_s: float
    p99_ttft_s: float
    tok_s: float
    switches: int
    wrong_side_share: float
    mixed_share: float
    spec_share: float
    mean_load: float
    peak_load: int
    held: int
    mean_held_s: float


def figures_of(outcome: Outcome, arrivals: Sequence[Arrival], best: Sides) -> Figures:
    """`best`: the clairvoyant's sides."""
    e2e_s, ttft_s = sorted(outcome.e2e_s), sorted(outcome.ttft_s)
    loads = load_over_time(outcome, arrivals)
    return Figures(
        mean_e2e_s=fmean(e2e_s),
        p50_e2e_s=percentile(e2e_s, 0.50),
        p95_e2e_s=percentile(e2e_s, 0.95),
        p99_e2e_s=percentile(e2e_s, 0.99),
        mean_ttft_s=fmean(ttft_s),
        p50_ttft_s=percentile(ttft_s, 0.50),
        p95_ttft_s=percentile(ttft_s, 0.95),
        p99_ttft_s=percentile(ttft_s, 0.99),
        tok_s=outcome.output_tokens / outcome.took_s,
        switches=outcome.switches,
        wrong_side_share=share_apart(outcome.sides, best, outcome.span_s),
        mixed_share=outcome.mixed_s / outcome.took_s,
        spec_share=outcome.lanes.count(Lane.SPEC) / len(arrivals),
        mean_load=sum(e2e_s) / outcome.took_s,
        peak_load=max(count for _, count in loads),
        held=len(outcome.held_s),
        mean_held_s=fmean(outcome.held_s or (0.0,)),
    )


def load_over_time(outcome: Outcome, arrivals: Sequence[Arrival]) -> list[tuple[float, int]]:
    """The count in flight from each time on; at one time ends come before arrivals."""
    moves = [(each.at, 1) for each in arrivals]
    moves += [(each.at + e2e, -1) for each, e2e in zip(arrivals, outcome.e2e_s, strict=True)]
    moves.sort()
    count, found = 0, []
    for at, by in moves:
        count += by
        found.append((at, count))
    return found


def share_apart(one: Sides, other: Sides, span_s: float) -> float:
    """The share of the time to `span_s` in which two go by different sides."""
    if span_s <= 0.0:
        return 0.0
    times = sorted({at for at, _ in (*one, *other) if at < span_s})
    ends = [*times[1:], span_s]
    apart = sum(
        end - at
        for at, end in zip(times, ends, strict=True)
        if side_at(one, at) is not side_at(other, at)
    )
    return apart / span_s


def side_at(sides: Sides, at: float) -> Lane:
    return sides[bisect_right(sides, at, key=lambda each: each[0]) - 1][1]
