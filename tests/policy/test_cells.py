"""A few of the cells that the policy is judged by; `python -m tests.policy.cells` has them all.

Virtual time and fixed draws: the same figures each time, on any machine.
"""

import pytest

from tests.policy.cells import Cell, measure

CTX10K = "k26-int4-8xrtxpro6000-vllm-ctx10k"


@pytest.mark.parametrize(
    ("traffic", "load", "contention"),
    [("trace", 0.3, 0.0), ("ramp", 0.85, 0.2), ("diurnal", 0.85, 0.4)],
)
def test_the_gate_is_no_worse_than_the_better_lane(traffic, load, contention):
    row = measure(Cell(CTX10K, traffic, load, contention), seed=7)
    assert row.over_better <= 1.05
    assert row.switches_per_h <= 12


def test_where_speculation_never_pays_the_gate_is_the_plain_lane():
    row = measure(Cell("reference", "constant", 0.85, 0.2), seed=7)
    assert row.policy == row.all_plain
    assert row.policy < row.all_spec
