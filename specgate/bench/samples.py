"""From the requests of one cell to its figures. Pure; times are monotonic seconds.

The window is the time in which all C requests were in flight: it opens when the warm-up has ended
and closes when a request ends for which there is no next one. Tokens of a request that reaches over
an edge are shared out by overlap, evenly from its first output to its end. Latencies are of the
requests that ended in the window: each completion counts once, however long it took.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from specgate.core.cells import Cell, Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One request. `index`: its place in its cell. `first_output_at`: None if it streamed nothing.

    tokens, prompt_tokens, cached_tokens: by the engine's own count, None where it gives none.
    steps: decode steps that made its tokens, None where the engine does not say.
    error: why it does not count, None if it does.
    """

    index: int
    prompt_class: str
    sent_at: float
    first_output_at: float | None
    ended_at: float
    tokens: int | None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    steps: int | None = None
    finish: str | None = None
    error: str | None = None

    @property
    def e2e_s(self) -> float:
        return self.ended_at - self.sent_at

    @property
    def ttft_s(self) -> float | None:
        return None if self.first_output_at is None else self.first_output_at - self.sent_at

    @property
    def tpot_s(self) -> float | None:
        """Seconds a token after the first; None without a first, or with no second."""
        if self.first_output_at is None or self.tokens is None or self.tokens < 2:
            return None
        return (self.ended_at - self.first_output_at) / (self.tokens - 1)

    def tokens_between(self, begin: float, end: float) -> float:
        """Its tokens that fell into a time."""
        began = self.sent_at if self.first_output_at is None else self.first_output_at
        tokens = self.tokens or 0
        if self.ended_at <= began:
            return tokens if begin <= self.ended_at < end else 0
        overlap = max(0.0, min(end, self.ended_at) - max(begin, began))
        return tokens * overlap / (self.ended_at - began)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A closed loop that has ended. `begin`, `end`: its window, None if it never opened or closed.

    samples: in the order in which they ended. counted: the first one that ended after the window
    had opened, and the one after the last that ended before it closed.
    client_busy: the bench's own processor time over the window, as a share of one core.
    void: why it does not count, None if it does.
    """

    samples: tuple[Sample, ...]
    counted: tuple[int, int]
    begin: float | None
    end: float | None
    client_busy: float
    void: str | None

    def counting(self) -> list[Sample]:
        """The requests that ended within the window."""
        if self.begin is None or self.end is None:
            return []
        first, beyond = self.counted
        return [sample for sample in self.samples[first:beyond] if not sample.error]


Goodput = Callable[[Sequence[Sample], float], float]


def cell_of(
    loop: Loop,
    *,
    arm: str,
    concurrency: int,
    context: int | None,
    max_tokens: int,
    repeat: int,
    order: int,
    paired: bool,
    accept_length: float | None,
    goodput: Goodput | None = None,
    error: float = 0.0,
) -> Cell:
    """The figures of one cell. A void one has what there is; its figures may be 0.

    `goodput`: requests a second that met the SLO, of those that count and the window's length.
    """
    counting = loop.counting()
    window_s = loop.end - loop.begin if loop.begin is not None and loop.end is not None else 0.0
    void = loop.void
    if void is None and (not counting or window_s <= 0):
        void = "no request ended while all were in flight"
    tokens = (
        sum(s.tokens_between(loop.begin, loop.end) for s in loop.samples if not s.error)
        if loop.begin is not None and loop.end is not None
        else 0.0
    )
    return Cell(
        arm=arm,
        concurrency=concurrency,
        context=context,
        max_tokens=max_tokens,
        repeat=repeat,
        order=order,
        paired=paired,
        requests=len(counting),
        window_s=window_s,
        tok_s=tokens / window_s if window_s > 0 else 0.0,
        tok_s_per_request=_mean((s.tokens or 0) / s.e2e_s for s in counting if s.e2e_s > 0),
        ttft_s=spread([s.ttft_s for s in counting if s.ttft_s is not None]),
        tpot_s=spread([s.tpot_s for s in counting if s.tpot_s is not None]),
        e2e_s=spread([s.e2e_s for s in counting]) or Spread(mean=0.0, p50=0.0, p90=0.0, p99=0.0),
        slo_goodput=goodput(counting, window_s) if goodput is not None and window_s > 0 else None,
        accept_length=accept_length,
        by_class=accept_by_class(counting),
        void=void,
        error=error,
    )


def spread(values: Sequence[float]) -> Spread | None:
    """None of no values."""
    if not values:
        return None
    ordered = sorted(values)
    return Spread(
        mean=fmean(ordered),
        p50=percentile(ordered, 0.50),
        p90=percentile(ordered, 0.90),
        p99=percentile(ordered, 0.99),
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """Linear between the two nearest of ascending values."""
    at = (len(ordered) - 1) * share
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def accept_by_class(samples: Iterable[Sample]) -> dict[str, float]:
    """Accept length by prompt class, where the engine tells the steps of each request."""
    tokens: dict[str, int] = defaultdict(int)
    steps: dict[str, int] = defaultdict(int)
    for sample in samples:
        if sample.steps and sample.tokens:
            tokens[sample.prompt_class] += sample.tokens - 1
            steps[sample.prompt_class] += sample.steps
    return {name: tokens[name] / steps[name] for name in sorted(steps)}


def cached_share(samples: Iterable[Sample]) -> float | None:
    """The share of prompt tokens that came from a prefix cache, None where no engine tells."""
    told = [s for s in samples if s.cached_tokens is not None and s.prompt_tokens]
    if not told:
        return None
    return sum(s.cached_tokens or 0 for s in told) / sum(s.prompt_tokens or 0 for s in told)


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return fmean(listed) if listed else 0.0
