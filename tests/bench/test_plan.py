"""What is measured, in which order; where the next block goes. No I/O."""

import math

import pytest

from specgate.bench.plan import Block, Group, Pace, Plan
from specgate.bench.progress import duration
from specgate.bench.spend import Done, next_block, thinned
from specgate.core.cells import Cell, Spread

GROUP = Group(context=None, max_tokens=64)
PAIR = ("spec", "plain")


def cell(arm: str, block: Block, tok_s: float) -> Cell:
    spread = Spread(mean=1.0, p50=1.0, p90=1.0, p99=1.0)
    return Cell(
        arm=arm,
        concurrency=block.concurrency,
        context=block.group.context,
        max_tokens=block.group.max_tokens,
        repeat=block.repeat,
        order=0,
        paired=True,
        requests=40,
        window_s=10.0,
        tok_s=tok_s,
        tok_s_per_request=tok_s / block.concurrency,
        ttft_s=None,
        tpot_s=None,
        e2e_s=spread,
        slo_goodput=None,
        accept_length=None,
        by_class={},
        void=None,
    )


def plan(**fields) -> Plan:
    return Plan(**{"arms": PAIR, "levels": (1, 4, 16, 64), "max_tokens": (64,), **fields})


def spent(plan: Plan, ratio, *, left_out=(), most=200) -> list[Block]:
    """The blocks that are measured until nothing more is worth it, when spec over plain is
    `ratio(concurrency, repeat)`."""
    cells: dict[tuple[str, Block], Cell] = {}
    order: list[Block] = []
    while len(order) < most:
        done = Done(cells=cells, closed=())
        block = next_block(plan, done, left_out=left_out, margin=0.03, adaptive=True)
        if block is None:
            return order
        order.append(block)
        base = 100.0 * block.concurrency**0.7
        for arm in plan.arms:
            factor = 1.0 if arm == "plain" else ratio(block.concurrency, block.repeat)
            cells[arm, block] = cell(arm, block, base * factor)
    raise AssertionError("it never ends")


def test_the_arms_of_a_level_turn_around_with_each_repeat():
    blocks = list(plan(levels=(1, 2), repeats=4).blocks())
    assert [(b.concurrency, b.repeat) for b in blocks[:5]] == [
        (1, 0),
        (1, 1),
        (1, 2),
        (1, 3),
        (2, 0),
    ]
    orders = [plan().order(block) for block in blocks[:4]]
    assert orders == [PAIR, PAIR[::-1], PAIR, PAIR[::-1]]


def test_a_level_has_five_requests_a_stream_and_forty_at_least():
    assert [plan().measured(c) for c in (1, 8, 10, 250)] == [40, 40, 50, 1250]
    assert plan(requests=100).measured(1) == 100
    assert plan(requests=1).measured(30) == 30


def test_a_cell_stays_full_while_those_that_count_end():
    assert plan().sent(10) == 10 + 50 + 9
    assert plan(warm_up=25).sent(10) == 25 + 50 + 9


def test_lengths_make_groups_of_their_own():
    groups = list(plan(contexts=(None, 8000), max_tokens=(64, 512)).groups())
    assert [(g.context, g.max_tokens) for g in groups] == [
        (None, 64),
        (None, 512),
        (8000, 64),
        (8000, 512),
    ]


def test_expected_time_follows_what_was_measured():
    pace = Pace()
    assert pace.request_s("spec", 4, 64) is None
    pace.learn("spec", 1, seconds=1.0, tokens=64)
    assert pace.request_s("spec", 1, 64) == pytest.approx(1.0)
    assert pace.request_s("spec", 4, 128) == pytest.approx(4.0)
    pace.learn("spec", 16, seconds=8.0, tokens=64)
    assert pace.request_s("spec", 16, 64) == pytest.approx(8.0)
    assert pace.request_s("spec", 64, 64) == pytest.approx(16.0)
    block = Block(group=GROUP, concurrency=16, repeat=0)
    assert pace.block_s(plan(), block) == pytest.approx(8.0 * (plan().sent(16) / 16 + 0.5))


def test_a_plan_that_does_not_fit_keeps_its_lowest_level_and_reaches_as_high_as_it_can():
    pace = Pace()
    for arm in PAIR:
        pace.learn(arm, 1, seconds=1.0, tokens=64)
    whole = pace.plan_s(plan())
    assert thinned(plan(), pace, whole).levels == (1, 4, 16, 64)
    some = thinned(plan(), pace, whole * 0.8).levels
    assert some[0] == 1
    assert some[-1] == 64
    assert len(some) < 4
    assert thinned(plan(), pace, 0.1).levels == (1,)


def test_decided_levels_get_no_more_repeats():
    blocks = spent(plan(), lambda c, repeat: 0.6 + 0.01 * repeat)
    assert len(blocks) == 8
    assert max(block.repeat for block in blocks) == 1


def test_the_gap_around_the_crossing_is_halved_until_it_is_small():
    blocks = spent(plan(), lambda c, repeat: (20 / c) ** 0.2 * (1 + 0.004 * (-1) ** repeat))
    beyond = {block.concurrency for block in blocks} - {1, 4, 16, 64}
    assert beyond
    assert all(16 < level < 64 for level in beyond)
    assert min(abs(math.log(level / 20)) for level in beyond) < math.log(1.5)


def test_noisy_ends_of_the_gap_get_repeats_and_not_for_ever():
    blocks = spent(plan(), lambda c, repeat: (20 / c) ** 0.1 * (1.05 if repeat % 2 else 0.95))
    repeats = {level: sum(b.concurrency == level for b in blocks) for level in (1, 4, 16, 64)}
    assert max(block.repeat for block in blocks) <= 4
    assert max(repeats.values()) > 2


def test_levels_that_a_budget_left_out_come_last():
    blocks = spent(plan(levels=(1, 64)), lambda c, repeat: 0.5 + 0.01 * repeat, left_out=(4, 16))
    assert [b.concurrency for b in blocks] == [1, 1, 64, 64, 4, 4, 16, 16]


def test_an_arm_by_itself_follows_the_blocks_that_the_other_has():
    theirs = [Block(group=GROUP, concurrency=c, repeat=r) for c in (1, 9) for r in (0, 1)]
    cells = {("spec", block): cell("spec", block, 50.0) for block in theirs}
    alone = plan(arms=("plain",), levels=(1,))
    order = []
    while True:
        done = Done(cells=cells, closed=())
        block = next_block(alone, done, margin=0.03, adaptive=True)
        if block is None:
            break
        order.append(block)
        cells["plain", block] = cell("plain", block, 50.0)
    assert order == theirs


def test_blocks_that_were_given_up_are_not_tried_again():
    closed = [Block(group=GROUP, concurrency=1, repeat=r) for r in range(2)]
    first = next_block(plan(), Done(cells={}, closed=closed), margin=0.03, adaptive=False)
    assert first == Block(group=GROUP, concurrency=4, repeat=0)


@pytest.mark.parametrize(
    ("seconds", "text"), [(40, "40 s"), (600, "10 min"), (12_000, "3 h 20 min")]
)
def test_times_are_told_for_people(seconds, text):
    assert duration(seconds) == text
