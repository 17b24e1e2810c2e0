"""The last hour and the last switches, with time as a number."""

import math
from dataclasses import replace
from typing import Any

import pytest

from specgate.core.errors import FailureKind
from specgate.core.events import LaneFailed, Outcome, RequestEnded, Switched
from specgate.core.health import Health
from specgate.core.lanes import Lane
from specgate.core.policy import Reason
from specgate.core.routes import RouteClass
from specgate.core.view import AcceptView, EngineCounters, GateView
from specgate.telemetry import switches
from specgate.telemetry.history import EVERY_S, KEPT, History
from specgate.telemetry.output_rate import OutputRate
from tests.support.views import IDLE, a_view

EPOCH = 1_800_000_000.0


class Watched:
    """A history, with the state that it sees and the time that it is told."""

    def __init__(self) -> None:
        self.view: GateView = IDLE
        self.engines: dict[Lane, EngineCounters] = {}
        self.now = 0.0
        self.history = History(
            view=lambda: self.view,
            engines=lambda: self.engines,
            clock=lambda: self.now,
            wall=lambda: EPOCH + self.now,
        )

    def point(self) -> None:
        self.now += EVERY_S
        self.history.sample()

    def last(self, lane: Lane | None = None) -> dict[str, Any]:
        columns = self.history.columns()
        of = columns["lanes"][lane] if lane else columns
        return {name: column[-1] for name, column in of.items() if name != "lanes"}


def ended(lane: Lane | None = Lane.SPEC, **known: Any) -> RequestEnded:
    fact = RequestEnded("id", "POST", "/v1/chat/completions", RouteClass.CHAT, 1, lane)
    return replace(fact, **known)


def test_a_point_holds_the_gate_as_it_was():
    on = Watched()
    accept = AcceptView(live=3.1, standard_error=0.1, bench=3.0, age_s=1.0, break_even=2.2)
    ejected = replace(IDLE.lanes[Lane.PLAIN], health=Health.EJECTED)
    on.view = a_view(
        side=Lane.PLAIN,
        reason=Reason.BURST,
        in_flight=(3, 2),
        load=7.25,
        queued=4,
        accept=accept,
        lanes={**IDLE.lanes, Lane.PLAIN: ejected},
    )
    on.point()
    assert on.last() == {
        "at": EPOCH + EVERY_S,
        "side": "plain",
        "reason": "burst",
        "count": 5,
        "queued": 4,
        "load": 7.25,
        "low": 6.0,
        "high": 8.0,
        "offered_tok_s": pytest.approx(math.nan, nan_ok=True),
        "accept_length": 3.1,
        "break_even": 2.2,
    }
    assert (on.last(Lane.SPEC)["in_flight"], on.last(Lane.PLAIN)["in_flight"]) == (3, 2)
    assert (on.last(Lane.SPEC)["health"], on.last(Lane.PLAIN)["health"]) == ("healthy", "ejected")


def test_means_are_of_the_requests_that_ended_since_the_last_point():
    on = Watched()
    on.history(ended(ttft_s=0.1, tpot_s=0.02, output_tokens=30))
    on.history(ended(ttft_s=0.3, output_tokens=20))
    on.history(ended(outcome=Outcome.LANE_FAILED))
    on.history(ended(lane=None))
    on.history(ended(route=RouteClass.OTHER, ttft_s=9.0, output_tokens=900))
    on.history(LaneFailed(lane=Lane.SPEC, kind=FailureKind.CONNECT, message="refused"))
    on.point()
    spec = on.last(Lane.SPEC)
    assert (spec["ended"], spec["errors"]) == (3, 1)
    assert (spec["ttft_s"], spec["tpot_s"]) == (pytest.approx(0.2), 0.02)
    assert spec["tok_s"] == pytest.approx(50 / EVERY_S)
    on.point()
    spec = on.last(Lane.SPEC)
    assert (spec["ended"], spec["errors"], spec["tok_s"]) == (0, 0, 0.0)
    assert math.isnan(spec["ttft_s"])
    assert math.isnan(spec["tpot_s"])


def test_the_last_half_minute_weighs_each_request_the_same():
    on = Watched()
    for _ in range(3):
        on.history(ended(ttft_s=0.1, tpot_s=0.01, output_tokens=100))
    on.point()
    assert on.history.recent(Lane.PLAIN).ttft_s is None
    on.history(ended(ttft_s=0.5, output_tokens=100))
    recent = on.history.recent(Lane.SPEC)
    assert recent.ttft_s == pytest.approx(0.2), "of what no point holds yet, too"
    assert recent.tpot_s == pytest.approx(0.01)
    assert recent.ended == 4
    assert recent.tok_s == pytest.approx(300 / EVERY_S)
    for _ in range(7):
        on.point()
    recent = on.history.recent(Lane.SPEC)
    assert (recent.ttft_s, recent.tpot_s, recent.ended, recent.tok_s) == (None, None, 0, 0.0)


def test_it_keeps_an_hour_in_the_memory_that_it_had_at_first():
    on = Watched()
    for number in range(KEPT + 5):
        on.view = a_view(load=float(number))
        on.point()
    columns = on.history.columns()
    assert columns["load"] == [float(number) for number in range(5, KEPT + 5)]
    assert all(len(column) == KEPT for name, column in columns.items() if name != "lanes")
    assert all(len(column) == KEPT for column in columns["lanes"]["spec"].values())
    since = columns["at"][-3]
    assert on.history.columns(since)["load"] == [KEPT + 3.0, KEPT + 4.0]
    assert on.history.columns(columns["at"][-1])["at"] == []


def test_an_engine_that_serves_both_lanes_counts_for_neither():
    on = Watched()
    same = IDLE.lanes[Lane.SPEC]
    on.view = a_view(lanes={Lane.SPEC: same, Lane.PLAIN: same})
    for _ in range(2):
        read = EngineCounters(url=same.url, output_tokens=1000 * on.now, at=on.now)
        on.engines = dict.fromkeys(Lane, read)
        on.history(ended(output_tokens=10))
        on.point()
    assert on.last(Lane.SPEC)["tok_s"] == pytest.approx(10 / EVERY_S)
    assert on.last(Lane.PLAIN)["tok_s"] == 0.0


class TestOutputRate:
    def read(self, at: float, tokens: float, url: str = "http://a") -> EngineCounters:
        return EngineCounters(url=url, output_tokens=tokens, at=at)

    def test_the_engines_own_count_is_taken_between_its_readings(self):
        rate = OutputRate()
        assert rate.over(5.0, 100, self.read(4.0, 1000), 5.0) == 20.0, "one reading says nothing"
        assert rate.over(5.0, 100, self.read(8.0, 1400), 10.0) == 100.0
        assert rate.over(5.0, 100, self.read(8.0, 1400), 15.0) == 100.0, "nothing new was read"

    @pytest.mark.parametrize(
        ("second", "now"),
        [
            (EngineCounters(url="http://a", output_tokens=5, at=9.0), 10.0),
            (EngineCounters(url="http://b", output_tokens=1400, at=9.0), 10.0),
            (EngineCounters(url="http://a", output_tokens=1400, at=9.0), 40.0),
            (None, 10.0),
        ],
        ids=["restarted", "another engine", "stale", "gone"],
    )
    def test_else_what_ended_is_counted(self, second: EngineCounters | None, now: float):
        rate = OutputRate()
        rate.over(5.0, 0, self.read(1.0, 500), 2.0)
        rate.over(5.0, 0, self.read(4.0, 1000), 5.0)
        assert rate.over(5.0, 60, second, now) == 12.0

    def test_a_gate_that_has_just_started_has_none(self):
        assert OutputRate().over(0.001, 0, None, 0.0) is None


def test_a_switch_is_kept_with_what_was_known():
    accept = AcceptView(live=3.1, standard_error=0.1, bench=3.0, age_s=1.0, break_even=3.3)
    view = a_view(side=Lane.PLAIN, switches=7, accept=accept, load=8.1)
    told: list[switches.Switch] = []
    ring = switches.Switches(view=lambda: view, wall=lambda: EPOCH, tell=told.append)
    fact = Switched(
        side=Lane.PLAIN, reason=Reason.ABOVE_THRESHOLD, load=8.1, count=11, threshold=8.0
    )
    ring(fact)
    ring(ended())
    assert ring.latest() == told
    [kept] = told
    assert (kept.number, kept.at, kept.side, kept.reason) == (7, EPOCH, fact.side, fact.reason)
    assert (kept.count, kept.load, kept.low, kept.high, kept.threshold) == (11, 8.1, 6.0, 8.0, 8.0)
    assert (kept.accept_length, kept.break_even, kept.offered_tok_s) == (3.1, 3.3, None)


def test_the_newest_switches_are_kept_and_told_first():
    number = 0
    ring = switches.Switches(
        view=lambda: a_view(switches=number), wall=lambda: EPOCH, tell=lambda _: None
    )
    fact = Switched(side=Lane.PLAIN, reason=Reason.BURST, load=1.0, count=1, threshold=1.0)
    for number in range(1, switches.KEPT + 4):  # noqa: B007 - the view tells it
        ring(fact)
    assert [each.number for each in ring.latest(2)] == [switches.KEPT + 3, switches.KEPT + 2]
    assert [each.number for each in ring.latest()][-1] == 4
    assert len(ring.latest()) == switches.KEPT
