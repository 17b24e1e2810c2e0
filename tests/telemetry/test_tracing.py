"""Which requests become spans, what is kept of them, and that nothing waits for a collector."""

import threading
from collections.abc import Sequence
from dataclasses import fields, replace

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import error_attributes, http_attributes, url_attributes

from specgate.core.errors import TurnedAway
from specgate.core.events import Event, Outcome, Phase, RequestEnded, SettingsChanged
from specgate.core.lanes import Lane
from specgate.core.policy import Reason
from specgate.core.routes import RouteClass
from specgate.core.trace_context import Parent
from specgate.telemetry.tracing import BATCH, WAITING_MAX, Kept, Tracing, attributes_of, is_error

EPOCH_NS = 1_800_000_000 * 10**9
PARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0%d"

ENDED = RequestEnded(
    request_id="4be1fd0f9d1c2f0d6a0b8c11",
    method="POST",
    path="/v1/chat/completions",
    route=RouteClass.CHAT,
    sequences=1,
    lane=Lane.SPEC,
    reason=Reason.BELOW_THRESHOLD,
    status=200,
    phase=Phase.STREAM,
    duration_s=1.25,
    ttft_s=0.1,
    tpot_s=0.02,
    output_tokens=96,
    prompt_tokens=12,
    overhead_s=0.0003,
    queued_s=0.5,
)


class Collector:
    """An exporter that keeps what it gets; `taking` unset: it hangs."""

    def __init__(self) -> None:
        self.batches: list[list[Kept]] = []
        self.taking = threading.Event()
        self.taking.set()
        self.answer = True
        self.given_up = False

    def export(self, spans: Sequence[Kept]) -> bool:
        assert self.taking.wait(10)
        self.batches.append(list(spans))
        return self.answer

    def give_up(self) -> None:
        self.given_up = True

    @property
    def spans(self) -> list[Kept]:
        return [span for batch in self.batches for span in batch]


def traced(
    *events: Event, share: float = 1.0, draws: Sequence[float] = (), answer: bool = True
) -> tuple[Collector, Tracing]:
    """What arrives of these facts, once all of it has."""
    collector = Collector()
    collector.answer = answer
    tracing = tracing_to(collector, share, draws)
    for event in events:
        tracing(event)
    tracing.start()
    tracing.stop()
    return collector, tracing


def tracing_to(collector: Collector, share: float = 1.0, draws: Sequence[float] = ()) -> Tracing:
    drawn = iter(draws)
    return Tracing(
        collector,
        share=share,
        scheme="http",
        wall=lambda: EPOCH_NS,
        draw=lambda: next(drawn, 0.0),
    )


def test_a_span_ends_now_and_began_its_duration_ago():
    collector, tracing = traced(ENDED)
    (span,) = collector.spans
    assert (span.start_ns, span.end_ns) == (EPOCH_NS - 1_250_000_000, EPOCH_NS)
    assert (span.name, span.parent, span.error) == ("POST chat", None, False)
    assert tracing.counts() == {"exported": 1, "dropped": 0, "failed": 0}
    assert collector.given_up


def test_other_facts_are_no_spans():
    assert traced(SettingsChanged(names=("band",), source="SIGHUP"))[0].spans == []


def test_the_parent_decides_where_there_is_one():
    """Whatever the share is."""
    sampled, not_sampled = (replace(ENDED, traceparent=PARENT % flag) for flag in (1, 0))
    for share in (0.0, 1.0):
        (span,) = traced(sampled, not_sampled, share=share)[0].spans
        assert span.parent == Parent(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0xF067AA0BA902B7, True)


def test_the_share_decides_where_there_is_none_that_is_valid():
    events = [ENDED, replace(ENDED, traceparent=b"00-nonsense-01"), ENDED, ENDED]
    collector, _ = traced(*events, share=0.5, draws=[0.49, 0.0, 0.5, 0.99])
    assert [span.parent for span in collector.spans] == [None, None]
    assert traced(*events, share=0.0)[0].spans == []


def test_what_waits_is_bounded_and_what_is_dropped_is_counted():
    collector = Collector()
    tracing = tracing_to(collector)
    for _ in range(WAITING_MAX + 3):
        tracing(ENDED)
    assert tracing.counts()["dropped"] == 3
    tracing.start()
    tracing.stop()
    assert len(collector.spans) == WAITING_MAX
    assert max(map(len, collector.batches)) == BATCH


def test_nobody_waits_for_a_collector_that_hangs():
    collector = Collector()
    collector.taking.clear()
    tracing = tracing_to(collector)
    tracing.start()
    for _ in range(WAITING_MAX + 2 * BATCH):
        tracing(ENDED)  # it would not return if it waited
    assert tracing.counts()["exported"] == 0
    assert tracing.counts()["dropped"] >= BATCH
    collector.taking.set()
    tracing.stop()
    counts = tracing.counts()
    assert counts["exported"] + counts["dropped"] == WAITING_MAX + 2 * BATCH


def test_what_the_collector_does_not_take_is_counted():
    _, tracing = traced(ENDED, ENDED, answer=False)
    assert tracing.counts() == {"exported": 0, "dropped": 0, "failed": 2}


def test_attributes_are_the_conventions_and_else_the_log_lines_fields():
    found = attributes_of(ENDED, "https", error=False)
    assert found == {
        "http.request.method": "POST",
        "url.scheme": "https",
        "url.path": "/v1/chat/completions",
        "http.response.status_code": 200,
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 96,
        "gen_ai.response.time_to_first_chunk": 0.1,
        "specgate.request_id": "4be1fd0f9d1c2f0d6a0b8c11",
        "specgate.route": "chat",
        "specgate.sequences": 1,
        "specgate.lane": "spec",
        "specgate.reason": "below_threshold",
        "specgate.rerouted": False,
        "specgate.outcome": "completed",
        "specgate.phase": "stream",
        "specgate.tpot_s": 0.02,
        "specgate.overhead_s": 0.0003,
        "specgate.queued_s": 0.5,
    }
    conventions = {
        value
        for module in (gen_ai_attributes, error_attributes, http_attributes, url_attributes)
        for value in vars(module).values()
        if isinstance(value, str)
    }
    own = {f"specgate.{field.name}" for field in fields(RequestEnded)}
    worst = replace(ENDED, outcome=Outcome.LANE_FAILED, turned_away=TurnedAway.QUEUE_FULL)
    assert set(attributes_of(worst, "http", error=True)) <= conventions | own


def test_what_is_not_known_is_no_attribute():
    bare = RequestEnded("id", "GET", "/v1/models", outcome=Outcome.CLIENT_GONE)
    assert set(attributes_of(bare, "http", error=False)) == {
        "http.request.method",
        "url.scheme",
        "url.path",
        "specgate.request_id",
        "specgate.route",
        "specgate.sequences",
        "specgate.rerouted",
        "specgate.outcome",
        "specgate.phase",
    }


@pytest.mark.parametrize(
    ("outcome", "status", "kind"),
    [
        (Outcome.COMPLETED, 200, None),
        (Outcome.COMPLETED, 404, None),
        (Outcome.COMPLETED, 500, "500"),
        (Outcome.REFUSED, 429, None),
        (Outcome.REFUSED, 503, "503"),
        (Outcome.CLIENT_GONE, 200, None),
        (Outcome.CLIENT_GONE, None, None),
        (Outcome.LANE_FAILED, 200, "lane_failed"),
        (Outcome.LANE_FAILED, 502, "lane_failed"),
        (Outcome.CUT_SHORT, 200, "cut_short"),
        (Outcome.GATE_ERROR, None, "gate_error"),
    ],
)
def test_an_error_is_the_servers(outcome: Outcome, status: int | None, kind: str | None):
    event = replace(ENDED, outcome=outcome, status=status)
    assert is_error(event) is (kind is not None)
    found = attributes_of(event, "http", error=is_error(event))
    assert found.get("error.type") == kind


def test_a_clients_words_make_no_names():
    """Of spans there are few, whatever clients send; a path is cut."""
    event = replace(ENDED, method="BREW", path="/x" * 500, route=RouteClass.OTHER)
    (span,) = traced(event)[0].spans
    assert span.name == "HTTP other"
    assert span.attributes["http.request.method"] == "_OTHER"
    assert len(str(span.attributes["url.path"])) == 200
