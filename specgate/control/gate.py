"""The gate: what changes, in one synchronous place.

It joins the ledger, the lanes' health and `core.policy`: a request asks `admit` and gets a lane and
a place in the ledger in one call with no await in it. Nothing here waits, logs or measures; it
emits facts.
"""

from specgate.control.admission import Admission
from specgate.control.gate_state import GateState
from specgate.core.accept import Counted
from specgate.core.config import Placement, PolicyConfig
from specgate.core.demand import Mark
from specgate.core.errors import ConnectFailed
from specgate.core.events import DrainChanged, Switched
from specgate.core.health import Sign
from specgate.core.lanes import Lane
from specgate.core.policy import Decision, Mode, Reason
from specgate.core.routes import RouteClass
from specgate.core.rules import Asked, rerouted
from specgate.engines.base import Engine
from specgate.engines.features import EFFECTS
from specgate.ledger.base import Entry
from specgate.upstream.base import Origin


class Gate(GateState):
    """All methods run to their end without awaiting."""

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
        one drains or sleeps.
        """
        if avoid is not None and self._roster.closed(avoid.other):
            raise ConnectFailed(f"the {avoid.other} lane drains or sleeps", lane=avoid)
        if not route.is_generation:
            return self._admitted(self._unloaded(asked, avoid), None)
        now = self._clock()
        self._catch_up(now)
        if avoid is None:
            self._rules.arrived += sequences
        decision = self._decision(arriving=sequences, now=now)
        self._settle(decision, now, sequences)
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
        if not self._roster.all_open:
            decision = self._roster.opened(decision)
        entry = self._ledger.enter(decision.lane, sequences, now)
        self._catch_up(now)
        weighing = self._reckoning.weighing
        mark = None if weighing is None else weighing.arrived(decision.lane, sequences, now)
        return self._admitted(decision, entry, mark)

    def admit_to_all(self) -> list[Admission]:
        """Each lane that is awake, for a call that goes to them all and is no load; one where both
        are the same engine."""
        return [
            self._admitted(Decision(origin.lane, Reason.BOTH, self._side, self._reason), None)
            for origin in self.origins()
        ]

    def leave(self, admission: Admission) -> None:
        """Take a request out of all accounts; once, whatever is called how often."""
        if admission.left:
            return
        admission.left = True
        self._roster.carried[admission.lane] -= 1
        if admission.entry is not None and self._ledger.leave(admission.entry):
            now = self._clock()
            self._catch_up(now)
            weighing = self._reckoning.weighing
            if admission.mark is not None and weighing is not None:
                weighing.left(admission.mark, now)
        if self.made_room is not None:
            self.made_room()

    def origin(self, lane: Lane) -> Origin:
        return self._roster.origin(lane)

    def engine(self, lane: Lane) -> Engine:
        """What a lane runs, as far as it is known."""
        return self._roster.engine(lane)

    def origins(self) -> list[Origin]:
        """Of the lanes that are awake; one where both are the same engine."""
        awake = [self._roster.origin(lane) for lane in Lane if lane not in self._roster.asleep]
        return awake[:1] if len({origin.url for origin in awake}) == 1 else awake

    def holds(self, state: str) -> bool:
        """Whether it is known which lane holds it."""
        return self._rules.held(state, self._clock()) is not None

    def learn(self, origin: Origin, state: str) -> None:
        """The engine there said that it holds this, a session or a stored response."""
        if self._roster.origin(origin.lane) == origin:
            self._rules.learn(state, origin.lane, self._clock())

    def doubt(self, lane: Lane) -> bool:
        """A lane took no connection. Whether the request may wait until it is known which lane
        serves, since no other one is awake now."""
        return self.turns is not None and self.turns.doubt(lane)

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
        side = self._side
        serving = side.other if side in self._roster.asleep else None
        self._reckoning.step(now, side, counts, beyond, waiting=self.queued, serving=serving)
        self._settle(self._decision(arriving=0, now=now), now)
        if self.made_room is not None:
            self.made_room()

    def saw(self, origin: Origin, sign: Sign, why: str) -> None:
        """A sign of a lane's health. Ignored if it is of a URL that the lane has left."""
        change = self._roster.saw(origin, sign, why, self._clock())
        if change is not None:
            self._observe(change)
            self._look_at_turns()

    def name_engine(self, origin: Origin, engine: Engine) -> None:
        """The prober found out what a lane runs."""
        self._roster.name_engine(origin, engine)

    def saw_accept_length(self, origin: Origin, reading: Counted) -> None:
        """What a lane's engine has counted of its decode steps; of the spec lane's it is kept."""
        current = self._roster.origin(Lane.SPEC)
        if origin == current:
            self._reckoning.saw_accept_length(reading, self._clock())

    def saw_prompt(self, tokens: int | None) -> None:
        """A generation ended, and its engine said so many prompt tokens; None: it said nothing."""
        self._reckoning.saw_prompt(tokens, self._clock())

    def draining(self) -> tuple[int, float, float] | None:
        """Of the side that was left last, if it was not by force: sequences in flight there,
        seconds since then, and a sequence's mean duration. None without one that is observed."""
        weighing = self._reckoning.weighing
        if self.left_at is None or weighing is None:
            return None
        old = self._ledger.counts().of(self._side.other)
        return old, self._clock() - self.left_at, weighing.latest.duration_s

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
        before = self._roster.draining
        self._roster.drain(lane)
        if before is not lane:
            self._tell_of_drain(lane)
        self.tick()
        self._look_at_turns()

    def undrain(self, lane: Lane) -> None:
        """New requests for a lane again; nothing, if it does not drain."""
        if self._roster.draining is lane:
            self._roster.drain(None)
            self._tell_of_drain(lane)
            self.tick()
            self._look_at_turns()

    def sleep(self, lane: Lane) -> None:
        """A lane gets nothing from now on, and what its engine held is gone."""
        self._roster.sleep(lane, self._clock())
        self._rules.moved(lane)
        self._beyond.forget(lane)

    def wake(self, lane: Lane) -> None:
        """A lane was found to be awake, and to serve."""
        self._roster.wake(lane)
        self.saw(self._roster.origin(lane), Sign.READY, "it is awake and answered")

    def put_on_trial(self, side: Lane | None) -> None:
        """Keep to a side for a block of the experiment; None: the policy's again."""
        if side is not self._trial:
            self._trial = side
            self.tick()

    def set_mode(self, mode: Mode) -> None:
        if mode is not Mode.AUTO:
            self.left_at = None
        self._mode = mode
        self.tick()
        if self.turns is not None:
            self.turns.hurry()

    def set_policy(self, policy: PolicyConfig) -> None:
        """New knobs from the next decision on; the load's history stays."""
        now = self._clock()
        self._load.retune(policy.smoothing_s, now)
        self._policy = policy
        self._reckoning.use(policy, now)
        self.follows_prompts = policy.contexts is not None
        self.tick()

    def set_origin(self, origin: Origin) -> None:
        """A lane's new URL, or its engine's new key: for new requests; those in flight end where
        they are."""
        if self._roster.origin(origin.lane) == origin:
            self._roster.rekey(origin)
        else:
            self._roster.move(origin, self._clock())
            self._beyond.forget(origin.lane)
            self._rules.moved(origin.lane)
            if origin.lane is Lane.SPEC:
                self._reckoning.forget_accept_length()
            self._look_at_turns()

    def _tell_of_drain(self, lane: Lane) -> None:
        draining, in_hand = lane is self._roster.draining, self._roster.carried[lane]
        self._observe(DrainChanged(lane=lane, draining=draining, in_hand=in_hand))

    def _look_at_turns(self) -> None:
        if self.turns is not None:
            self.turns.look()

    def _admitted(
        self, decision: Decision, entry: Entry | None, mark: Mark | None = None
    ) -> Admission:
        roster, lane = self._roster, decision.lane
        roster.carried[lane] += 1
        return Admission(self, decision, roster.origin(lane), entry, mark)

    def _catch_up(self, now: float) -> None:
        """Take the ledger's total into the load; with a shared ledger others may have moved it."""
        total = self._ledger.total + self._unsent
        load = self._load
        if total != load.count:
            load.observe(total, now)

    def _settle(self, decision: Decision, now: float, arriving: int = 0) -> None:
        """Remember why, and switch if the side moved. arriving: sequences of the request that the
        decision is for, not in the ledger yet."""
        self._reason = decision.side_reason
        if decision.side is self._side:
            return
        self._side = decision.side
        self._switches += 1
        self._switched_at = now
        shared = self._policy.placement is Placement.SHARED
        moved = shared and self._mode is Mode.AUTO and self._policy.shadow is None
        self.left_at = now if moved else None
        if self._reckoning.weighing is not None:
            self._reckoning.weighing.switched(now)
        count = self._load.count + arriving
        averaged = self._policy.smoothing_s > 0.0 or self._reckoning.weighing is not None
        self._observe(
            Switched(
                side=decision.side,
                reason=decision.side_reason,
                # Without smoothing the load that is compared is the count.
                load=self._compared(now) if averaged else float(count),
                count=count,
                threshold=self._policy.threshold,
            )
        )

    def _unloaded(self, asked: Asked | None, avoid: Lane | None) -> Decision:
        """Calls that decode nothing go to the plain lane: always the same, so that what they say
        (models, versions) does not change with the load."""
        roster = self._roster
        off = roster.closed(Lane.PLAIN) and Lane.SPEC not in roster.asleep
        only_spec = roster.usable == {Lane.SPEC} or off
        lane = Lane.SPEC if only_spec else Lane.PLAIN
        decision = Decision(lane, Reason.NOT_GENERATION, self._side, self._reason)
        if asked is not None:
            now = self._clock()
            decision = self._rules.over_unloaded(asked, decision, self._roster.usable, now)
        return decision if avoid is None else rerouted(decision, avoid)
