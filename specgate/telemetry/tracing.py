"""One span a request, from the fact of its end: what is kept of it, and on its way out.

The event loop decides whether a request is traced and keeps its figures, some microseconds; a
thread makes spans of them and sends those in batches (`telemetry.spans`). What waits is bounded:
beyond it spans are dropped, and counted. Nothing here needs the extra `otel`.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple, Protocol

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from specgate.core.events import Event, Outcome, RequestEnded
from specgate.core.routes import RouteClass
from specgate.core.trace_context import Parent, parent_of
from specgate.telemetry.request_line import PATH_MAX

WAITING_MAX = 2048
"""Spans that may wait: the OpenTelemetry SDK's own default. 4 MiB at most."""

BATCH = 64
"""Spans of one call, at most."""

EVERY_S = 1.0
"""How long a span may wait for company."""

LAST_S = 5.0
"""How long the gate's end may wait for the last spans."""

RESULTS = ("exported", "dropped", "failed")
"""`dropped`: the queue was full; `failed`: the collector did not take them."""

Value = str | bool | int | float


class Kept(NamedTuple):
    """What becomes a span. Times: Unix, ns. `error`: whether the server's side is at fault."""

    name: str
    parent: Parent | None
    start_ns: int
    end_ns: int
    attributes: dict[str, Value]
    error: bool


class Exporter(Protocol):
    """Sends spans to a collector. Called by one thread; may block, for a bounded time."""

    def export(self, spans: Sequence[Kept]) -> bool:
        """Whether the collector took them. Never raises."""
        ...

    def give_up(self) -> None:
        """End a call that is waiting to try again; from any thread. No other call follows."""
        ...


class Tracing:
    """An observer of facts. `share`: of the requests without a trace of their own, how many are
    traced; others are where their client's span is. `wall`: Unix time, ns; `draw`: from 0 to 1;
    `scheme`: of the gate's clients, http or https."""

    def __init__(
        self,
        exporter: Exporter,
        *,
        share: float,
        scheme: str,
        wall: Callable[[], int],
        draw: Callable[[], float],
    ) -> None:
        self._exporter = exporter
        self._share = share
        self._scheme = scheme
        self._wall = wall
        self._draw = draw
        self._waiting: deque[Kept] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="span-export", daemon=True)
        self._counts = dict.fromkeys(RESULTS, 0)

    def counts(self) -> Mapping[str, int]:
        """Spans by what became of them: of RESULTS."""
        return self._counts

    def __call__(self, event: Event) -> None:
        if not isinstance(event, RequestEnded):
            return
        parent = parent_of(event.traceparent)
        if not (self._draw() < self._share if parent is None else parent.sampled):
            return
        if len(self._waiting) >= WAITING_MAX:
            self._counts["dropped"] += 1
            return
        end = self._wall()
        start = end - round(event.duration_s * 1e9)
        error = is_error(event)
        attributes = attributes_of(event, self._scheme, error=error)
        name = f"{_method(event, 'HTTP')} {event.route}"
        self._waiting.append(Kept(name, parent, start, end, attributes, error))
        if len(self._waiting) >= BATCH:
            self._wake.set()

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> None:
        """Send what waits, for LAST_S at most. Blocks."""
        self._stopping = True
        self._wake.set()
        self._thread.join(LAST_S)
        self._exporter.give_up()

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(EVERY_S)
            self._wake.clear()
            self._send_what_waits()
        self._send_what_waits()

    def _send_what_waits(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            result = "exported" if self._exporter.export(batch) else "failed"
            self._counts[result] += len(batch)


@asynccontextmanager
async def exporting(tracing: Tracing | None) -> AsyncIterator[None]:
    """Send spans while the block runs, if there is who makes them; then what is left."""
    if tracing is None:
        yield
        return
    tracing.start()
    try:
        yield
    finally:
        await asyncio.to_thread(tracing.stop)


def is_error(event: RequestEnded) -> bool:
    """Whether the span is one of an error: a 5xx, or a response that was broken off."""
    return event.outcome in _FAILED or (event.status is not None and event.status >= 500)


def attributes_of(event: RequestEnded, scheme: str, *, error: bool) -> dict[str, Value]:
    """By OpenTelemetry's conventions for HTTP servers and generative AI, and beyond them the names
    of the log line's fields below `specgate.`; those that are None are left out."""
    found: dict[str, Value | None] = {
        "http.request.method": _method(event, "_OTHER"),
        "url.scheme": scheme,
        "url.path": event.path[:PATH_MAX],
        "http.response.status_code": event.status,
        "gen_ai.operation.name": _OPERATIONS.get(event.route),
        "gen_ai.usage.input_tokens": event.prompt_tokens,
        "gen_ai.usage.output_tokens": event.output_tokens,
        "gen_ai.response.time_to_first_chunk": event.ttft_s,
        "specgate.request_id": event.request_id,
        "specgate.route": str(event.route),
        "specgate.sequences": event.sequences,
        "specgate.lane": _text(event.lane),
        "specgate.reason": _text(event.reason),
        "specgate.rerouted": event.rerouted,
        "specgate.outcome": str(event.outcome),
        "specgate.phase": str(event.phase),
        "specgate.tpot_s": event.tpot_s,
        "specgate.overhead_s": event.overhead_s,
        "specgate.queued_s": event.queued_s,
        "specgate.turned_away": _text(event.turned_away),
        "error.type": _error_type(event) if error else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _text(word: str | None) -> str | None:
    """A label as the plain string that it is: what encodes spans asks for exact types."""
    return None if word is None else str(word)


def _error_type(event: RequestEnded) -> str:
    return str(event.outcome) if event.outcome in _FAILED else str(event.status)


def _method(event: RequestEnded, other: str) -> str:
    return event.method if event.method in _METHODS else other


_FAILED = frozenset({Outcome.LANE_FAILED, Outcome.CUT_SHORT, Outcome.GATE_ERROR})
_METHODS = frozenset(
    {"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE"}
)
_OPERATIONS = {
    RouteClass.CHAT: "chat",
    RouteClass.RESPONSES: "chat",
    RouteClass.MESSAGES: "chat",
    RouteClass.COMPLETIONS: "text_completion",
    RouteClass.GENERATE: "text_completion",
}


def no_spans() -> Mapping[str, int]:
    """The counts of a gate that traces nothing."""
    return dict.fromkeys(RESULTS, 0)


class SpanFigures(Collector):
    """Read at the scrape."""

    def __init__(self, counts: Callable[[], Mapping[str, int]]) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(
            "specgate_spans",
            "Spans of requests by what became of them; all 0 while SPECGATE_OTEL is off.",
            labels=["result"],
        )
        for result, count in self._counts().items():
            family.add_metric([result], count)
        yield family
