"""Prometheus metrics: counted from facts, or read live from the gate when scraped.

Every label's values come from a closed set; nothing that a client sends becomes one. The prefix is
our own: an engine's would add up with the engine's in a query.
"""

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry

from specgate.core.alternation import Step
from specgate.core.errors import FailureKind, TurnedAway
from specgate.core.events import (
    Alternated,
    AlternationFailed,
    Event,
    LaneFailed,
    LoopFailed,
    Outcome,
    Phase,
    Probed,
    ReloadFailed,
    RequestEnded,
    SettingsChanged,
)
from specgate.core.health import Sign
from specgate.core.lanes import Lane
from specgate.core.load import Counts
from specgate.core.policy import Reason
from specgate.core.routes import RouteClass
from specgate.core.view import EngineCounters, GateView
from specgate.telemetry.agreement import Agreement
from specgate.telemetry.exposition import ProcessFigures, exposition
from specgate.telemetry.live import EngineFigures, LiveFigures
from specgate.telemetry.mixing import Mixing
from specgate.telemetry.profile import ProfileFigures
from specgate.telemetry.tally import Spread, Tally
from specgate.telemetry.tracing import SpanFigures, no_spans
from specgate.telemetry.weighing import WeighingFigures

_DURATION_BUCKETS = (
    *(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30),
    *(45, 60, 90, 120, 180, 300, 450, 600, 900, 1800),
)
_TTFT_BUCKETS = (
    *(0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6),
    *(3.2, 6.4, 12.8, 25.6, 60, 120, 300, 600),
)
_TPOT_BUCKETS = (
    *(0.002, 0.004, 0.008, 0.012, 0.016, 0.024, 0.032),
    *(0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1),
)
_OVERHEAD_BUCKETS = (
    *(5e-5, 1e-4, 2e-4, 4e-4, 8e-4, 1.6e-3),
    *(3.2e-3, 6.4e-3, 1.28e-2, 0.05, 0.25, 1),
)

NO_LANE = "none"
"""The lane label of a request that ended before there was a decision."""

STATUS_CLASSES = ("2xx", "3xx", "4xx", "5xx", "gone", "other")
"""`gone`: the client left before a status was sent."""


class Metrics:
    """An observer of facts with a registry of its own. `view` reads the gate's state live,
    `engines` what was last read of theirs, `disagreement` how sums differ, `spans` what became of
    them; `clock`: monotonic seconds."""

    def __init__(
        self,
        *,
        view: Callable[[], GateView],
        engines: Callable[[], Mapping[Lane, EngineCounters]],
        disagreement: Callable[[], Counts],
        clock: Callable[[], float],
        version: str,
        spans: Callable[[], Mapping[str, int]] = no_spans,
    ) -> None:
        self.registry = registry = CollectorRegistry()
        self._process = ProcessFigures(registry)
        for live in (
            LiveFigures(view, version),
            EngineFigures(engines, clock),
            Mixing(view),
            Agreement(disagreement),
            WeighingFigures(view),
            ProfileFigures(view),
            SpanFigures(spans),
        ):
            registry.register(live)

        self._requests = Tally(
            "specgate_requests_total",
            "Requests that ended, by lane, route class and status class.",
            ["lane", "route", "status"],
            registry=registry,
        )
        self._decisions = Tally(
            "specgate_decisions_total",
            "Requests by the lane chosen for them and the reason.",
            ["lane", "reason"],
            registry=registry,
        )
        self._duration = Spread(
            "specgate_request_duration_seconds",
            "From a generation request's arrival to its last byte.",
            ["lane"],
            bounds=_DURATION_BUCKETS,
            registry=registry,
        )
        self._ttft = Spread(
            "specgate_ttft_seconds",
            "From a streamed generation request's arrival to its first output.",
            ["lane"],
            bounds=_TTFT_BUCKETS,
            registry=registry,
        )
        self._tpot = Spread(
            "specgate_tpot_seconds",
            "Seconds per output token after the first, of streams of one sequence with a count.",
            ["lane"],
            bounds=_TPOT_BUCKETS,
            registry=registry,
        )
        self._tokens = Tally(
            "specgate_output_tokens_total",
            "Output tokens by the engines' own count; responses that state none add nothing.",
            ["lane"],
            registry=registry,
        )
        self._prompt_tokens = Tally(
            "specgate_prompt_tokens_total",
            "Prompt tokens by the engines' own count; responses that state none add nothing.",
            ["lane"],
            registry=registry,
        )
        self._uncounted = Tally(
            "specgate_responses_without_usage_total",
            "Completed generation responses that stated no token count.",
            ["lane"],
            registry=registry,
        )
        self._errors = Tally(
            "specgate_upstream_errors_total",
            "Failures of a lane seen by requests, by kind; a reroute may have saved the request.",
            ["lane", "kind"],
            registry=registry,
        )
        self._reroutes = Tally(
            "specgate_reroutes_total",
            "Requests sent to this lane because the other took no connection.",
            ["lane"],
            registry=registry,
        )
        self._left = Tally(
            "specgate_client_disconnects_total",
            "Clients that left before their response's end, by how far it had come.",
            ["phase"],
            registry=registry,
        )
        self._stalled = Tally(
            "specgate_client_stalls_total",
            "Responses ended because the client did not read them.",
            registry=registry,
        )
        self._unauthorized = Tally(
            "specgate_unauthorized_total",
            "Requests refused because they had none of the clients' keys.",
            registry=registry,
        )
        self._overhead = Spread(
            "specgate_overhead_seconds",
            "Time the gate itself added: deciding, and starting the answer.",
            bounds=_OVERHEAD_BUCKETS,
            registry=registry,
        )
        self._queue_wait = Spread(
            "specgate_queue_wait_seconds",
            "Time in the admission queue of requests that waited there, however it ended.",
            bounds=_TTFT_BUCKETS,
            registry=registry,
        )
        self._turned_away = Tally(
            "specgate_turned_away_total",
            "Requests that the gate did not let in, by why.",
            ["why"],
            registry=registry,
        )
        self._probes = Tally(
            "specgate_probes_total",
            "Active health checks by lane and result.",
            ["lane", "result"],
            registry=registry,
        )
        self._alternations = Tally(
            "specgate_alternations_total",
            "Times that this lane was woken to serve, on a pool that holds one lane at a time.",
            ["lane"],
            registry=registry,
        )
        self._alternation_failures = Tally(
            "specgate_alternation_failures_total",
            "Steps of taking turns that failed, by step.",
            ["step"],
            registry=registry,
        )
        self._closed = Spread(
            "specgate_alternation_seconds",
            "How long nobody was admitted until a lane served again, on a pool that holds one.",
            bounds=_TTFT_BUCKETS,
            registry=registry,
        )
        self._reloads = Tally(
            "specgate_reloads_total",
            "Reloads of settings, by result.",
            ["result"],
            registry=registry,
        )
        self._loop_failures = Tally(
            "specgate_loop_failures_total",
            "Turns of background loops that raised.",
            registry=registry,
        )
        self._begin_at_zero()

    def __call__(self, event: Event) -> None:
        match event:
            case RequestEnded():
                self._request_ended(event)
            case LaneFailed(lane=lane, kind=kind):
                self._errors.add((lane, kind))
            case Probed(lane=lane, sign=sign):
                self._probes.add((lane, sign))
            case Alternated(lane=lane, took_s=took_s):
                self._alternations.add((lane,))
                self._closed.observe(took_s)
            case AlternationFailed(step=step):
                self._alternation_failures.add((step,))
            case SettingsChanged():
                self._reloads.add(("applied",))
            case ReloadFailed():
                self._reloads.add(("refused",))
            case LoopFailed():
                self._loop_failures.add()
            case _:
                # Switches and health are read live.
                return

    async def scrape(self, accept: str) -> tuple[str, bytes]:
        """Content type and text of the page, for a scraper that accepts this."""
        await self._process.read_ahead()
        return await exposition(self.registry, accept)

    def _request_ended(self, event: RequestEnded) -> None:
        lane = event.lane or NO_LANE
        by_lane = (lane,)
        status = status_class(event)
        self._requests.add((lane, event.route, status))
        if event.lane is not None and event.reason is not None:
            self._decisions.add((lane, event.reason))
            if event.rerouted:
                self._reroutes.add(by_lane)
        elif event.status == 401:
            # An engine's own 401 has a lane.
            self._unauthorized.add()
        if event.outcome is Outcome.CLIENT_GONE:
            self._left.add((event.phase,))
        elif event.outcome is Outcome.CLIENT_STALLED:
            self._stalled.add()
        if event.queued_s is not None:
            self._queue_wait.observe(event.queued_s)
        if event.turned_away is not None:
            self._turned_away.add((event.turned_away,))
        if event.overhead_s is not None:
            self._overhead.observe(event.overhead_s)
        if not event.route.is_generation or event.lane is None:
            return
        self._duration.observe(event.duration_s, by_lane)
        if event.ttft_s is not None:
            self._ttft.observe(event.ttft_s, by_lane)
        if event.tpot_s is not None:
            self._tpot.observe(event.tpot_s, by_lane)
        if event.prompt_tokens is not None:
            self._prompt_tokens.add(by_lane, event.prompt_tokens)
        if event.output_tokens is not None:
            self._tokens.add(by_lane, event.output_tokens)
        elif event.outcome is Outcome.COMPLETED and status == "2xx":
            self._uncounted.add(by_lane)

    def _begin_at_zero(self) -> None:
        """Series that exist before their first event: `rate()` then sees the first one too."""
        for lane in Lane:
            self._duration.begin(lane)
            self._ttft.begin(lane)
            self._tpot.begin(lane)
            self._tokens.begin(lane)
            self._prompt_tokens.begin(lane)
            self._uncounted.begin(lane)
            self._reroutes.begin(lane)
            for reason in Reason:
                self._decisions.begin(lane, reason)
            for kind in FailureKind:
                self._errors.begin(lane, kind)
            for sign in (Sign.READY, Sign.NOT_READY, Sign.SLOW, Sign.UNREACHED):
                self._probes.begin(lane, sign)
            for route in (RouteClass.CHAT, RouteClass.COMPLETIONS):
                for status in ("2xx", "5xx"):
                    self._requests.begin(lane, route, status)
            self._alternations.begin(lane)
        for step in Step:
            self._alternation_failures.begin(step)
        for why in TurnedAway:
            self._turned_away.begin(why)
        for phase in Phase:
            self._left.begin(phase)
        for result in ("applied", "refused"):
            self._reloads.begin(result)


def status_class(event: RequestEnded) -> str:
    """One of STATUS_CLASSES, by the status that the client was sent."""
    if event.status is None:
        # An error of the gate before a status is the server's 500.
        return "gone" if event.outcome is Outcome.CLIENT_GONE else "5xx"
    return _HUNDREDS.get(event.status // 100, "other")


_HUNDREDS = {2: "2xx", 3: "3xx", 4: "4xx", 5: "5xx"}
