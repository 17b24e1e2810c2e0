"""Curves moved by the live accept length."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgate.core.accept import Counted
from specgate.core.adaptive import Adaptive, adaptive_of
from specgate.core.breakeven import break_even
from specgate.core.curves import Curve, Curves

LOADS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
PLAIN = (85.0, 141.0, 219.0, 318.0, 429.0, 700.0, 1018.0)
LEADS = (1.9, 1.8, 1.7, 1.5, 1.2, 0.9, 0.7)


def curves(*, steps: int | None = 3, leads: tuple[float, ...] = LEADS) -> Curves:
    spec = tuple(lead * plain for lead, plain in zip(leads, PLAIN, strict=True))
    return Curves(
        spec=Curve(LOADS, spec),
        plain=Curve(LOADS, PLAIN),
        accept_length=2.5,
        steps=steps,
        output_tokens=200.0,
    )


def after(adaptive: Adaptive, length: float, *, requests: int = 40) -> float:
    for count in range(requests + 1):
        adaptive.saw(Counted(200.0 * count, 200.0 * count / length, float(count)), float(count))
    return float(requests)


def edge(found: Curves) -> float:
    return found.paying[-1][1]


def test_the_edge_follows():
    base = curves()
    better, worse = Adaptive(base), Adaptive(base)
    assert better.curves(0) is base
    wide, narrow = (better.curves(after(better, 3.0)), worse.curves(after(worse, 1.9)))
    assert edge(wide) == pytest.approx(edge(base.scaled(1.2)), rel=0.05)
    assert edge(narrow) == pytest.approx(edge(base.scaled(0.76)), rel=0.05)
    assert edge(narrow) < edge(base) < edge(wide)


def test_noise_moves_nothing():
    adaptive = Adaptive(curves())
    now = after(adaptive, 2.5)
    same = adaptive.curves(now)
    adaptive.saw(Counted(8200.0, 3200 + 200 / 2.2, 41.0), now + 1)
    assert adaptive.estimate(now + 1).factor != 1.0
    assert adaptive.curves(now + 1) is same


def test_unseen_the_profile_s_own_curves_come_back():
    base = curves()
    adaptive = Adaptive(base)
    now = after(adaptive, 1.3)
    assert adaptive.curves(now) != base
    assert edge(adaptive.curves(now + 3600)) == edge(base)


def test_another_profile_of_the_same_lane_keeps_what_was_seen():
    adaptive = Adaptive(curves())
    now = after(adaptive, 1.5)
    before = adaptive.estimate(now)
    adaptive.use(curves(leads=(1.5, 1.4, 1.3, 1.2, 1.1, 0.9, 0.7)))
    assert adaptive.estimate(now) == before
    assert adaptive.curves(now).spec.tok_s[0] == pytest.approx(85 * 1.5 * 0.6, rel=0.05)
    adaptive.use(curves(steps=4))
    assert adaptive.estimate(now).age_s is None


def test_a_measurement_without_accept_length_cannot_be_followed():
    bare = Curves(spec=Curve(LOADS, PLAIN), plain=Curve(LOADS, PLAIN))
    assert adaptive_of(bare) is None
    assert adaptive_of(None) is None


def test_break_even_is_the_bench_s():
    adaptive = Adaptive(curves())
    for load, plain, lead in zip(LOADS, PLAIN, LEADS, strict=True):
        told = break_even(2.5, spec_tok_s=plain * lead, plain_tok_s=plain, steps=3)
        assert adaptive.break_even(load) == pytest.approx(told.accept_length)
    assert adaptive.break_even(0.0) == adaptive.break_even(1.0)


@given(
    st.lists(
        st.builds(
            Counted,
            st.floats(0, 1e5) | st.floats(),
            st.floats(0, 1e5) | st.floats() | st.none(),
            st.none(),
            st.floats() | st.none(),
        ),
        max_size=20,
    ),
    st.integers(1, 5),
)
def test_where_break_even_is_above_steps_and_one_no_reading_makes_speculation_pay(seen, steps):
    base = curves(steps=steps)
    adaptive = Adaptive(base)
    never = [load for load in LOADS if adaptive.break_even(load) > steps + 1]
    for count, reading in enumerate(seen):
        adaptive.saw(reading, 5.0 * count)
        found = adaptive.curves(5.0 * count)
        for load in never:
            assert math.log(found.spec.rate(load) / found.plain.rate(load)) < 1e-9


def test_curves_of_another_prompt_length_keep_what_was_seen():
    """The engine's accept length is what it is, whatever it is held against."""
    base = curves()
    assert base.accept_length is not None
    adaptive = Adaptive(base)
    now = after(adaptive, 1.5)
    before = adaptive.estimate(now)
    longer = replace(base, accept_length=base.accept_length * 0.8)
    adaptive.use(longer)
    found = adaptive.estimate(now)
    assert found.accept_length == pytest.approx(before.accept_length, rel=0.05)
    assert found.factor == pytest.approx(before.factor / 0.8, rel=0.05)
    assert found.age_s == before.age_s
