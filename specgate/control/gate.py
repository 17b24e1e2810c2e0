"""The gate: what changes, in one synchronous place.

It joins the ledger, the lanes' health and `core.policy`: a request asks `admit` and gets a lane and
a place in the ledger in one call with no await in it. Nothing here waits, logs or measures; it
emits facts.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType

from specgate.core.accept import Counted
from specgate.core.adaptive import Adaptive, adaptive_of
from specgate.core.beyond import Beyond
from specgate.core.config import PolicyConfig
from specgate.core.curves import Curves
from specgate.core.demand import Mark
from specgate.core.events import HealthChanged, Observer, Switched
from specgate.core.health import Health, LaneHealth, Sign, step
from specgate.core.lanes import Lane
from specgate.core.load import SmoothedLoad
from specgate.core.policy import Decision, Mode, Reason, Situation, decide
from specgate.core.regret import CONSTANTS, Constants
from specgate.core.routes import RouteClass
from specgate.core.rules import Asked, Rules, RulesConfig, rerouted
from specgate.core.view import AcceptView, GateView, LaneView
from specgate.core.weighing import Weighing
from specgate.engines.base import Engine
from specgate.engines.features import EFFECTS
from specgate.ledger.base import Entry, Ledger
from specgate.upstream.base import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class _LaneState:
    origin: Origin
    health: LaneHealth
    engine: Engine = Engine.UNKNOWN


class Gate:
    """`clock`: monotonic seconds. All methods run to their end without awaiting."""

    def __init__(
        self,
        *,
        policy: PolicyConfig,
        origins: dict[Lane, Origin],
        ledger: Ledger,
        observe: Observer,
        clock: Callable[[], float],
        constants: Constants = CONSTANTS,
        fresh_s: float = 15.0,
        rules: RulesConfig | None = None,
    ) -> None:
        """fresh_s: what an engine said of its load is believed for so long."""
        now = clock()
        self._policy = policy
        self._ledger = ledger
        self._observe = observe
        self._clock = clock
        self._load = SmoothedLoad(policy.smoothing_s, now)
        self._mode = Mode.AUTO
        self._switches = 0
        self._switched_at: float | None = None
        self._lanes = {
            lane: _LaneState(origin=origin, health=LaneHealth(since=now))
            for lane, origin in origins.items()
        }
        self._usable = _usable(self._lanes)
        self._constants = constants
        self._adaptive: Adaptive | None = None
        self._weighing: Weighing | None = None
        self._weigh(policy.curves, now)
        self._beyond = Beyond(fresh_s)
        self._rules = Rules(rules or RulesConfig())
        self._mixed_s = 0.0
        self._ticked_at = now
        self._unsent = 0
        """Sequences that engines have beyond ours, as of the last tick."""
        # The side that an idle gate starts on is a choice, not a switch.
        self._side = Lane.PLAIN if self._weighing is None else self._weighing.first_side
        first = self._decision(arriving=0, now=now)
        self._side, self._reason = first.side, first.side_reason

    # The way of a request

    def admit(
        self,
        route: RouteClass,
        sequences: int,
        *,
        asked: Asked | None = None,
        avoid: Lane | None = None,
    ) -> "Admission":
        """A lane for one request, and its entry in the ledger where it is load.

        asked: what of it the rules look at, None: nothing that they know. avoid: the lane that
        failed to take it just now; the answer is then the other.
        """
        if not route.is_generation:
            return Admission(self, self._unloaded(asked, avoid), entry=None)
        now = self._clock()
        self._catch_up(now)
        if avoid is None:
            self._rules.arrived += sequences
        decision = self._decision(arriving=sequences, now=now)
        self._settle(decision, now)
        if asked is not None:
            effects = EFFECTS[self._lanes[Lane.SPEC].engine]
            forced = self._mode is not Mode.AUTO or self._policy.shadow is not None
            decision = self._rules.over(
                asked,
                decision,
                self._usable,
                effects,
                now,
                forced=forced,
                sequences=sequences,
                avoid=avoid,
            )
        elif avoid is not None:
            decision = rerouted(decision, avoid)
        entry = self._ledger.enter(decision.lane, sequences, now)
        self._catch_up(now)
        weighing = self._weighing
        mark = None if weighing is None else weighing.arrived(decision.lane, sequences, now)
        return Admission(self, decision, entry=entry, mark=mark)

    def leave(self, entry: Entry, mark: Mark | None = None) -> None:
        """Take an entry out of the ledger; once, whatever is called how often."""
        if self._ledger.leave(entry):
            now = self._clock()
            self._catch_up(now)
            if mark is not None and self._weighing is not None:
                self._weighing.left(mark, now)

    def origin(self, lane: Lane) -> Origin:
        return self._lanes[lane].origin

    def origins(self) -> list[Origin]:
        """Of both lanes; one where both are the same engine."""
        spec, plain = (self._lanes[lane].origin for lane in Lane)
        return [spec] if spec.url == plain.url else [spec, plain]

    def holds(self, state: str) -> bool:
        """Whether it is known which lane holds it."""
        return self._rules.held(state, self._clock()) is not None

    def learn(self, origin: Origin, state: str) -> None:
        """The engine there said that it holds this, a session or a stored response."""
        if self._lanes[origin.lane].origin == origin:
            self._rules.learn(state, origin.lane, self._clock())

    # What the loops and the traffic see

    def tick(self) -> None:
        """Apply the policy between requests, so that the side does not wait for the next one."""
        now = self._clock()
        counts = self._ledger.counts()
        self._beyond.ours(counts, now)
        beyond = self._beyond.counts(now)
        self._unsent = beyond.total
        self._rules.share.read(self._rules.arrived)
        if counts.spec and counts.plain:
            self._mixed_s += now - self._ticked_at
        self._ticked_at = now
        self._catch_up(now)
        if self._weighing is not None:
            self._weighing.use(self._curves(now))
            seen = self._policy.shadow is None
            self._weighing.step(now, self._side, counts, beyond, seen=seen)
        self._settle(self._decision(arriving=0, now=now), now)

    def saw(self, origin: Origin, sign: Sign, why: str) -> None:
        """A sign of a lane's health. Ignored if it is of a URL that the lane has left."""
        lane = self._lanes[origin.lane]
        if lane.origin is not origin and lane.origin != origin:
            return
        after = step(lane.health, sign, self._clock())
        if after is lane.health:
            return
        self._set_lane(replace(lane, health=after))
        if after.state is not lane.health.state:
            self._observe(
                HealthChanged(lane=origin.lane, was=lane.health.state, now=after.state, why=why)
            )

    def name_engine(self, origin: Origin, engine: Engine) -> None:
        """The prober found out what a lane runs."""
        lane = self._lanes[origin.lane]
        if lane.origin == origin:
            self._set_lane(replace(lane, engine=engine))

    def saw_accept_length(self, origin: Origin, reading: Counted) -> None:
        """What a lane's engine has counted of its decode steps; of the spec lane's it is kept."""
        current = self._lanes[Lane.SPEC].origin
        if self._adaptive is not None and origin == current:
            self._adaptive.saw(reading, self._clock())

    def saw_engine_load(self, origin: Origin, sequences: int) -> None:
        """What a lane's engine has in hand, from whomever."""
        lane, other = self._lanes[origin.lane], self._lanes[origin.lane.other]
        # One engine in both lanes has the other's sequences in hand too.
        if lane.origin == origin and other.origin.url != origin.url:
            now = self._clock()
            self._beyond.ours(self._ledger.counts(), now)
            self._beyond.saw(origin.lane, sequences, now)

    # What operators change

    def set_mode(self, mode: Mode) -> None:
        self._mode = mode
        self.tick()

    def set_policy(self, policy: PolicyConfig) -> None:
        """New knobs from the next decision on; the load's history stays."""
        now = self._clock()
        self._load.retune(policy.smoothing_s, now)
        self._policy = policy
        self._weigh(policy.curves, now)
        self.tick()

    def set_origin(self, origin: Origin) -> None:
        """A lane's new URL: for new requests; those in flight end where they are."""
        if self._lanes[origin.lane].origin != origin:
            health = LaneHealth(since=self._clock())
            self._set_lane(_LaneState(origin=origin, health=health))
            self._beyond.forget(origin.lane)
            self._rules.moved(origin.lane)
            if self._adaptive is not None and origin.lane is Lane.SPEC:
                self._adaptive.forget()

    # What everybody may see

    def view(self) -> GateView:
        now = self._clock()
        since = None if self._switched_at is None else now - self._switched_at
        return GateView(
            mode=self._mode,
            side=self._side,
            reason=self._reason,
            policy=self._policy,
            counts=self._ledger.counts(),
            load=self._load.read(now),
            smoothed=self._load.read(now),
            oldest_s=self._ledger.oldest_s(now),
            switches=self._switches,
            since_switch_s=since,
            weighed=None if self._weighing is None else self._weighing.latest,
            gain=None if self._weighing is None else self._weighing.gain,
            beyond=self._beyond.counts(now),
            forced_share=self._rules.share.read(self._rules.arrived),
            mixed_s=self._mixed_s,
            curves=None if self._weighing is None else self._weighing.curves,
            accept=None if self._adaptive is None else self._accept(self._adaptive, now),
            lanes={
                lane: LaneView(url=state.origin.url, health=state.health.state, engine=state.engine)
                for lane, state in self._lanes.items()
            },
        )

    @property
    def side(self) -> Lane:
        """For new requests, health aside."""
        return self._side

    @property
    def switches(self) -> int:
        """Since the start."""
        return self._switches

    @property
    def ready(self) -> bool:
        """Whether some lane is known to serve."""
        return any(lane.health.state is Health.HEALTHY for lane in self._lanes.values())

    def _weigh(self, curves: Curves | None, now: float) -> None:
        if self._adaptive is None or curves is None or curves.accept_length is None:
            self._adaptive = adaptive_of(curves)
        else:
            self._adaptive.use(curves)
        if curves is None:
            self._weighing = None
        elif self._weighing is None:
            self._weighing = Weighing(self._curves(now), now, constants=self._constants)
        else:
            self._weighing.use(self._curves(now))

    def _curves(self, now: float) -> Curves:
        """The profile's, moved by the live accept length where the policy wants it."""
        curves = self._policy.curves
        assert curves is not None
        if self._adaptive is None or not self._policy.adaptive:
            return curves
        return self._adaptive.curves(now)

    def _accept(self, adaptive: Adaptive, now: float) -> AcceptView:
        found = adaptive.estimate(now)
        return AcceptView(
            live=found.accept_length,
            standard_error=found.standard_error * adaptive.bench,
            bench=adaptive.bench,
            age_s=found.age_s,
            break_even=adaptive.break_even(self._load.read(now)),
        )

    def _set_lane(self, state: _LaneState) -> None:
        self._lanes[state.origin.lane] = state
        self._usable = _usable(self._lanes)

    def _catch_up(self, now: float) -> None:
        """Take the ledger's total into the load; with a shared ledger others may have moved it."""
        total = self._ledger.total + self._unsent
        load = self._load
        if total != load.count:
            load.observe(total, now)

    def _decision(self, *, arriving: int, now: float) -> Decision:
        switched_at = self._switched_at
        since_switch_s = math.inf if switched_at is None else now - switched_at
        load, weighing = self._load, self._weighing
        # By position: making an object by its fields' names costs three times as much.
        situation = Situation(
            self._mode,
            self._side,
            since_switch_s,
            load.count,
            arriving,
            load.read(now),
            self._usable,
            None if weighing is None else weighing.latest,
            self._ledger.counts().spec,
            self._rules.share.over,
        )
        return decide(self._policy, situation)

    def _settle(self, decision: Decision, now: float) -> None:
        """Remember why, and switch if the side moved."""
        self._reason = decision.side_reason
        if decision.side is self._side:
            return
        self._side = decision.side
        self._switches += 1
        self._switched_at = now
        if self._weighing is not None:
            self._weighing.switched(now)
        self._observe(
            Switched(
                side=decision.side,
                reason=decision.side_reason,
                load=self._load.read(now),
                count=self._load.count,
                threshold=self._policy.threshold,
            )
        )

    def _unloaded(self, asked: Asked | None, avoid: Lane | None) -> Decision:
        """Calls that decode nothing go to the plain lane: always the same, so that what they say
        (models, versions) does not change with the load."""
        lane = Lane.SPEC if self._usable == {Lane.SPEC} else Lane.PLAIN
        decision = Decision(lane, Reason.NOT_GENERATION, self._side, self._reason)
        if asked is not None:
            now = self._clock()
            decision = self._rules.over_unloaded(asked, decision, self._usable, now)
        return decision if avoid is None else rerouted(decision, avoid)


def _usable(lanes: dict[Lane, _LaneState]) -> frozenset[Lane]:
    return frozenset(lane for lane, state in lanes.items() if state.health.usable)


class Admission:
    """A decision, and the scope in which its request is in flight: left once, on every path."""

    __slots__ = ("_entry", "_gate", "_mark", "lane", "origin", "reason")

    def __init__(
        self, gate: Gate, decision: Decision, *, entry: Entry | None, mark: Mark | None = None
    ) -> None:
        self._gate = gate
        self._entry = entry
        self._mark = mark
        self.lane = decision.lane
        self.reason = decision.reason
        self.origin = gate.origin(decision.lane)

    def __enter__(self) -> "Admission":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._entry is not None:
            self._gate.leave(self._entry, self._mark)
