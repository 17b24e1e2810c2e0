"""The whole run: block after block, until nothing more is worth its time or the budget is spent.

A void cell is recorded as such and its level left alone; the sweep goes on at other levels, as an
engine that refuses a hundred requests may serve ten. An arm that takes no connection any more ends
it (Unreachable). Whatever ends it, what was measured is in the record.
"""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from specgate.bench import spend
from specgate.bench.measuring import Measuring
from specgate.bench.plan import Block, Plan
from specgate.bench.progress import Teller, duration
from specgate.bench.record import key_of, read_cells
from specgate.bench.stage import Bench, Stage, staged
from specgate.core.cells import Cell

RESERVE = 0.9
"""Of the budget, for the plan: the rest is for where its findings leave the verdict open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`cells`: all that the folder holds. `voids`: why cells of this run do not count. `spent`:
    whether the budget ended it before its end."""

    cells: tuple[Cell, ...]
    voids: tuple[str, ...]
    spent: bool


async def run(bench: Bench, teller: Teller) -> Outcome:
    """Measure. Raises Misused and Voided."""
    async with staged(bench, teller) as stage:
        return await _Sweep(bench, stage, teller).to_the_end()


class _Sweep:
    def __init__(self, bench: Bench, stage: Stage, teller: Teller) -> None:
        self._bench = bench
        self._stage = stage
        self._teller = teller
        self._measuring = Measuring(stage, bench.seed, teller, bench.slo)
        self._closed: set[Block] = set()
        self._voids: list[str] = []
        self._cells = _usable(read_cells(bench.out), bench.plan)
        self._started = time.monotonic()

    async def to_the_end(self) -> Outcome:
        bench = self._bench
        plan, left_out = self._fitted()
        spent = False
        while (block := self._next(plan, left_out)) is not None:
            if self._stage.pace.block_s(plan, block) > self._budget_left_s():
                spent = True
                break
            await self._block(plan, block)
        cells = tuple(read_cells(bench.out))
        return Outcome(cells=cells, voids=tuple(self._voids), spent=spent)

    def _next(self, plan: Plan, left_out: list[int]) -> Block | None:
        return spend.next_block(
            plan,
            self._done(),
            left_out=left_out,
            margin=self._bench.margin,
            objective=self._bench.objective,
            adaptive=self._bench.budget_s is not None,
        )

    def _done(self) -> spend.Done:
        return spend.Done(cells=self._cells, closed=self._closed)

    def _fitted(self) -> tuple[Plan, list[int]]:
        """The plan as the budget holds it, and the levels that it leaves out."""
        bench, pace = self._bench, self._stage.pace
        if bench.budget_s is None:
            return bench.plan, []
        plan = spend.thinned(bench.plan, pace, bench.budget_s * RESERVE)
        left_out = [level for level in bench.plan.levels if level not in plan.levels]
        if left_out:
            self._teller.says(
                f"{plan.repeats} repeats of all levels take about "
                f"{duration(pace.plan_s(bench.plan))}, and the budget is "
                f"{duration(bench.budget_s)}: beginning with C={', '.join(map(str, plan.levels))}"
            )
        return plan, left_out

    def _budget_left_s(self) -> float:
        if self._bench.budget_s is None:
            return math.inf
        return self._bench.budget_s - (time.monotonic() - self._started)

    def _left_s(self, plan: Plan) -> float:
        """Until the plan is done, or all that a budget may yet be spent on."""
        cells = [
            self._stage.pace.cell_s(plan, arm, block)
            for block in plan.blocks()
            if block not in self._closed
            for arm in plan.arms
            if (arm, block) not in self._cells
        ]
        if not cells and self._bench.budget_s is not None:
            return self._budget_left_s()
        return min(sum(cells), self._budget_left_s())

    async def _block(self, plan: Plan, block: Block) -> None:
        for order, name in enumerate(plan.order(block)):
            if (name, block) in self._cells:
                continue
            self._teller.begins(name, block, plan.sent(block.concurrency))
            cell = await self._measuring.cell(plan, name, block, order)
            if cell.void is not None:
                self._voids.append(f"C={block.concurrency}: {cell.void}")
                self._give_up(plan, block)
            else:
                self._cells[name, block] = cell
            self._teller.ends(cell, self._left_s(plan))
            if cell.void is not None:
                return

    def _give_up(self, plan: Plan, block: Block) -> None:
        """A void level is left alone for this run; `--resume` tries it again."""
        most = max(plan.repeats, spend.MOST_REPEATS) + 1
        self._closed.update(replace(block, repeat=repeat) for repeat in range(most))


def _usable(cells: Iterable[Cell], plan: Plan) -> dict[tuple[str, Block], Cell]:
    """What an earlier run left that counts. A block that it broke off is measured again, all arms
    of it: halves from two runs are no pair."""
    found = {key_of(cell): cell for cell in cells if cell.void is None}
    if not plan.paired:
        return found
    whole = [
        set(plan.arms) <= {arm for arm, other in found if other == block} for _, block in found
    ]
    return {
        (arm, block): cell
        for ((arm, block), cell), is_whole in zip(found.items(), whole, strict=True)
        if is_whole or arm not in plan.arms
    }
