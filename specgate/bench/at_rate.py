"""From the requests of an open loop to the figures of one arm at one rate. Pure.

Latencies are of all requests that arrived in the window, however long they took. In-flight is its
mean over the window, from sending to the last byte.

*Saturated*: in-flight grows while arrivals do not. Its mean over the last third of the window is
then above that over the first by more than a steady queue wanders: 3 standard deviations, where n
in flight wander like a Poisson count that is renewed once a request. Such figures depend on how
long one measured and are not averaged.

*Void*: the client was late (it, and not the engine, kept requests waiting), or requests took so
long that the window says nothing of a steady state.
"""

import math
from collections.abc import Sequence
from statistics import fmean

from specgate.bench.open_loop import OpenRun
from specgate.bench.samples import Goodput, spread
from specgate.core.cells import RateCell, Spread

LATE = 0.1
"""Mean lateness of arrivals, as a share of the mean TTFT (E2E where nothing is streamed)."""

SIGMAS = 3.0

WINDOWS = 3.0
"""Mean E2E times that a window must hold."""

_FULL = tuple(f"with status {status}:" for status in (429, 503))


def rate_cell_of(
    run: OpenRun,
    *,
    arm: str,
    rate: float,
    context: int | None,
    max_tokens: int,
    repeat: int,
    order: int,
    paired: bool,
    accept_length: float | None,
    alone_s: float = 0.0,
    goodput: Goodput | None = None,
) -> RateCell:
    """The figures; a void or saturated cell has what there is. `alone_s`: what a request takes with
    no other beside it."""
    counting = run.counting()
    window_s = run.end - run.begin
    thirds = [run.begin + window_s * i / 3 for i in range(4)]
    ends = [(s.sent_at, s.ended_at) for s in run.samples]
    ends += [(sent_at, math.inf) for sent_at in run.left]
    in_flight = [_mean_in_flight(ends, *thirds[i : i + 2]) for i in range(3)]
    ttft_s = spread([s.ttft_s for s in counting if s.ttft_s is not None])
    e2e_s = spread([s.e2e_s for s in counting]) or Spread(mean=0.0, p50=0.0, p90=0.0, p99=0.0)
    late_s = spread(run.late_s) or Spread(mean=0.0, p50=0.0, p90=0.0, p99=0.0)
    saturated = _saturated(run, in_flight, rate)
    void = run.spoilt if saturated is None else None
    if void is None:
        void = _late(late_s, ttft_s or e2e_s)
    if void is None:
        # Of a queue, only what a request takes alone says how long the window should have been.
        steady_s = e2e_s.mean if saturated is None else alone_s
        void = _short(steady_s, window_s, run.counted)
    if void is not None:
        saturated = None
    tokens = sum(
        s.tokens_between(run.begin, run.end) for s in run.samples if s.tokens and not s.error
    )
    return RateCell(
        arm=arm,
        rate=rate,
        context=context,
        max_tokens=max_tokens,
        repeat=repeat,
        order=order,
        paired=paired,
        requests=len(counting),
        window_s=window_s,
        in_flight=fmean(in_flight),
        in_flight_thirds=(in_flight[0], in_flight[1], in_flight[2]),
        late_s=late_s,
        tok_s=tokens / window_s,
        ttft_s=ttft_s,
        tpot_s=spread([s.tpot_s for s in counting if s.tpot_s is not None]),
        e2e_s=e2e_s,
        slo_goodput=None if goodput is None else goodput(counting, window_s),
        accept_length=accept_length,
        saturated=saturated,
        void=void,
    )


def _mean_in_flight(ends: Sequence[tuple[float, float]], begin: float, end: float) -> float:
    held = sum(max(0.0, min(end, ended) - max(begin, sent)) for sent, ended in ends)
    return held / (end - begin)


def _saturated(run: OpenRun, in_flight: Sequence[float], rate: float) -> str | None:
    if run.spoilt is not None:
        # A queue that is full is what a rate beyond the arm's comes to.
        return run.spoilt if any(status in run.spoilt for status in _FULL) else None
    first, _, last = in_flight
    if len(run.counting()) < run.counted:
        left = run.counted - len(run.counting())
        return f"{left} of {run.counted} requests had not ended after as long again"
    # By Little's law a request lasts first / rate: so often is a third's count renewed.
    renewals = (run.end - run.begin) / 3.0 / max(first / rate, 1e-9)
    wanders = math.sqrt(2.0 * first * min(1.0, 2.0 / renewals)) if first > 0.0 else 0.0
    if last - first > SIGMAS * wanders + 1.0:
        return f"in flight grew from {first:.1f} to {last:.1f} at {rate:g} requests a second"
    return None


def _late(late_s: Spread, against: Spread) -> str | None:
    if late_s.mean <= LATE * against.mean or not against.mean:
        return None
    return (
        f"the bench sent {late_s.mean * 1000:.1f} ms late on average (p99 "
        f"{late_s.p99 * 1000:.0f} ms): this machine is too busy to keep the times of arrival"
    )


def _short(e2e_s: float, window_s: float, counted: int) -> str | None:
    if window_s >= WINDOWS * e2e_s:
        return None
    wanted = math.ceil(counted * WINDOWS * e2e_s / window_s)
    return (
        f"requests took {e2e_s:.1f} s, and all that count arrived within {window_s:.1f} s: give "
        f"--requests-per-level {wanted} or more"
    )
