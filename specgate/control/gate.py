"""The gate: what changes, in one synchronous place.

It joins the ledger, the lanes' health and `core.policy`: a request asks `admit` and gets a lane and
a place in the ledger in one call with no await in it. Nothing here waits, logs or measures; it
emits facts.
"""

import math
from collections.abc import Callable

from specgate.control.admission import Admission
from specgate.control.roster import Roster
from specgate.core.accept import Counted
from specgate.core.adaptive import Adaptive, adaptive_of
from specgate.core.beyond import Beyond
from specgate.core.config import PolicyConfig
from specgate.core.curves import Curves
from specgate.core.demand import Mark
from specgate.core.errors import ConnectFailed
from specgate.core.events import Observer, Switched
from specgate.core.health import Sign
from specgate.core.lanes import Lane
from specgate.core.load import SmoothedLoad
from specgate.core.policy import Decision, Mode, Reason, Situation, decide
from specgate.core.regret import CONSTANTS, Constants
from specgate.core.routes import RouteClass
from specgate.core.rules import Asked, Rules, RulesConfig, rerouted
from specgate.core.view import AcceptView, GateView
from specgate.core.weighing import Weighing
from specgate.engines.base import Engine
from specgate.engines.features import EFFECTS
from specgate.ledger.base import Entry, Ledger
from specgate.upstream.base import Origin


class LastLaneError(Exception):
    """The other lane drains already; `lane` would be the last one to serve."""

    def __init__(self, lane: Lane) -> None:
        super().__init__(f"the {lane.other} lane is draining: undrain it before the {lane} lane")


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
        self._roster = Roster(origins, now)
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
    ) -> Admission:
        """A lane for one request, and its entry in the ledger where it is load.

        asked: what of it the rules look at, None: nothing that they know. avoid: the lane that
        failed to take it just now; the answer is then the other. Raises ConnectFailed if that
        one drains.
        """
        if avoid is not None and self._roster.draining is avoid.other:
            raise ConnectFailed(f"the {avoid.other} lane is draining", lane=avoid)
        if not route.is_generation:
            return self._admitted(self._unloaded(asked, avoid), None)
        now = self._clock()
        self._catch_up(now)
        if avoid is None:
            self._rules.arrived += sequences
        decision = self._decision(arriving=sequences, now=now)
        self._settle(decision, now)
        if asked is not None:
            effects = EFFECTS[self._roster.engine(Lane.SPEC)]
            forced = self._mode is not Mode.AUTO or self._policy.shadow is not None
            decision = self._rules.over(
                asked,
                decision,
                self._roster.usable,
                effects,
                now,
                forced=forced,
                sequences=sequences,
                avoid=avoid,
            )
        elif avoid is not None:
            decision = rerouted(decision, avoid)
        if decision.lane is self._roster.draining and decision.reason is not Reason.HELD:
            decision = decision._replace(lane=decision.lane.other, reason=Reason.LAST_RESORT)
        entry = self._ledger.enter(decision.lane, sequences, now)
        self._catch_up(now)
        weighing = self._weighing
        mark = None if weighing is None else weighing.arrived(decision.lane, sequences, now)
        return self._admitted(decision, entry, mark)

    def leave(self, admission: Admission) -> None:
        """Take a request out of all accounts; once, whatever is called how often."""
        if admission.left:
            return
        admission.left = True
        self._roster.carried[admission.lane] -= 1
        if admission.entry is not None and self._ledger.leave(admission.entry):
            now = self._clock()
            self._catch_up(now)
            if admission.mark is not None and self._weighing is not None:
                self._weighing.left(admission.mark, now)

    def origin(self, lane: Lane) -> Origin:
        return self._roster.origin(lane)

    def origins(self) -> list[Origin]:
        """Of both lanes; one where both are the same engine."""
        spec, plain = (self._roster.origin(lane) for lane in Lane)
        return [spec] if spec.url == plain.url else [spec, plain]

    def holds(self, state: str) -> bool:
        """Whether it is known which lane holds it."""
        return self._rules.held(state, self._clock()) is not None

    def learn(self, origin: Origin, state: str) -> None:
        """The engine there said that it holds this, a session or a stored response."""
        if self._roster.origin(origin.lane) == origin:
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
        change = self._roster.saw(origin, sign, why, self._clock())
        if change is not None:
            self._observe(change)

    def name_engine(self, origin: Origin, engine: Engine) -> None:
        """The prober found out what a lane runs."""
        self._roster.name_engine(origin, engine)

    def saw_accept_length(self, origin: Origin, reading: Counted) -> None:
        """What a lane's engine has counted of its decode steps; of the spec lane's it is kept."""
        current = self._roster.origin(Lane.SPEC)
        if self._adaptive is not None and origin == current:
            self._adaptive.saw(reading, self._clock())

    def saw_engine_load(self, origin: Origin, sequences: int) -> None:
        """What a lane's engine has in hand, from whomever."""
        lane, other = (self._roster.origin(lane) for lane in (origin.lane, origin.lane.other))
        # One engine in both lanes has the other's sequences in hand too.
        if lane == origin and other.url != origin.url:
            now = self._clock()
            self._beyond.ours(self._ledger.counts(), now)
            self._beyond.saw(origin.lane, sequences, now)

    # What operators change

    def drain(self, lane: Lane) -> None:
        """No new requests for a lane from now on. Raises LastLaneError if the other one drains."""
        if self._roster.draining is lane.other:
            raise LastLaneError(lane)
        self._roster.drain(lane)
        self.tick()

    def undrain(self, lane: Lane) -> None:
        """New requests for a lane again; nothing, if it does not drain."""
        if self._roster.draining is lane:
            self._roster.drain(None)
            self.tick()

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
        if self._roster.origin(origin.lane) != origin:
            self._roster.move(origin, self._clock())
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
            lanes=self._roster.views(),
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
        return self._roster.ready

    def _admitted(
        self, decision: Decision, entry: Entry | None, mark: Mark | None = None
    ) -> Admission:
        roster, lane = self._roster, decision.lane
        roster.carried[lane] += 1
        return Admission(self, decision, roster.origin(lane), entry, mark)

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
            self._roster.usable,
            None if weighing is None else weighing.latest,
            self._ledger.counts().spec,
            self._rules.share.over,
            self._roster.draining,
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
        roster = self._roster
        only_spec = roster.usable == {Lane.SPEC} or roster.draining is Lane.PLAIN
        lane = Lane.SPEC if only_spec else Lane.PLAIN
        decision = Decision(lane, Reason.NOT_GENERATION, self._side, self._reason)
        if asked is not None:
            now = self._clock()
            decision = self._rules.over_unloaded(asked, decision, self._roster.usable, now)
        return decision if avoid is None else rerouted(decision, avoid)
