"""A lane's health: definite answers move it, slowness does not."""

from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from specgate.core.health import Health, LaneHealth, Sign, step


def after(*signs: Sign) -> Health:
    return reduce(lambda health, sign: step(health, sign, 0.0), signs, LaneHealth()).state


def test_a_lane_that_was_never_up_is_ejected_by_its_first_refusal():
    assert after(Sign.UNREACHED) is Health.EJECTED
    assert after(Sign.NOT_READY) is Health.EJECTED


def test_a_healthy_lane_is_ejected_by_the_second_definite_failure_in_a_row():
    assert after(Sign.READY, Sign.UNREACHED) is Health.HEALTHY
    assert after(Sign.READY, Sign.UNREACHED, Sign.UNREACHED) is Health.EJECTED
    assert after(Sign.READY, Sign.UNREACHED, Sign.READY, Sign.UNREACHED) is Health.HEALTHY
    assert after(Sign.READY, Sign.BROKE) is Health.HEALTHY
    assert after(Sign.READY, Sign.BROKE, Sign.UNREACHED) is Health.EJECTED
    assert after(Sign.READY, Sign.BROKE, Sign.SERVED, Sign.BROKE) is Health.HEALTHY


def test_slowness_is_never_a_verdict():
    assert after(Sign.READY, *[Sign.SLOW] * 100) is Health.HEALTHY
    assert after(*[Sign.SLOW] * 100) is Health.PROBING


def test_traffic_disproves_unreached_but_not_the_engine_s_own_word():
    served = Sign.SERVED
    assert after(Sign.READY, Sign.UNREACHED, served, Sign.UNREACHED, served) is Health.HEALTHY
    assert after(Sign.READY, Sign.NOT_READY, served, Sign.NOT_READY) is Health.EJECTED


def test_traffic_does_not_end_an_ejection():
    assert after(Sign.UNREACHED, Sign.SERVED) is Health.EJECTED
    assert after(Sign.UNREACHED, Sign.READY) is Health.HEALTHY


def test_the_moment_of_a_change_is_kept():
    health = step(LaneHealth(), Sign.READY, 5.0)
    assert step(health, Sign.READY, 9.0).since == 5.0
    assert step(step(health, Sign.NOT_READY, 9.0), Sign.NOT_READY, 10.0).since == 10.0


@given(st.lists(st.sampled_from(Sign)))
def test_an_ejection_always_ends_with_an_answer(signs):
    assert after(*signs, Sign.READY) is Health.HEALTHY
