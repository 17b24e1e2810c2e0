"""A whole run of open loops: rate after rate, arm after arm, until all are measured or the budget
is spent. A rate that an arm cannot carry is left alone in later repeats, and so are higher ones."""

import math
import time
from dataclasses import dataclass

from specgate.bench import prompts
from specgate.bench.at_rate import rate_cell_of
from specgate.bench.measuring import Measuring
from specgate.bench.open_loop import open_loop
from specgate.bench.progress import Teller
from specgate.bench.rates import RateBlock, RatePlan, arrivals
from specgate.bench.record import rate_key_of, read_rate_cells
from specgate.bench.samples import Sample, cached_share
from specgate.bench.stage import Bench, Stage, staged
from specgate.core.cells import RateCell


@dataclass(frozen=True, slots=True, kw_only=True)
class RateOutcome:
    """`cells`: all that the folder holds of open loops. `voids`: why cells of this run do not
    count. `spent`: whether the budget ended it before its end."""

    cells: tuple[RateCell, ...]
    voids: tuple[str, ...]
    spent: bool


async def run_rates(bench: Bench, plan: RatePlan, teller: Teller) -> RateOutcome:
    """Measure. Raises Misused and Voided."""
    async with staged(bench, teller) as stage:
        return await _RateSweep(bench, plan, stage, teller).to_the_end()


class _RateSweep:
    def __init__(self, bench: Bench, plan: RatePlan, stage: Stage, teller: Teller) -> None:
        self._bench = bench
        self._plan = plan
        self._stage = stage
        self._teller = teller
        self._measuring = Measuring(stage, bench.seed, teller, bench.slo)
        self._cells = {rate_key_of(c): c for c in read_rate_cells(bench.out) if c.void is None}
        self._voids: dict[tuple[str, RateBlock], str] = {}
        self._started = time.monotonic()

    async def to_the_end(self) -> RateOutcome:
        spent = False
        for block in self._plan.blocks():
            for order, name in enumerate(self._plan.order(block)):
                if (name, block) in self._cells or self._hopeless(name, block):
                    continue
                if self._expected_s(name, block) > self._budget_left_s():
                    spent = True
                    continue
                await self._cell(name, block, order)
        cells = tuple(read_rate_cells(self._bench.out))
        return RateOutcome(cells=cells, voids=tuple(self._voids.values()), spent=spent)

    async def _cell(self, name: str, block: RateBlock, order: int) -> None:
        plan, stage, bench = self._plan, self._stage, self._bench
        busy = await self._measuring.idle(name)
        most = plan.most(block.rate)
        dealt = prompts.deal(stage.prompts, block, most, seed=bench.seed, salt=stage.salt)
        warm_up, counted = plan.warming(block.rate), plan.counted(block.rate)
        began = time.monotonic()
        self._teller.begins(name, block, warm_up + counted)

        def on_sample(sample: Sample) -> None:
            stage.record.request(name, block, order, sample, began)
            self._teller.request()

        async with stage.meters[name].watching() as seen:
            run = await open_loop(
                stage.callers[name],
                dealt,
                arrivals(block, most, seed=bench.seed),
                warm_up=warm_up,
                counted=counted,
                max_tokens=block.group.max_tokens,
                on_sample=on_sample,
            )
        cell = rate_cell_of(
            run,
            arm=name,
            rate=block.rate,
            context=block.group.context,
            max_tokens=block.group.max_tokens,
            repeat=block.repeat,
            order=order,
            paired=plan.plan.paired,
            accept_length=seen.accept_length,
            alone_s=self._alone_s(name, block),
            goodput=bench.slo.goodput if bench.slo is not None else None,
        )
        counting = run.counting()
        stage.record.cell(
            cell,
            **seen.summary(),
            client_busy=run.client_busy,
            other_work=busy,
            cached_share=cached_share(counting),
            sent=len(run.samples) + len(run.left),
        )
        if cell.void is not None:
            self._voids[name, block] = f"{block.label}: {cell.void}"
        else:
            self._cells[name, block] = cell
            self._measuring.doubt(name, block, run.client_busy, counting)
        self._teller.ends(cell, self._left_s())

    def _hopeless(self, name: str, block: RateBlock) -> bool:
        """Whether the arm was saturated at this rate or a lower one."""
        return any(
            arm == name
            and other.group == block.group
            and other.rate <= block.rate
            and cell.saturated is not None
            for (arm, other), cell in self._cells.items()
        )

    def _expected_s(self, name: str, block: RateBlock) -> float:
        return self._plan.cell_s(block.rate, self._alone_s(name, block))

    def _alone_s(self, name: str, block: RateBlock) -> float:
        return self._stage.pace.request_s(name, 1, block.group.max_tokens) or 0.0

    def _left_s(self) -> float:
        expected = sum(
            self._expected_s(name, block)
            for block in self._plan.blocks()
            for name in self._plan.plan.arms
            if (name, block) not in self._cells.keys() | self._voids.keys()
            and not self._hopeless(name, block)
        )
        return min(expected, max(0.0, self._budget_left_s()))

    def _budget_left_s(self) -> float:
        if self._bench.budget_s is None:
            return math.inf
        return self._bench.budget_s - (time.monotonic() - self._started)
