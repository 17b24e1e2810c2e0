"""What the gate makes of engines' own counts, on a clock that is told."""

from collections import deque
from dataclasses import replace

import pytest

from specgate.control.admission import Admission
from specgate.control.gate import Gate
from specgate.core.accept import Counted
from specgate.core.config import Placement, PolicyConfig
from specgate.core.curves import Curve, Curves
from specgate.core.lanes import Lane
from specgate.core.policy import Mode, Reason
from specgate.core.routes import RouteClass
from specgate.ledger.local import LocalLedger
from specgate.upstream.base import Origin
from tests.support.clocks import ManualClock
from tests.support.observer import Recorder

LOADS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
PLAIN = (85.0, 141.0, 219.0, 318.0, 429.0, 700.0, 1018.0)
LEADS = (1.9, 1.8, 1.7, 1.5, 1.2, 0.9, 0.7)
CURVES = Curves(
    spec=Curve(LOADS, tuple(a * b for a, b in zip(LEADS, PLAIN, strict=True))),
    plain=Curve(LOADS, PLAIN),
    accept_length=2.5,
    steps=3,
    output_tokens=200.0,
)
BARE = PolicyConfig(threshold=4, smoothing_s=0, band=0, dwell_s=0)


class Run:
    """A gate that is ticked four times a second; `past`: what each engine has beyond its own."""

    def __init__(self, policy: PolicyConfig, *, plain_url: str = "http://plain.test:1") -> None:
        self.clock = ManualClock()
        urls = {Lane.SPEC: "http://spec.test:1", Lane.PLAIN: plain_url}
        self.gate = Gate(
            policy=policy,
            origins={lane: Origin.of(lane, url) for lane, url in urls.items()},
            ledger=LocalLedger(),
            observe=Recorder(),
            clock=self.clock,
        )
        self.counted, self.turn = Counted(0.0, 0.0, 0.0), 0

    def goes_on(self, seconds: float, *, past: dict[Lane, int] | None = None) -> None:
        for _ in range(round(seconds * 4)):
            self.clock.advance(0.25)
            self.turn += 1
            if past and self.turn % 20 == 0:
                counts = self.gate.view().counts
                for lane, count in past.items():
                    self.gate.saw_engine_load(self.gate.origin(lane), counts.of(lane) + count)
            self.gate.tick()

    def serves(self, seconds: float, count: int, *, past: dict[Lane, int] | None = None) -> None:
        """`count` requests at a time, of three seconds each."""
        held: deque[tuple[float, Admission]] = deque()
        for _ in range(round(seconds * 4)):
            while held and held[0][0] <= self.clock():
                held.popleft()[1].__exit__(None, None, None)
            if len(held) < count:
                came = self.gate.admit(RouteClass.CHAT, 1)
                held.append((self.clock() + 3.0, came.__enter__()))
            self.goes_on(0.25, past=past)
        for _, admission in held:
            admission.__exit__(None, None, None)

    def accepts(self, length: float, requests: int = 30) -> None:
        for _ in range(requests):
            tokens, steps, ended = self.counted[:3]
            assert steps is not None
            assert ended is not None
            self.counted = Counted(tokens + 200, steps + 200 / length, ended + 1)
            self.gate.saw_accept_length(self.gate.origin(Lane.SPEC), self.counted)
        self.goes_on(0.25)

    @property
    def edge(self) -> float:
        curves = self.gate.view().curves
        assert curves is not None
        return curves.paying[-1][1] if curves.paying else 0.0


def test_the_bare_threshold_sees_traffic_past_the_gate():
    run = Run(BARE)
    run.goes_on(20, past={Lane.PLAIN: 4})
    view = run.gate.view()
    assert (view.side, view.load, view.counts.total, view.beyond.plain) == (Lane.PLAIN, 4, 0, 4)
    assert view.reason is Reason.ABOVE_THRESHOLD
    # Nothing more is heard of it.
    run.goes_on(20)
    assert run.gate.view().side is Lane.SPEC


def test_weighing_sees_it_too():
    """Forty sequences past the gate make plain the better lane for the few that come by it."""
    quiet, busy = Run(PolicyConfig(curves=CURVES)), Run(PolicyConfig(curves=CURVES))
    for run, past in ((quiet, 0), (busy, 40)):
        run.serves(60, 2, past={Lane.PLAIN: past})
    assert quiet.gate.side is Lane.SPEC
    assert busy.gate.side is Lane.PLAIN
    weighed = busy.gate.view().weighed
    assert weighed is not None
    assert weighed.offered > 600


def test_one_engine_in_both_lanes_is_not_counted_twice():
    run = Run(BARE, plain_url="http://spec.test:1")
    run.goes_on(20, past={Lane.PLAIN: 9, Lane.SPEC: 9})
    assert run.gate.view().load == 0


def test_a_lane_that_has_moved_tells_nothing_of_its_old_engine():
    run = Run(BARE)
    old = run.gate.origin(Lane.PLAIN)
    run.goes_on(10, past={Lane.PLAIN: 9})
    run.gate.set_origin(Origin.of(Lane.PLAIN, "http://new.test:1"))
    for _ in range(3):
        run.gate.saw_engine_load(old, 9)
        run.goes_on(1)
    assert run.gate.view().load == 0


def test_the_accept_length_moves_the_edge_only_where_it_is_followed():
    bare, live = Run(PolicyConfig(curves=CURVES)), Run(PolicyConfig(curves=CURVES, adaptive=True))
    at_first = live.edge
    for run in (bare, live):
        run.accepts(1.6)
    assert bare.edge == at_first
    assert live.edge < 0.6 * at_first
    live.gate.set_policy(PolicyConfig(curves=CURVES))
    assert live.edge == at_first
    live.gate.set_policy(PolicyConfig(curves=CURVES, adaptive=True))
    assert live.edge < 0.6 * at_first


def test_what_always_paid_ends_where_the_accept_length_falls_below_break_even():
    curves = replace(CURVES, spec=Curve(LOADS, tuple(1.8 * each for each in PLAIN)))
    run = Run(PolicyConfig(curves=curves, adaptive=True))
    sides = []
    for length in (2.5, 1.2):
        run.accepts(length)
        run.serves(30, 8)
        sides.append(run.gate.side)
    assert sides == [Lane.SPEC, Lane.PLAIN]
    assert run.gate.admit(RouteClass.CHAT, 1).lane is Lane.PLAIN


@pytest.mark.parametrize("lane", Lane)
def test_another_spec_engine_starts_from_the_bench_s(lane):
    run = Run(PolicyConfig(curves=CURVES, adaptive=True))
    run.accepts(1.6)
    run.gate.set_origin(Origin.of(lane, "http://new.test:1"))
    accept = run.gate.view().accept
    assert accept is not None
    assert (accept.age_s is None) is (lane is Lane.SPEC)


def test_of_the_plain_lane_no_accept_length_is_taken():
    run = Run(PolicyConfig(curves=CURVES, adaptive=True))
    for count in range(40):
        reading = Counted(200.0 * count, 200.0 * count, float(count))
        run.gate.saw_accept_length(run.gate.origin(Lane.PLAIN), reading)
    accept = run.gate.view().accept
    assert accept is not None
    assert accept.age_s is None


def test_a_forced_side_stays_whatever_is_read():
    run = Run(PolicyConfig(curves=CURVES, adaptive=True))
    run.gate.set_mode(Mode.SPEC)
    run.accepts(1.0)
    run.goes_on(60, past={Lane.PLAIN: 60})
    assert run.gate.side is Lane.SPEC


def test_the_load_that_is_shown_is_what_is_weighed_and_no_minutes_average():
    run = Run(PolicyConfig(curves=CURVES, smoothing_s=60.0))
    run.serves(20, 6)
    busy = run.gate.view()
    assert busy.load == pytest.approx(6.0, abs=0.5)
    assert busy.smoothed < 2.5
    run.goes_on(10)
    quiet = run.gate.view()
    assert quiet.load < 0.2
    assert quiet.smoothed > 1.0


@pytest.mark.parametrize(
    "policy",
    [
        PolicyConfig(threshold=9.0),
        PolicyConfig(curves=CURVES, placement=Placement.SPLIT),
    ],
    ids=["threshold", "split"],
)
def test_elsewhere_it_is_the_average(policy: PolicyConfig):
    run = Run(policy)
    run.serves(20, 6)
    view = run.gate.view()
    assert view.load == view.smoothed < 2.5
