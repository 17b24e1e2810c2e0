"""What an engine counts, and the stale view of it that it publishes.

Counters are exact. Gauges are published late, as SGLang's are: `/v1/loads` every 15 steps,
`/metrics` every 40, both at each prefill and when the lane falls idle. The prefill report is made
before the new sequences join the batch, so a lone stream reads as 0 running until the 40th step.
"""

from bisect import bisect_left
from dataclasses import dataclass

from specgate.sim.call import Ticket
from specgate.sim.model import Done, LaneModel

LOADS_EVERY_STEPS = 15
METRICS_EVERY_STEPS = 40

TTFT_BOUNDS = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400)
E2E_BOUNDS = (*TTFT_BOUNDS, 600, 1200, 1800, 2400)
TOKEN_BOUNDS = (
    *(0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08),
    *(0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8),
)


class Histogram:
    """Counts per bucket, the one beyond the last bound included; values in seconds."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A view of the lane at one moment, which then ages. `at`: seconds on the driver's clock."""

    at: float = 0.0
    running: int = 0
    waiting: int = 0
    waiting_tokens: int = 0
    used_tokens: int = 0
    tok_s: float = 0.0
    accept_length: float = 0.0
    accept_rate: float = 0.0


class Window:
    """One published view and the sums since it was made."""

    def __init__(self, every_steps: int) -> None:
        self.published = Published()
        self._every = every_steps
        self._steps = 0
        self._tokens = 0
        self._verified = 0
        self._accepted = 0

    def operation(
        self, done: Done, model: LaneModel, at: float, *, running: int, idle: bool
    ) -> None:
        """Count an operation in; publish if it is time."""
        self._tokens += done.tokens
        if not done.prefill:
            self._steps += 1
            self._accepted += done.accepted
            self._verified += len(done.progress)
        if done.prefill or idle or self._steps >= self._every:
            self._publish(model, at, running=running)

    def _publish(self, model: LaneModel, at: float, *, running: int) -> None:
        before = self.published
        accept_length, accept_rate = before.accept_length, before.accept_rate
        drafts = self._verified * model.shape.draft_steps
        if drafts:
            accept_length = 1 + self._accepted / self._verified
            accept_rate = self._accepted / drafts
        since_s = at - before.at
        self.published = Published(
            at=at,
            running=running,
            waiting=model.queued,
            waiting_tokens=model.waiting_prompt_tokens,
            used_tokens=model.kv_used,
            tok_s=self._tokens / since_s if running and since_s > 0 else 0.0,
            accept_length=accept_length,
            accept_rate=accept_rate,
        )
        self._steps = self._tokens = self._verified = self._accepted = 0


class Meters:
    """Totals since the start, histograms, and the two published views."""

    def __init__(self) -> None:
        self.loads = Window(LOADS_EVERY_STEPS)
        self.metrics = Window(METRICS_EVERY_STEPS)
        self.requests = 0
        self.prompt_tokens = 0
        self.in_flight = 0
        self.max_in_flight = 0
        self.served = 0
        self.aborted = 0
        self.ttft = {streaming: Histogram(TTFT_BOUNDS) for streaming in (True, False)}
        self.e2e = {streaming: Histogram(E2E_BOUNDS) for streaming in (True, False)}
        self.inter_token = Histogram(TOKEN_BOUNDS)
        self.time_per_token = Histogram(TOKEN_BOUNDS)

    def entered(self, sequences: int, prompt_tokens: int) -> None:
        self.requests += sequences
        self.prompt_tokens += prompt_tokens
        self.in_flight += sequences
        self.max_in_flight = max(self.max_in_flight, self.in_flight)

    def left(self, *, served: int, aborted: int) -> None:
        self.in_flight -= served + aborted
        self.served += served
        self.aborted += aborted

    def chunk(self, ticket: Ticket, tokens: int, at: float) -> None:
        """A sequence got tokens, `at` on the driver's clock."""
        if ticket.first_at is None:
            ticket.first_at = at
            self.ttft[ticket.call.streaming].observe(at - ticket.sent_at)
        elif tokens:
            self.inter_token.observe((at - ticket.last_at) / tokens, tokens)
        ticket.last_at = at

    def finished(self, ticket: Ticket, at: float) -> None:
        self.e2e[ticket.call.streaming].observe(at - ticket.sent_at)
        if ticket.first_at is not None and ticket.sequence.emitted > 1:
            self.time_per_token.observe((at - ticket.first_at) / (ticket.sequence.emitted - 1))

    def operation(self, done: Done, model: LaneModel, at: float) -> None:
        idle = model.running == 0 and model.queued == 0
        self.loads.operation(done, model, at, running=model.running, idle=idle)
        seen = done.running_before if done.prefill and not idle else model.running
        self.metrics.operation(done, model, at, running=seen, idle=idle)
