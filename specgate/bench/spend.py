"""Where the next block is worth its time: the plan first, then wherever the verdict is open. Pure.

1. Every level of the plan, so many repeats as it says (two, unless the user says otherwise).
2. While the curves cross once: the gap that holds the crossing is halved (in log2) until its ends
   are within GAP of each other; then repeats are added at its two ends until the interval is
   within NARROW, or they have MOST_REPEATS.
3. While nothing can be said: repeats at the levels that leave it open, the fewest first.
4. Levels that a small budget had left out.

A level that is decided is not measured again.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random

from specgate.bench.objectives import value_of
from specgate.bench.plan import Block, Group, Pace, Plan
from specgate.core.cells import Cell
from specgate.core.crossover import Finding, find
from specgate.core.profile import PLAIN, Objective
from specgate.core.ratios import Runs
from specgate.core.shape import Shape

GAP = 1.5
NARROW = 1.3
MOST_REPEATS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What there is: cells that count by arm and block; blocks that will not be tried again."""

    cells: Mapping[tuple[str, Block], Cell]
    closed: Collection[Block]

    def has(self, plan: Plan, block: Block) -> bool:
        return block in self.closed or all((arm, block) in self.cells for arm in plan.arms)

    def repeats(self, plan: Plan, group: Group, concurrency: int) -> int:
        """The next repeat's number: those before it are done or given up."""
        repeat = 0
        while self.has(plan, Block(group=group, concurrency=concurrency, repeat=repeat)):
            repeat += 1
        return repeat


def next_block(
    plan: Plan,
    done: Done,
    *,
    left_out: Iterable[int] = (),
    margin: float,
    objective: Objective = Objective.THROUGHPUT,
    adaptive: bool,
) -> Block | None:
    """What to measure next, None if nothing more is worth it. `left_out`: levels asked for that
    are not in the plan. `adaptive`: whether to go beyond the plan."""
    for block in [*plan.blocks(), *_as_others(plan, done)]:
        if not done.has(plan, block):
            return block
    if not adaptive or not plan.paired or PLAIN not in plan.arms:
        return None
    skipped = sorted(left_out)
    for group in plan.groups():
        for arm in plan.arms:
            if arm != PLAIN:
                wanted = _refining(plan, done, group, arm, skipped, margin, objective)
                if wanted is not None:
                    return wanted
    for group in plan.groups():
        for concurrency in skipped:
            repeat = done.repeats(plan, group, concurrency)
            if repeat < plan.repeats:
                return Block(group=group, concurrency=concurrency, repeat=repeat)
    return None


def thinned(plan: Plan, pace: Pace, budget_s: float) -> Plan:
    """The plan with as many of its levels as the budget holds: always the lowest, as high as it
    reaches, evenly between. At least one level."""
    levels = plan.levels
    for most in range(len(levels), 0, -1):
        for count in range(most, min(2, most) - 1, -1):
            kept = _spread(levels[:most], count)
            candidate = replace(plan, levels=kept)
            if pace.plan_s(candidate) <= budget_s:
                return candidate
    return replace(plan, levels=levels[:1])


def _spread(levels: tuple[int, ...], count: int) -> tuple[int, ...]:
    if count == 1:
        return levels[:1]
    last = len(levels) - 1
    return tuple(levels[round(i * last / (count - 1))] for i in range(count))


def _as_others(plan: Plan, done: Done) -> list[Block]:
    """An arm that is measured by itself follows the blocks that others already have."""
    if plan.paired:
        return []
    groups = set(plan.groups())
    blocks = {block for arm, block in done.cells if arm not in plan.arms and block.group in groups}
    return sorted(blocks, key=lambda block: (block.concurrency, block.repeat))


def _refining(
    plan: Plan,
    done: Done,
    group: Group,
    arm: str,
    left_out: list[int],
    margin: float,
    objective: Objective,
) -> Block | None:
    found = finding(done.cells, group, arm, margin, objective)
    if found is None or not found.undecided:
        return None
    if found.shape is Shape.CROSSES:
        low, high = found.undecided[0], found.undecided[-1]
        middle = _between(low, high, left_out)
        if middle is not None:
            repeat = done.repeats(plan, group, middle)
            if repeat < plan.repeats:
                return Block(group=group, concurrency=middle, repeat=repeat)
        if found.interval is not None and _is_narrow(found.interval):
            return None
    elif found.shape is not Shape.INCONCLUSIVE:
        return None
    repeat, concurrency = min((done.repeats(plan, group, c), c) for c in found.undecided)
    if repeat >= MOST_REPEATS:
        return None
    return Block(group=group, concurrency=concurrency, repeat=repeat)


def finding(
    cells: Mapping[tuple[str, Block], Cell],
    group: Group,
    arm: str,
    margin: float,
    objective: Objective = Objective.THROUGHPUT,
) -> Finding | None:
    """An arm against the plain one so far, by the objective; None without a level of both."""
    errors: dict[int, float] = {}
    values: dict[int, dict[str, dict[int, float]]] = {}
    for (name, block), cell in cells.items():
        if block.group == group and name in (arm, PLAIN) and cell.tok_s > 0:
            level = values.setdefault(block.concurrency, {arm: {}, PLAIN: {}})
            level[name][block.repeat] = value_of(cell, objective)
            errors[block.concurrency] = max(cell.error, errors.get(block.concurrency, 0.0))
    levels = [
        Runs(concurrency=c, spec=level[arm], plain=level[PLAIN], error=errors[c])
        for c, level in sorted(values.items())
        if level[arm].keys() & level[PLAIN].keys()
    ]
    if not levels:
        return None
    return find(levels, rng=Random(0), paired=True, margin=margin, draws=400)  # noqa: S311


def _between(low: int, high: int, left_out: list[int]) -> int | None:
    """The level that halves a gap; one that was asked for, if there is one."""
    if high <= low * GAP or high - low < 2:
        return None
    middle = math.sqrt(low * high)
    planned = [level for level in left_out if low < level < high]
    if planned:
        return min(planned, key=lambda level: abs(math.log(level / middle)))
    return min(max(round(middle), low + 1), high - 1)


def _is_narrow(interval: tuple[float, float]) -> bool:
    low, high = interval
    return low > 0 and math.isfinite(high) and high <= low * NARROW
