"""What the gate holds, what everybody may see of it, and what the policy makes of it. What changes
it is in `control.gate`."""

import math
from collections.abc import Callable

from specgate.control.reckoning import Reckoning
from specgate.control.roster import Roster
from specgate.control.turns import Turns
from specgate.core.beyond import Beyond
from specgate.core.config import Placement, PolicyConfig
from specgate.core.events import Observer
from specgate.core.lanes import Lane
from specgate.core.load import Counts, SmoothedLoad
from specgate.core.policy import Decision, Mode, Situation, decide
from specgate.core.regret import CONSTANTS, Constants
from specgate.core.rules import Rules, RulesConfig
from specgate.core.switchback import Experiment
from specgate.core.view import GateView, LaneView
from specgate.ledger.base import Ledger
from specgate.upstream.base import Origin


class GateState:
    """`clock`: monotonic seconds. Reading it changes nothing that anyone decides by."""

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
        self._reckoning = Reckoning(policy, now, constants)
        self.follows_prompts = policy.contexts is not None
        """Whether the length of prompts matters."""
        self.left_at: float | None = None
        """When the side moved by itself, from a lane that may still drain; None: it did not, or
        somebody forces it."""
        self._beyond = Beyond(fresh_s)
        self._rules = Rules(rules or RulesConfig())
        self._trial: Lane | None = None
        self.experiment: Experiment | None = None
        """What the switchback blocks said so far (`control.trials`)."""
        self.stopping = False
        """It serves on, and is not ready for more: whoever sends requests here, should not."""
        self.made_room: Callable[[], None] | None = None
        """Called whenever there may be room for who waits (`control.admission_queue`)."""
        self.queued = 0
        """How many wait."""
        self.turns: Turns | None = None
        """Of lanes that take turns (`control.alternation`)."""
        self._mixed_s = 0.0
        self._ticked_at = now
        self._unsent = 0
        """Sequences that engines have beyond ours, as of the last tick."""
        # The side that an idle gate starts on is a choice, not a switch.
        self._side = self._reckoning.first_side
        first = self._decision(arriving=0, now=now)
        self._side, self._reason = first.side, first.side_reason

    def view(self) -> GateView:
        now = self._clock()
        weighing, load = self._reckoning.weighing, self._compared(now)
        since = None if self._switched_at is None else now - self._switched_at
        return GateView(
            mode=self._mode,
            side=self._side,
            reason=self._reason,
            policy=self._policy,
            counts=self._ledger.counts(),
            load=load,
            smoothed=self._load.read(now),
            oldest_s=self._ledger.oldest_s(now),
            switches=self._switches,
            since_switch_s=since,
            weighed=None if weighing is None else weighing.latest,
            gain=None if weighing is None else weighing.gain,
            beyond=self._beyond.counts(now),
            forced_share=self._rules.share.read(self._rules.arrived),
            mixed_s=self._mixed_s,
            curves=None if weighing is None else weighing.curves,
            accept=self._reckoning.accept(now, load),
            lanes=self._roster.views(),
            queued=self.queued,
            experiment=self.experiment,
            prompt_tokens=self._reckoning.prompt_tokens(now),
            alternation=None if self.turns is None else self.turns.view(),
        )

    @property
    def side(self) -> Lane:
        """For new requests, health aside."""
        return self._side

    @property
    def wanted(self) -> Lane:
        """The lane that is to serve, where only one can."""
        lane = self._policy.shadow or self._side
        return lane.other if lane is self._roster.draining else lane

    @property
    def forced(self) -> bool:
        """Whether an operator has the word on the side."""
        return self._mode is not Mode.AUTO

    @property
    def lanes(self) -> dict[Lane, LaneView]:
        return self._roster.views()

    @property
    def switches(self) -> int:
        """Since the start."""
        return self._switches

    @property
    def in_flight(self) -> int:
        """Sequences, both lanes together."""
        return self._ledger.total

    @property
    def carried(self) -> int:
        """Exchanges in hand on both lanes, those that are no load included."""
        return sum(self._roster.carried.values())

    @property
    def unsettled(self) -> bool:
        """Whether a stop now would cut something: exchanges in hand, lanes that are changing."""
        return self.carried > 0 or self._changing

    def disagreement(self) -> Counts:
        """Of each lane, by how much sums of the same thing differ: the ledger's against its
        entries, and those against the exchanges in hand. Anything but 0 is a leak. O(in flight)."""
        counts, again = self._ledger.counts(), self._ledger.recount()

        def of(lane: Lane) -> int:
            carried = self._roster.carried[lane]
            summed = abs(counts.of(lane) - again.sequences.of(lane))
            return summed + max(0, again.entries.of(lane) - carried, -carried)

        return Counts(spec=of(Lane.SPEC), plain=of(Lane.PLAIN))

    @property
    def ready(self) -> bool:
        """Whether some lane is known to serve, and the gate is not about to stop."""
        return (self._roster.ready or self._changing) and not self.stopping

    def _compared(self, now: float) -> float:
        """The load that the policy compares. What is weighed has its own (`core.regret`), behind
        which the average for a threshold would lag."""
        weighing = self._reckoning.weighing
        if weighing is None or self._policy.placement is Placement.SPLIT:
            return self._load.read(now)
        return weighing.latest.load

    def _decision(self, *, arriving: int, now: float) -> Decision:
        switched_at = self._switched_at
        since_switch_s = math.inf if switched_at is None else now - switched_at
        load, weighing = self._load, self._reckoning.weighing
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
            self._trial,
            self._roster.asleep,
        )
        return decide(self._policy, situation)

    @property
    def _changing(self) -> bool:
        return self.turns is not None and self.turns.changing
