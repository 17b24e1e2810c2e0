"""The gate under any interleaving of requests, ticks, signs and changes of settings.

The model keeps what is in flight, its average (integrated as time passes) and when the side last
changed; each step is checked against the rules of `core.policy`'s docstring.
"""

import math

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)

from specgate.control.admission import Admission
from specgate.control.gate import Gate
from specgate.core.config import ALWAYS, NEVER, PolicyConfig
from specgate.core.events import HealthChanged, Switched
from specgate.core.health import Health, Sign
from specgate.core.lanes import Lane
from specgate.core.policy import Mode, Reason
from specgate.core.routes import RouteClass
from specgate.engines.base import Engine
from specgate.ledger.local import LocalLedger
from specgate.upstream.base import Origin
from tests.support.clocks import ManualClock
from tests.support.observer import Recorder

thresholds = st.one_of(
    st.none(), st.sampled_from([NEVER, ALWAYS]), st.integers(1, 12), st.floats(0.5, 12)
)
policies = st.builds(
    PolicyConfig,
    threshold=thresholds,
    band=st.sampled_from([0.0, 0.2, 0.5]),
    smoothing_s=st.sampled_from([0.0, 1.0, 20.0]),
    burst=st.sampled_from([1.0, 2.0, 5.0]),
    dwell_s=st.sampled_from([0.0, 2.0, 30.0]),
)
sequences = st.integers(1, 4)
lanes = st.sampled_from(Lane)
SLACK = 1e-9


class Gates(RuleBasedStateMachine):
    open = Bundle("open")
    ended = Bundle("ended")

    @initialize(policy=policies)
    def start(self, policy: PolicyConfig) -> None:
        self.clock = ManualClock()
        self.facts = Recorder()
        self.policy = policy
        self.mode = Mode.AUTO
        self.ports = {Lane.SPEC: 100, Lane.PLAIN: 100}
        self.there: dict[Admission, int] = {}
        self.average = 0.0
        self.switched_at = -math.inf
        self.gate = Gate(
            policy=policy,
            origins={lane: self.origin(lane) for lane in Lane},
            ledger=LocalLedger(),
            observe=self.facts,
            clock=self.clock,
        )
        self.side = self.gate.view().side
        self.told = 0

    def origin(self, lane: Lane, back: int = 0) -> Origin:
        return Origin.of(lane, f"http://{lane}.test:{self.ports[lane] - back}")

    @property
    def count(self) -> int:
        return sum(self.there.values())

    def decided(self, count: int, was: Lane, *, arriving: int = 0) -> None:
        """After one decision, taken when `count` sequences were in flight."""
        now = self.gate.view()
        switched = self.facts.of(Switched)
        if now.side is self.side:
            assert len(switched) == self.told
        else:
            self.told += 1
            assert len(switched) == self.told
            assert switched[-1].side is now.side
            assert switched[-1].threshold == self.policy.threshold
            assert switched[-1].count == count + arriving
            self.check_switch(count, now.side, arriving)
            self.side = now.side
            self.switched_at = self.clock()
        assert now.switches == self.told
        self.check_side(count, was, now.side, arriving)

    @property
    def measured(self) -> float | None:
        """The threshold, where it decides."""
        threshold = self.policy.threshold
        if self.mode is not Mode.AUTO or threshold in (None, NEVER, ALWAYS):
            return None
        return threshold

    def load(self, count: int) -> float:
        return count if self.policy.smoothing_s == 0 else self.average

    def check_switch(self, count: int, to: Lane, arriving: int) -> None:
        if self.measured is None:
            return
        if to is Lane.SPEC:
            assert self.clock() - self.switched_at >= self.policy.dwell_s
            # It is entered where the next request would stay.
            assert count + max(1, arriving) < self.measured
            assert self.load(count + max(1, arriving)) < self.policy.speculate_below + SLACK  # type: ignore[operator]

    def check_side(self, count: int, was: Lane, now: Lane, arriving: int) -> None:
        threshold = self.policy.threshold
        if self.mode is not Mode.AUTO:
            assert now.value == self.mode.value
        elif threshold is None or threshold == NEVER:
            assert now is Lane.PLAIN
        elif threshold == ALWAYS:
            assert now is Lane.SPEC
        else:
            counted = count + (max(1, arriving) if was is Lane.PLAIN else arriving)
            load, edge = self.load(counted), threshold * (1 - self.policy.band)
            if load >= threshold + SLACK or counted >= self.policy.burst * threshold:
                assert now is Lane.PLAIN
            elif edge + SLACK <= load < threshold - SLACK:
                assert now is was, "the side changed inside the band"
            elif load < edge - SLACK and was is Lane.SPEC:
                assert now is Lane.SPEC

    @rule(target=open, n=sequences, route=st.sampled_from([RouteClass.CHAT, RouteClass.GENERATE]))
    def arrive(self, n: int, route: RouteClass) -> Admission:
        was, count = self.side, self.count
        admission = self.gate.admit(route, n)
        self.there[admission] = n
        self.decided(count, was, arriving=n)
        usable = [lane for lane in Lane if self.gate.view().lanes[lane].health != Health.EJECTED]
        if self.side in usable or not usable:
            assert admission.lane is self.side
        else:
            assert admission.lane is self.side.other
        if self.mode is Mode.AUTO and self.policy.threshold is None:
            assert admission.reason in (Reason.UNMEASURED, Reason.LANE_DOWN, Reason.LAST_RESORT)
            assert admission.lane is Lane.PLAIN or admission.reason is Reason.LANE_DOWN
        assert admission.origin == self.origin(admission.lane)
        return admission

    @rule(n=st.integers(0, 4))
    def arrive_without_load(self, n: int) -> None:
        before = self.gate.view()
        with self.gate.admit(RouteClass.OTHER, n) as admission:
            assert admission.reason is Reason.NOT_GENERATION
        assert self.gate.view() == before

    @rule(target=ended, admission=consumes(open))
    def leave(self, admission: Admission) -> Admission:
        admission.__exit__(None, None, None)
        del self.there[admission]
        return admission

    @rule(admission=ended)
    def leave_again(self, admission: Admission) -> None:
        before = self.gate.view()
        admission.__exit__(ValueError, ValueError(), None)
        assert self.gate.view() == before

    @rule(target=open, admission=consumes(open))
    def reroute(self, admission: Admission) -> Admission:
        n = self.there.pop(admission)
        failed = admission.lane
        self.gate.saw(admission.origin, Sign.UNREACHED, "refused")
        admission.__exit__(ValueError, ValueError(), None)
        was, count = self.side, self.count
        again = self.gate.admit(RouteClass.CHAT, n, avoid=failed)
        self.there[again] = n
        self.decided(count, was, arriving=n)
        assert (again.lane, again.reason) == (failed.other, Reason.REROUTED)
        return again

    @rule()
    def tick(self) -> None:
        was = self.side
        self.gate.tick()
        self.decided(self.count, was)

    @rule(seconds=st.one_of(st.just(0.25), st.floats(0.001, 100)))
    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        tau = self.policy.smoothing_s
        share = 1.0 if tau == 0 else 1 - math.exp(-seconds / tau)
        self.average += (self.count - self.average) * share

    @rule(mode=st.sampled_from(Mode))
    def set_mode(self, mode: Mode) -> None:
        was, self.mode = self.side, mode
        self.gate.set_mode(mode)
        self.decided(self.count, was)

    @precondition(lambda self: self.policy.smoothing_s)
    @rule(policy=policies.filter(lambda policy: policy.smoothing_s > 0))
    def set_policy(self, policy: PolicyConfig) -> None:
        was, self.policy = self.side, policy
        self.gate.set_policy(policy)
        self.decided(self.count, was)

    @rule(lane=lanes, sign=st.sampled_from(Sign))
    def see(self, lane: Lane, sign: Sign) -> None:
        side = self.side
        before, told = self.gate.view().lanes[lane].health, len(self.facts.of(HealthChanged))
        self.gate.saw(self.origin(lane), sign, "seen")
        after = self.gate.view().lanes[lane].health
        changes = self.facts.of(HealthChanged)[told:]
        assert [(c.lane, c.was, c.now) for c in changes] == (
            [(lane, before, after)] if after is not before else []
        )
        if sign is Sign.READY:
            assert after is Health.HEALTHY
        if sign is Sign.SLOW:
            assert after is before
        assert self.gate.view().side is side

    @rule(lane=lanes)
    def move_lane(self, lane: Lane) -> None:
        self.ports[lane] += 1
        self.gate.set_origin(self.origin(lane))
        seen = self.gate.view().lanes[lane]
        assert (seen.health, seen.engine) == (Health.PROBING, Engine.UNKNOWN)
        assert seen.url == self.origin(lane).url

    @rule(lane=lanes)
    def set_the_same_origin(self, lane: Lane) -> None:
        before = self.gate.view()
        self.gate.set_origin(self.origin(lane))
        assert self.gate.view() == before

    @rule(lane=lanes, sign=st.sampled_from(Sign), back=st.integers(1, 2))
    def see_an_abandoned_origin(self, lane: Lane, sign: Sign, back: int) -> None:
        before, told = self.gate.view(), len(self.facts.facts)
        for _ in range(3):
            self.gate.saw(self.origin(lane, back), sign, "late news")
        self.gate.name_engine(self.origin(lane, back), Engine.SGLANG)
        assert self.gate.view() == before
        assert len(self.facts.facts) == told

    @invariant()
    def it_counts_exactly(self) -> None:
        counts = self.gate.view().counts
        for lane in Lane:
            expected = sum(n for at, n in self.there.items() if at.lane is lane)
            assert counts.of(lane) == expected >= 0

    @invariant()
    def it_shows_the_average(self) -> None:
        view = self.gate.view()
        assert view.load == view.smoothed
        expected = self.count if self.policy.smoothing_s == 0 else self.average
        assert math.isclose(view.load, expected, rel_tol=1e-6, abs_tol=1e-6)

    def teardown(self) -> None:
        if not hasattr(self, "gate"):
            return
        for admission in list(self.there):
            admission.__exit__(None, None, None)
        counts = self.gate.view().counts
        assert (counts.spec, counts.plain) == (0, 0)
        assert self.gate.view().oldest_s is None


Gates.TestCase.settings = settings(max_examples=120, stateful_step_count=50, deadline=None)
TestGate = Gates.TestCase
