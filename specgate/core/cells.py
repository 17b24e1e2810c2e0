"""What a bench measures: one arm, at one level, in one repeat. Pure data, units in the names.

An *arm* is an engine under a name ("spec", "plain", or any other setting of speculation); a *block*
is one repeat of one level, in which all arms are measured back to back on the same prompts, so that
what drifts over minutes cancels in the ratio within a block.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Of one quantity over a cell's requests, seconds: mean and percentiles."""

    mean: float
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One arm at one level in one repeat, ramp and tail excluded.

    concurrency: requests held in flight. context: prompt tokens aimed at, None for as they are.
    max_tokens: output tokens asked for. repeat: 0, 1, ...; order: its place in its block, from 0.
    paired: whether the arms of its block were measured within one run, on the same prompts.
    requests: those that count. window_s: the time in which all `concurrency` were in flight.
    tok_s: output tokens in the window by the engines' own count, over window_s.
    tok_s_per_request: mean over requests of output tokens over E2E.
    ttft_s, tpot_s: None where the API streams nothing. slo_goodput: requests a second that met the
    SLO, None without one. accept_length: tokens a verification step, None where not known.
    by_class: accept length by prompt class, where known.
    void: why the cell does not count, None if it does.
    error: systematic, of ln(tok_s): what repeats do not make smaller.
    """

    arm: str
    concurrency: int
    context: int | None
    max_tokens: int
    repeat: int
    order: int
    paired: bool
    requests: int
    window_s: float
    tok_s: float
    tok_s_per_request: float
    ttft_s: Spread | None
    tpot_s: Spread | None
    e2e_s: Spread
    slo_goodput: float | None
    accept_length: float | None
    by_class: dict[str, float]
    void: str | None
    error: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RateCell:
    """One arm at one rate of arrivals in one repeat: an open loop.

    rate: Poisson arrivals, requests a second. context, max_tokens, repeat, order, paired,
    accept_length: as of a Cell. requests: of the arrivals that count, those that ended.
    window_s: the time of the arrivals that count. in_flight: its mean in the window, and in each
    third of it. late_s: how much later than due the client sent. tok_s: of the window. ttft_s,
    tpot_s: None where the API streams nothing. slo_goodput: requests a second that met the SLO,
    None without one. saturated: why the arm cannot carry the rate; void: why the cell does not
    count; None if not.
    """

    arm: str
    rate: float
    context: int | None
    max_tokens: int
    repeat: int
    order: int
    paired: bool
    requests: int
    window_s: float
    in_flight: float
    in_flight_thirds: tuple[float, float, float]
    late_s: Spread
    tok_s: float
    ttft_s: Spread | None
    tpot_s: Spread | None
    e2e_s: Spread
    slo_goodput: float | None
    accept_length: float | None
    saturated: str | None
    void: str | None
