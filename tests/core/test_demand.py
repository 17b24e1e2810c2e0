"""What is offered, and how much work a sequence is, from comings and goings alone."""

import pytest

from specgate.core.curves import Curve, Curves
from specgate.core.demand import Demand, Mark
from specgate.core.lanes import Lane
from specgate.replay.pool import Pool

FLAT = Curves(
    spec=Curve((1.0, 100.0), (50.0, 5000.0)),
    plain=Curve((1.0, 100.0), (40.0, 4000.0)),
    output_tokens=200.0,
)


def served(lane: Lane, *, tokens: float, every_s: float, count: int) -> tuple[Demand, float]:
    """Requests of `tokens` each, one after another in time, on a lane that is what it says."""
    demand, pool = Demand(FLAT, 0.0), Pool(FLAT)
    marks: dict[int, Mark] = {}
    now, sent = 0.0, 0
    while sent < count:
        at = sent * every_s
        while pool.next_at() <= at:
            pool.advance(pool.next_at())
            ended = pool.pop()
            if not ended.first:
                demand.left(marks.pop(ended.number), ended.at)
        pool.advance(at)
        now = at
        pool.submit(lane, sent, tokens)
        marks[sent] = demand.arrived(lane, 1, now)
        sent += 1
    return demand, now


@pytest.mark.parametrize("lane", list(Lane))
def test_work_and_duration_are_found_whatever_the_measurement_had(lane):
    demand, _ = served(lane, tokens=500.0, every_s=2.0, count=400)
    assert demand.work == pytest.approx(500, rel=0.02)
    assert demand.duration_s == pytest.approx(500 / FLAT.of(lane).each(1), rel=0.02)


def test_offered_is_the_same_on_either_lane():
    for lane in Lane:
        demand, now = served(lane, tokens=500.0, every_s=2.0, count=400)
        assert demand.offered(now) == pytest.approx(250, rel=0.15)


def test_before_anything_ended_the_measurement_says_how_much_work_a_sequence_is():
    demand = Demand(FLAT, 0.0)
    for second in range(40):
        demand.arrived(Lane.SPEC, 1, float(second))
    assert demand.offered(40.0) == pytest.approx(200, rel=0.2)


def test_without_arrivals_it_fades():
    demand, now = served(Lane.SPEC, tokens=500.0, every_s=2.0, count=400)
    before = demand.offered(now)
    assert demand.offered(now + 5 * demand.duration_s) < before / 4
    assert demand.offered(now + 500 * demand.duration_s) < 1e-6


def test_work_is_not_learnt_while_both_lanes_work():
    demand = Demand(FLAT, 0.0)
    before = demand.work
    one = demand.arrived(Lane.SPEC, 1, 0.0)
    two = demand.arrived(Lane.PLAIN, 1, 1.0)
    demand.left(one, 50.0)
    demand.left(two, 60.0)
    assert demand.work == before
    assert demand.duration_s > 5.0


def test_a_mark_of_another_demand_is_nobodys():
    old, new = Demand(FLAT, 0.0), Demand(FLAT, 5.0)
    mark = old.arrived(Lane.SPEC, 1, 0.0)
    new.left(mark, 10.0)
    assert new.work == FLAT.output_tokens
    alone = new.arrived(Lane.SPEC, 1, 10.0)
    new.left(alone, 14.0)
    assert new.work > FLAT.output_tokens * 0.9


def test_a_batch_counts_with_all_its_sequences():
    demand = Demand(FLAT, 0.0)
    for second in range(100):
        demand.left(demand.arrived(Lane.PLAIN, 4, float(second)), second + 0.5)
    one = Demand(FLAT, 0.0)
    for second in range(100):
        one.left(one.arrived(Lane.PLAIN, 1, float(second)), second + 0.5)
    per_sequence = demand.offered(100.0) / demand.work
    assert per_sequence == pytest.approx(4 * one.offered(100.0) / one.work, rel=0.01)
