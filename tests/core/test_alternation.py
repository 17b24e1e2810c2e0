"""Lanes in turn, as far as core knows them: the pause after failures; who sleeps gets nothing."""

import itertools
import math

import pytest

from specgate.core.alternation import Backoff
from specgate.core.config import ALWAYS, NEVER, Placement, PolicyConfig
from specgate.core.lanes import Lane
from specgate.core.outlook import outlook
from specgate.core.policy import Mode, Reason, Situation, decide
from tests.support.views import a_view

SPEC, PLAIN = Lane.SPEC, Lane.PLAIN


def test_a_pause_doubles_up_to_its_most_and_begins_anew_once_it_worked():
    pause = Backoff(2.0, 10.0)
    assert pause.left_s(0.0) == 0.0
    lengths = []
    for now in (0.0, 100.0, 200.0, 300.0):
        pause.failed(now)
        lengths.append(pause.left_s(now))
    assert lengths == [2.0, 4.0, 8.0, 10.0]
    assert pause.left_s(305.0) == 5.0
    assert pause.left_s(400.0) == 0.0
    pause.failed(500.0)
    pause.over()
    assert pause.left_s(500.0) == 0.0
    pause.failed(500.0)
    assert pause.left_s(500.0) == 10.0
    pause.clear()
    assert pause.left_s(500.0) == 0.0
    pause.failed(600.0)
    assert pause.left_s(600.0) == 2.0


def situation(**changed: object) -> Situation:
    given = {
        "mode": Mode.AUTO,
        "side": PLAIN,
        "since_switch_s": math.inf,
        "in_flight": 0,
        "arriving": 1,
        "smoothed": 0.0,
        "usable": frozenset(Lane),
        **changed,
    }
    return Situation(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asleep", "usable", "draining", "found"),
    [
        ({SPEC}, {PLAIN}, None, (PLAIN, Reason.ASLEEP)),
        ({PLAIN}, {SPEC}, None, (SPEC, Reason.ALWAYS)),
        # The one that is awake is down, or drains: it is all there is.
        ({SPEC}, set(), None, (PLAIN, Reason.ASLEEP)),
        ({SPEC}, set(), PLAIN, (PLAIN, Reason.ASLEEP)),
        ({PLAIN}, set(), None, (SPEC, Reason.LAST_RESORT)),
        ({PLAIN}, set(), SPEC, (SPEC, Reason.LAST_RESORT)),
    ],
)
def test_a_lane_that_sleeps_gets_nothing(asleep, usable, draining, found):
    config = PolicyConfig(threshold=ALWAYS, placement=Placement.ALTERNATE)
    now = situation(asleep=frozenset(asleep), usable=frozenset(usable), draining=draining)
    decision = decide(config, now)
    assert (decision.lane, decision.reason) == found
    assert decision.side is SPEC


def test_the_side_is_that_of_a_shared_pool():
    loads, sides = (0, 3, 7, 9, 20), tuple(Lane)
    for load, side, forced in itertools.product(loads, sides, (False, True)):
        now = situation(side=side, in_flight=load, smoothed=float(load), forced=forced)
        both = (
            decide(PolicyConfig(threshold=8.0, placement=placement), now)
            for placement in (Placement.SHARED, Placement.ALTERNATE)
        )
        assert len(set(both)) == 1


def test_the_outlook_is_that_of_a_shared_pool():
    for threshold in (NEVER, 8.0, ALWAYS):
        shared, alternate = (
            outlook(a_view(policy=PolicyConfig(threshold=threshold, placement=placement)))
            for placement in (Placement.SHARED, Placement.ALTERNATE)
        )
        assert shared == alternate
