"""The break-even accept length."""

import pytest

from specgate.core.breakeven import break_even


def test_it_is_the_measured_length_over_the_ratio():
    # The reference deployment at 30 in flight: 2.2 tokens a step, 299.5 against 711 tok/s.
    found = break_even(2.2, spec_tok_s=299.5, plain_tok_s=711.0, steps=None)
    assert found.accept_length == pytest.approx(5.22, abs=0.01)
    assert found.alarm is None


def test_above_steps_and_one_nothing_can_make_it_pay():
    found = break_even(2.2, spec_tok_s=299.5, plain_tok_s=711.0, steps=2)
    assert found.alarm is not None
    assert "above 3" in found.alarm
    assert break_even(2.2, spec_tok_s=77.5, plain_tok_s=92.6, steps=2).alarm is None


def test_below_one_the_plain_arm_is_suspect():
    found = break_even(1.8, spec_tok_s=400.0, plain_tok_s=100.0, steps=3)
    assert found.alarm is not None
    assert "below 1" in found.alarm
