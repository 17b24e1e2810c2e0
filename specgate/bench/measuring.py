"""One cell: wait until the engines are idle, hold the load, record, and say what is doubtful."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from specgate.bench import machine, prompts
from specgate.bench.load import closed_loop
from specgate.bench.plan import Block, Plan
from specgate.bench.progress import Teller
from specgate.bench.rates import RateBlock
from specgate.bench.samples import Sample, cached_share, cell_of
from specgate.bench.slo import Slo
from specgate.bench.stage import Stage
from specgate.core.cells import Cell

BUSY = 0.8
"""Of a core: above it the bench itself may have been what was measured."""

CACHED = 0.05
"""Of the prompt tokens: above it a prefix cache had a part in the figures."""

SETTLE_S = 10.0
"""How long engines may take to be rid of what was in flight before a cell."""


@dataclass(slots=True)
class Measuring:
    """Measures cells on a stage; warns of each thing once."""

    stage: Stage
    seed: int
    teller: Teller
    slo: Slo | None = None
    _warned: set[str] = field(default_factory=set)

    async def cell(self, plan: Plan, name: str, block: Block, order: int) -> Cell:
        """Measured and recorded; `void` says why if it does not count. Raises Unreachable."""
        busy = await self.idle(name)
        disturbed = busy is not None and busy > machine.BUSY
        stage, concurrency = self.stage, block.concurrency
        count = plan.sent(concurrency)
        dealt = prompts.deal(stage.prompts, block, count, seed=self.seed, salt=stage.salt)
        began = time.monotonic()

        def on_sample(sample: Sample) -> None:
            stage.record.request(name, block, order, sample, began)
            self.teller.request()

        async with stage.meters[name].watching() as seen:
            loop = await closed_loop(
                stage.callers[name],
                dealt,
                concurrency=concurrency,
                warm_up=plan.warming(concurrency),
                max_tokens=block.group.max_tokens,
                on_sample=on_sample,
            )
        cell = cell_of(
            loop,
            arm=name,
            concurrency=concurrency,
            context=block.group.context,
            max_tokens=block.group.max_tokens,
            repeat=block.repeat,
            order=order,
            paired=plan.paired,
            accept_length=seen.accept_length,
            goodput=self.slo.goodput if self.slo is not None else None,
            error=machine.DISTURBED if disturbed else 0.0,
        )
        counting = loop.counting()
        told = [s.prompt_tokens for s in counting if s.prompt_tokens is not None]
        stage.record.cell(
            cell,
            **seen.summary(),
            client_busy=loop.client_busy,
            other_work=busy,
            prompt_tokens=sum(told) / len(told) if told else None,
            cached_share=cached_share(counting),
            sent=len(loop.samples),
        )
        if cell.void is None:
            tokens = sum(s.tokens or 0 for s in counting) / len(counting)
            first_s = cell.ttft_s.mean if cell.ttft_s is not None else 0.0
            stage.pace.learn(
                name, concurrency, seconds=cell.e2e_s.mean, tokens=tokens, first_s=first_s
            )
            self.doubt(name, block, loop.client_busy, loop.counting())
        return cell

    async def idle(self, name: str) -> float | None:
        """Give the engines a moment to be idle; say which one is not.

        Returns how busy this machine is with other work, if an engine is on it; says so if it is.
        """
        deadline = time.monotonic() + SETTLE_S
        for other, meter in self.stage.meters.items():
            count = await meter.in_flight()
            while count and time.monotonic() < deadline:
                await asyncio.sleep(0.1)
                count = await meter.in_flight()
            if count:
                self.warn(
                    f"arm {other} is not idle: {count} requests of somebody else's are in flight "
                    f"there while {name} is about to be measured",
                    other,
                )

        if not machine.here(meter.url for meter in self.stage.meters.values()):
            return None
        before = machine.times()
        await asyncio.sleep(machine.LOOK_S)
        busy = machine.busy_share(before, machine.times())
        if busy is not None and busy > machine.BUSY:
            self.warn(
                f"this machine is {busy:.0%} busy with other work while {name} is about to be "
                "measured: engines on it are slowed by it",
                "machine",
            )
        return busy

    def doubt(
        self, name: str, block: Block | RateBlock, client_busy: float, counting: Sequence[Sample]
    ) -> None:
        """Warn of what may have been measured besides the engine."""
        if client_busy > BUSY:
            self.warn(
                f"the bench itself used {client_busy:.0%} of a core at {block.label}: it "
                "may have been the bottleneck; give it a faster one, or ask for less",
                "busy",
            )
        cached = cached_share(counting)
        if cached is not None and cached > CACHED:
            self.warn(
                f"arm {name} took {cached:.0%} of the prompt tokens from its prefix cache at "
                f"{block.label}",
                f"cached {name}",
            )

    def warn(self, text: str, about: str) -> None:
        if about not in self._warned:
            self._warned.add(about)
            self.stage.record.note(text)
            self.teller.warns(text)
