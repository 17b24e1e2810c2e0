"""Rules by request: what in a request itself says which lane it must go to, whatever the load.

Pure. In this order, the first that applies is the request's wish:

1. `held`: the request refers to what one lane's engine holds: a session, a stored response. Nowhere
   else can it be served.
2. A shadow, and then a forced mode, are the operator's word: no rule below speaks against them.
3. `requested`: the client named a lane in `x-specgate-lane`, where that is allowed.
4. `spec_refuses`, `spec_changes`: the request has a feature that the spec lane's engine refuses
   under speculation, or serves otherwise than it was asked to without saying so: plain. What each
   engine does is in `engines.features`.
5. `sticky`: the conversation was served on a lane a short while ago, where its prefix is cached.

Without a wish the policy's choice holds. With one:

6. The lane is the one that is wished for. If it is ejected and the other is not, the other serves
   (`lane_down`): an answer is better than none. Where it was 4 that wished for the plain lane, the
   reason says so (`despite_rule`): the engine may refuse the request, or serve it in its own way.
   Where it was 1, no other lane will do: the one that holds it is asked all the same.
7. A request whose lane takes no connection goes to the other, with the same exceptions.

Calls that decode nothing know 1 and 3 only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from specgate.core.forced import ForcedShare
from specgate.core.holders import Holders
from specgate.core.label import Label
from specgate.core.lanes import Lane
from specgate.core.policy import Decision, Reason

HELD_MOST = 65_536
"""Ids of sessions and stored responses that are kept, about 15 MB of them."""

HELD_S = 24 * 3600.0
"""How long after its last use: no engine says when it forgets."""

CONVERSATIONS_MOST = 65_536


class Effect(Label):
    """What speculation does to a feature of a request."""

    CHANGES = "changes"
    REFUSES = "refuses"


class Asked(NamedTuple):
    """What of a request the rules look at.

    features: names of the fields, none of them neutral. lane: the one that the client named.
    state: the id of what an engine holds. conversation: a hash, where conversations are kept.
    """

    features: tuple[str, ...] = ()
    lane: Lane | None = None
    state: str | None = None
    conversation: bytes | None = None


class Wish(NamedTuple):
    """A lane and why."""

    lane: Lane
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesConfig:
    """features: whether rule 4 holds. sticky_s: seconds of rule 5, None: it does not hold.
    forced_share: above it the whole side is plain (`core.policy`); None: never."""

    features: bool = True
    sticky_s: float | None = None
    forced_share: float | None = 0.3


class Rules:
    """The rules, and what they remember. `now`: monotonic seconds."""

    def __init__(self, config: RulesConfig) -> None:
        self.config = config
        self.share = ForcedShare(config.forced_share)
        self.arrived = 0
        """Sequences that came; the gate counts them."""
        self._held = Holders(most=HELD_MOST, keep_s=HELD_S)
        sticky_s = config.sticky_s
        self._conversations = (
            None if sticky_s is None else Holders(most=CONVERSATIONS_MOST, keep_s=sticky_s)
        )

    def held(self, state: str | None, now: float) -> Wish | None:
        """Rule 1."""
        lane = None if state is None else self._held.of(state, now)
        return None if lane is None else Wish(lane, Reason.HELD)

    def over(
        self,
        asked: Asked,
        decision: Decision,
        usable: frozenset[Lane],
        effects: Mapping[str, Effect],
        now: float,
        *,
        forced: bool,
        sequences: int,
        avoid: Lane | None = None,
    ) -> Decision:
        """All rules over the policy's decision. effects: the spec lane's engine's, by the feature's
        name. forced: rule 2 holds. avoid: the lane that did not take the request just now."""
        rule = self._features(asked, effects)
        if rule is not None and avoid is None:
            self.share.forced(sequences, self.arrived)
        wish = self.held(asked.state, now)
        if wish is None and not forced:
            wish = requested(asked) or rule or self._sticky(asked, now)
        if wish is not None:
            decision = granted(wish, decision, usable)
        if avoid is not None:
            decision = rerouted(decision, avoid)
        if self._conversations is not None and asked.conversation is not None:
            self._conversations.hold(asked.conversation, decision.lane, now)
        return decision

    def over_unloaded(
        self, asked: Asked, decision: Decision, usable: frozenset[Lane], now: float
    ) -> Decision:
        """The rules that a call knows which decodes nothing."""
        wish = self.held(asked.state, now) or requested(asked)
        return decision if wish is None else granted(wish, decision, usable)

    def _features(self, asked: Asked, effects: Mapping[str, Effect]) -> Wish | None:
        """Rule 4."""
        if not asked.features or not self.config.features:
            return None
        found = {effects[name] for name in asked.features if name in effects}
        if not found:
            return None
        refuses = Effect.REFUSES in found
        return Wish(Lane.PLAIN, Reason.SPEC_REFUSES if refuses else Reason.SPEC_CHANGES)

    def _sticky(self, asked: Asked, now: float) -> Wish | None:
        """Rule 5."""
        if self._conversations is None or asked.conversation is None:
            return None
        lane = self._conversations.of(asked.conversation, now)
        return None if lane is None else Wish(lane, Reason.STICKY)

    def learn(self, state: str, lane: Lane, now: float) -> None:
        """A lane's engine said that it holds this."""
        self._held.hold(state, lane, now)

    def moved(self, lane: Lane) -> None:
        """Another engine is in the lane."""
        self._held.forget(lane)
        if self._conversations is not None:
            self._conversations.forget(lane)


def requested(asked: Asked) -> Wish | None:
    """Rule 3."""
    return None if asked.lane is None else Wish(asked.lane, Reason.REQUESTED)


_FEATURES = frozenset({Reason.SPEC_REFUSES, Reason.SPEC_CHANGES, Reason.DESPITE_RULE})


def granted(wish: Wish, decision: Decision, usable: frozenset[Lane]) -> Decision:
    """Rule 6: the policy's decision with the wish in its place."""
    lane, reason = wish
    if lane not in usable and reason is not Reason.HELD:
        if lane.other not in usable:
            reason = Reason.LAST_RESORT
        else:
            lane = lane.other
            reason = Reason.DESPITE_RULE if reason in _FEATURES else Reason.LANE_DOWN
    return decision._replace(lane=lane, reason=reason)


def rerouted(decision: Decision, avoid: Lane) -> Decision:
    """Rule 7: the decision for a request that `avoid` did not take."""
    despite = decision.reason in _FEATURES and avoid is Lane.PLAIN
    reason = Reason.DESPITE_RULE if despite else Reason.REROUTED
    return decision._replace(lane=avoid.other, reason=reason)
