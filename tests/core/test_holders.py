"""The bounded, expiring map."""

import sys

from specgate.core.holders import Holders
from specgate.core.lanes import Lane
from specgate.core.rules import HELD_MOST, Rules, RulesConfig


def test_a_key_is_held_until_it_is_told_otherwise():
    held = Holders(most=10, keep_s=60)
    held.hold("a", Lane.SPEC, 0)
    held.hold("b", Lane.PLAIN, 0)
    assert (held.of("a", 1), held.of("b", 1), held.of("c", 1)) == (Lane.SPEC, Lane.PLAIN, None)
    held.hold("a", Lane.PLAIN, 2)
    assert held.of("a", 2) is Lane.PLAIN


def test_it_expires_after_its_last_use():
    held = Holders(most=10, keep_s=60)
    held.hold("a", Lane.SPEC, 0)
    held.hold("b", Lane.SPEC, 0)
    assert held.of("a", 50) is Lane.SPEC  # asking is a use
    assert (held.of("a", 100), held.of("b", 100)) == (Lane.SPEC, None)
    assert held.of("a", 161) is None
    assert len(held) == 0


def test_beyond_its_size_the_least_recently_used_goes():
    held = Holders(most=2, keep_s=60)
    held.hold("a", Lane.SPEC, 0)
    held.hold("b", Lane.SPEC, 1)
    held.of("a", 2)
    held.hold("c", Lane.SPEC, 3)
    assert [held.of(key, 4) for key in "abc"] == [Lane.SPEC, None, Lane.SPEC]


def test_a_hundred_thousand_ids_leave_the_bound():
    rules = Rules(RulesConfig())
    for number in range(100_000):
        rules.learn(f"resp_{number:032x}", Lane.SPEC, number / 1000)
    assert len(rules._held) == HELD_MOST
    assert rules.held(f"resp_{99_999:032x}", 100) is not None
    assert rules.held(f"resp_{0:032x}", 100) is None
    size = sum(
        sys.getsizeof(key) + sys.getsizeof(value) for key, value in rules._held._held.items()
    )
    assert size + sys.getsizeof(rules._held._held) < 32 << 20


def test_what_a_lane_held_goes_with_its_engine():
    held = Holders(most=10, keep_s=60)
    held.hold("a", Lane.SPEC, 0)
    held.hold("b", Lane.PLAIN, 0)
    held.forget(Lane.SPEC)
    assert (held.of("a", 1), held.of("b", 1)) == (None, Lane.PLAIN)
