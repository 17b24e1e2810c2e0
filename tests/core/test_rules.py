"""The rules in their order, without a socket: `core.rules` says what they are."""

import math
from dataclasses import replace

import pytest

from specgate.core.config import ALWAYS, NEVER, Placement, PolicyConfig
from specgate.core.forced import ForcedShare
from specgate.core.lanes import Lane
from specgate.core.policy import Decision, Mode, Reason, Situation, decide
from specgate.core.rules import Asked, Effect, Rules, RulesConfig, rerouted

SPEC, PLAIN = Lane.SPEC, Lane.PLAIN
BOTH = frozenset(Lane)
EFFECTS = {"min_p": Effect.CHANGES, "beam_width": Effect.REFUSES}
BY_SPEC = Decision(SPEC, Reason.PAYS, SPEC, Reason.PAYS)
BY_PLAIN = Decision(PLAIN, Reason.COSTS, PLAIN, Reason.COSTS)


def made(**config) -> Rules:
    return Rules(RulesConfig(**config))


def over(rules, asked, decision=BY_SPEC, usable=BOTH, *, now=1.0, forced=False, **more):
    more = {"sequences": 1, **more}
    made = rules.over(asked, decision, usable, EFFECTS, now, forced=forced, **more)
    assert (made.side, made.side_reason) == (decision.side, decision.side_reason)
    return made.lane, made.reason


def test_what_no_rule_knows_follows_the_policy():
    for decision in (BY_SPEC, BY_PLAIN):
        for asked in (Asked(), Asked(features=("logprobs",)), Asked(state="x")):
            assert over(made(), asked, decision) == (decision.lane, decision.reason)


@pytest.mark.parametrize("decision", [BY_SPEC, BY_PLAIN])
@pytest.mark.parametrize(
    ("features", "reason"),
    [
        (("min_p",), Reason.SPEC_CHANGES),
        (("beam_width",), Reason.SPEC_REFUSES),
        (("min_p", "beam_width", "logprobs"), Reason.SPEC_REFUSES),
    ],
)
def test_features_go_to_plain_whatever_the_side(decision, features, reason):
    assert over(made(), Asked(features=features), decision) == (PLAIN, reason)
    off = made(features=False)
    assert over(off, Asked(features=features), decision) == (decision.lane, decision.reason)


def everything(rules: Rules) -> Asked:
    """A request that every rule has something to say of, and they differ."""
    rules.learn("x", SPEC, 0.0)
    return Asked(features=("min_p",), lane=SPEC, state="x", conversation=b"c")


def test_the_order():
    rules = made(sticky_s=60)
    asked = everything(rules)
    assert over(rules, asked, BY_PLAIN) == (SPEC, Reason.HELD)
    assert over(rules, asked, BY_PLAIN, forced=True) == (SPEC, Reason.HELD)
    asked = asked._replace(state="unknown")
    assert over(rules, asked, BY_PLAIN, forced=True) == (PLAIN, Reason.COSTS)
    assert over(rules, asked, BY_PLAIN) == (SPEC, Reason.REQUESTED)
    asked = asked._replace(lane=None)
    assert over(rules, asked) == (PLAIN, Reason.SPEC_CHANGES)
    asked = asked._replace(features=())
    assert over(rules, asked) == (PLAIN, Reason.STICKY)
    assert over(rules, asked._replace(conversation=b"d")) == (SPEC, Reason.PAYS)


def test_calls_that_decode_nothing_know_two_rules():
    rules = made(sticky_s=60)
    asked = everything(rules)
    idle = Decision(PLAIN, Reason.NOT_GENERATION, SPEC, Reason.PAYS)
    assert rules.over_unloaded(asked, idle, BOTH, 1.0)[:2] == (SPEC, Reason.HELD)
    assert rules.over_unloaded(Asked(lane=SPEC), idle, BOTH, 1.0)[:2] == (SPEC, Reason.REQUESTED)
    assert rules.over_unloaded(Asked(("min_p",)), idle, BOTH, 1.0) == idle


@pytest.mark.parametrize(
    ("asked", "without", "with_none"),
    [
        (Asked(features=("min_p",)), (SPEC, Reason.DESPITE_RULE), (PLAIN, Reason.LAST_RESORT)),
        (Asked(lane=PLAIN), (SPEC, Reason.LANE_DOWN), (PLAIN, Reason.LAST_RESORT)),
        (Asked(state="x"), (PLAIN, Reason.HELD), (PLAIN, Reason.HELD)),
    ],
)
def test_health_comes_last(asked, without, with_none):
    rules = made()
    rules.learn("x", PLAIN, 0.0)
    assert over(rules, asked, usable=frozenset({SPEC})) == without
    assert over(rules, asked, usable=frozenset()) == with_none


def test_a_reroute_says_so_and_whether_a_rule_was_broken():
    ruled = Decision(PLAIN, Reason.SPEC_CHANGES, SPEC, Reason.PAYS)
    assert rerouted(ruled, PLAIN)[:2] == (SPEC, Reason.DESPITE_RULE)
    assert rerouted(ruled._replace(lane=SPEC, reason=Reason.DESPITE_RULE), PLAIN)[:2] == (
        SPEC,
        Reason.DESPITE_RULE,
    )
    assert rerouted(ruled, SPEC)[:2] == (PLAIN, Reason.REROUTED)
    assert rerouted(BY_SPEC, SPEC)[:2] == (PLAIN, Reason.REROUTED)


def test_a_conversation_stays_for_so_long_after_its_last_request():
    rules = made(sticky_s=60)
    asked = Asked(conversation=b"c")
    assert over(rules, asked, BY_SPEC, now=0) == (SPEC, Reason.PAYS)
    assert over(rules, asked, BY_PLAIN, now=59) == (SPEC, Reason.STICKY)
    assert over(rules, asked, BY_PLAIN, now=118) == (SPEC, Reason.STICKY)
    assert over(rules, asked, BY_PLAIN, now=179) == (PLAIN, Reason.COSTS)
    assert over(rules, asked, BY_SPEC, now=180) == (PLAIN, Reason.STICKY)
    only_spec = frozenset({SPEC})
    assert over(rules, asked, BY_SPEC, only_spec, now=181) == (SPEC, Reason.LANE_DOWN)
    # It moved, and so did what is cached of it.
    assert over(rules, asked, BY_PLAIN, now=182) == (SPEC, Reason.STICKY)
    rules.moved(SPEC)
    assert over(rules, asked, BY_PLAIN, now=183) == (PLAIN, Reason.COSTS)


def test_a_conversation_is_where_its_request_went_in_the_end():
    rules = made(sticky_s=60)
    asked = Asked(conversation=b"c")
    assert over(rules, asked, BY_SPEC, avoid=SPEC) == (PLAIN, Reason.REROUTED)
    assert over(rules, asked, BY_SPEC) == (PLAIN, Reason.STICKY)


def share_of(forced_in_ten: int, sequences: int, share: ForcedShare, total: int = 0) -> int:
    """So many requests of one sequence; the total after them."""
    for number in range(sequences):
        total += 1
        if number % 10 < forced_in_ten:
            share.forced(1, total)
    share.read(total)
    return total


def test_the_share_of_forced_sequences_and_its_two_edges():
    share = ForcedShare(0.3)
    total = share_of(2, 2000, share)
    assert not share.over
    assert share.read(total) == pytest.approx(0.2, abs=0.02)
    total = share_of(5, 2000, share, total)
    assert share.over
    total = share_of(2, 10, share, total)
    assert share.over  # not at once
    total = share_of(2, 2000, share, total)
    assert not share.over
    assert not share.read(total + 10**6) > 0


def test_between_the_edges_the_side_stays():
    share = ForcedShare(0.3)
    total = share_of(10, 100, share)
    assert share.over
    for _ in range(50):
        total = share_of(3, 100, share, total)
        assert share.over
    share = ForcedShare(0.31)
    total = share_of(2, 1000, share)
    for _ in range(50):
        total = share_of(2, 100, share, total)
        assert not share.over


def test_a_few_forced_requests_after_a_start_move_nothing():
    share = ForcedShare(0.3)
    share_of(10, 50, share)
    assert not share.over


def test_without_a_limit_it_is_never_over():
    share = ForcedShare(None)
    total = share_of(10, 5000, share)
    assert not share.over
    assert share.read(total) == pytest.approx(1.0)


def test_a_share_that_is_over_keeps_the_policy_from_the_spec_side():
    always = PolicyConfig(threshold=ALWAYS)
    now = Situation(Mode.AUTO, SPEC, math.inf, 0, 1, 0.0, BOTH, forced=True)
    assert decide(always, now)[2:] == (PLAIN, Reason.FORCED_SHARE)
    assert decide(always, now._replace(mode=Mode.SPEC))[2:] == (SPEC, Reason.FORCED)
    split = replace(always, placement=Placement.SPLIT)
    assert decide(split, now)[2:] == (SPEC, Reason.ALWAYS)
    never = PolicyConfig(threshold=NEVER)
    assert decide(never, now)[2:] == (PLAIN, Reason.NEVER)


def test_rules_count_what_must_go_to_plain_once_and_only_that():
    rules = made()
    for _ in range(3):
        rules.arrived += 100
        over(rules, Asked(features=("min_p",)), sequences=100)
        over(rules, Asked(features=("min_p",)), sequences=100, avoid=PLAIN)
    assert rules.share.over
    assert rules.share.read(300) == pytest.approx(0.78, abs=0.01)
    rules = made()
    for _ in range(300):
        rules.arrived += 1
        over(rules, Asked(lane=PLAIN))
    assert rules.share.read(300) == 0.0
