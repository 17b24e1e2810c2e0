"""The reference measurement again, without sockets: simulated lanes on a virtual clock, and the
bench's own window, figures and verdict."""

import pytest

from specgate.bench.alarms import little
from specgate.bench.analyse import analyse
from specgate.bench.plan import LEVELS, Plan
from specgate.bench.samples import Loop, Sample, cell_of
from specgate.core.cells import Cell
from specgate.core.lanes import Lane
from specgate.core.profile import dumps, loads
from specgate.core.shape import Shape, Standing
from specgate.core.threshold import threshold_and_band
from specgate.sim.profiles import load_profile
from specgate.sim.virtual import closed_loop

REFERENCE = load_profile("reference")
MAX_TOKENS = 512
REPEATS = 2


def loop_of(lane: Lane, concurrency: int, *, plan: Plan, seed: int) -> Loop:
    """What the bench's loop would have seen: every request, and the window in which all C fly."""
    sent = plan.sent(concurrency)
    found = closed_loop(
        REFERENCE,
        {lane: concurrency},
        requests=sent,
        warm_up=0,
        max_tokens=MAX_TOKENS,
        seed=seed,
    )[lane]
    samples = tuple(
        Sample(
            index=index,
            prompt_class="mix",
            sent_at=record.sent_at,
            first_output_at=record.first_token_at,
            ended_at=record.ended_at,
            tokens=record.output_tokens,
        )
        for index, record in enumerate(found.records)
    )
    first = plan.warming(concurrency)
    beyond = sent - concurrency + 1
    return Loop(
        samples=samples,
        counted=(first, beyond),
        begin=samples[first - 1].ended_at,
        end=samples[beyond - 1].ended_at,
        client_busy=0.0,
        void=None,
    )


def measured(concurrency: int, repeats: int = REPEATS) -> list[Cell]:
    plan = Plan(arms=tuple(Lane))
    return [
        cell_of(
            loop_of(lane, concurrency, plan=plan, seed=repeat),
            arm=lane.value,
            concurrency=concurrency,
            context=None,
            max_tokens=MAX_TOKENS,
            repeat=repeat,
            order=order,
            paired=True,
            accept_length=None,
        )
        for repeat in range(repeats)
        for order, lane in enumerate(Lane)
    ]


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    return [cell for concurrency in LEVELS for cell in measured(concurrency)]


def test_the_levels_are_those_of_the_reference():
    assert LEVELS == REFERENCE.concurrency == (1, 2, 5, 10, 30, 70, 100, 250)


@pytest.mark.parametrize("lane", list(Lane))
@pytest.mark.parametrize("concurrency", LEVELS)
def test_each_lane_is_within_five_percent_of_the_reference(cells, lane, concurrency):
    expected = REFERENCE.measured[lane][LEVELS.index(concurrency)]
    found = [c.tok_s for c in cells if (c.arm, c.concurrency) == (lane.value, concurrency)]
    assert len(found) == REPEATS
    assert sum(found) / len(found) == pytest.approx(expected, rel=0.05)


def test_its_verdict_is_never_at_every_level(cells):
    profile = analyse(cells)
    assert profile.verdict.shape is Shape.NEVER
    assert [level.concurrency for level in profile.levels] == list(LEVELS)
    assert {level.standing for level in profile.levels} == {Standing.LOSE}
    assert profile.verdict.p_never == 1.0
    assert profile.verdict.pays == ()
    assert threshold_and_band(profile).threshold == 0.0
    assert loads(dumps(profile)) == profile


def test_littles_law_holds_at_every_level(cells):
    """The bench's own check finds nothing in figures that must obey it."""
    assert little(cells) == []
