"""All that a bench holds open: its arms, each looked at and tried once, and its record.

Raises Misused and Voided, one line each, before anything is measured.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2

from specgate.bench import environment, prompts
from specgate.bench.asking import Arm, Caller, Manner
from specgate.bench.faults import Misused, Voided
from specgate.bench.load import read, send
from specgate.bench.meters import Meter
from specgate.bench.plan import Block, Group, Pace, Plan
from specgate.bench.progress import Teller
from specgate.bench.rates import RatePlan
from specgate.bench.record import (
    Record,
    read_cells,
    read_rate_cells,
    settle,
    write_environment,
)
from specgate.bench.slo import Slo
from specgate.core.cells import Cell, RateCell
from specgate.core.profile import Objective

TRIAL_TOKENS = 32
TRIALS = 2
"""Requests to each arm before the first cell: the first warms it, the last one's time counts."""

_REFUSALS = tuple(f"with status {status}:" for status in (400, 401, 403, 404, 422))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What to do. `budget_s`: None measures the plan and nothing beyond it. `model`: None asks each
    arm for what it says it serves. `rates`: an open loop, in place of the plan's levels."""

    arms: tuple[Arm, ...]
    plan: Plan
    out: Path
    manner: Manner = field(default_factory=Manner)
    prompts: str = prompts.BUILTIN
    seed: int = 0
    model: str | None = None
    margin: float = 0.03
    objective: Objective = Objective.THROUGHPUT
    slo: Slo | None = None
    rates: RatePlan | None = None
    budget_s: float | None = None
    resume: bool = False
    argv: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What is open. `callers`, `meters`: by arm. `pace`: as the trials found it."""

    prompts: Sequence[prompts.Prompt]
    salt: str
    record: Record
    callers: Mapping[str, Caller]
    meters: Mapping[str, Meter]
    pace: Pace


@asynccontextmanager
async def staged(bench: Bench, teller: Teller) -> AsyncIterator[Stage]:
    """Open the folder and the arms. Nothing is written before every arm has shown that it works."""
    found = prompts.load(bench.prompts)
    again = _not_again(bench)
    if bench.resume and not again:
        arms = " or ".join(arm.name for arm in bench.arms)
        teller.warns(f"{bench.out} holds no cell of {arms}: nothing to resume, begun anew")
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(_client())
        callers, seen = await _look(bench, http, stack)
        pace = await _try(bench, callers, found)
        salt = settle(
            bench.out,
            prompts=bench.prompts,
            digest=prompts.digest(found),
            seed=bench.seed,
            manner=bench.manner,
            slo=bench.slo,
        )
        run = write_environment(bench.out, environment.this_run(bench.argv, seen))
        record = Record(bench.out, run)
        stack.callback(record.close)
        # How many an open loop holds in flight is not known before.
        highest = bench.plan.levels[-1] if bench.rates is None else 0
        for text in [*environment.differences(seen), *environment.capped(seen, highest)]:
            record.note(text)
            teller.warns(text)
        yield Stage(
            prompts=found,
            salt=salt,
            record=record,
            callers=callers,
            meters={arm.name: Meter(arm, http) for arm in bench.arms},
            pace=pace,
        )


async def paced(bench: Bench) -> Pace:
    """The trials alone, for a plan's expected time. Nothing is written."""
    found = prompts.load(bench.prompts)
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(_client())
        callers, _ = await _look(bench, http, stack)
        return await _try(bench, callers, found)


async def _look(
    bench: Bench, http: httpx2.AsyncClient, stack: AsyncExitStack
) -> tuple[dict[str, Caller], dict[str, dict[str, Any]]]:
    """Callers that know their model's name, and what the engines say of themselves."""
    callers: dict[str, Caller] = {}
    seen: dict[str, dict[str, Any]] = {}
    for arm in bench.arms:
        caller = Caller(arm, bench.manner)
        stack.push_async_callback(caller.aclose)
        seen[arm.name] = await environment.look(arm, http)
        caller.arm = replace(arm, model=environment.named(arm, seen[arm.name], bench.model))
        callers[arm.name] = caller
    return callers, seen


async def _try(
    bench: Bench, callers: Mapping[str, Caller], found: Sequence[prompts.Prompt]
) -> Pace:
    """A few short requests to each arm: warms it, and finds what would void every cell."""
    group = Group(context=None, max_tokens=min([TRIAL_TOKENS, *bench.plan.max_tokens]))
    block = Block(group=group, concurrency=1, repeat=-1)
    pace = Pace()
    for name, caller in callers.items():
        for dealt in prompts.deal(found, block, TRIALS, seed=bench.seed, salt="trial"):
            answer = await send(caller, dealt, group.max_tokens)
            sample = read(caller, dealt, group.max_tokens, 0, answer)
            if sample.error is not None:
                refused = any(status in sample.error for status in _REFUSALS)
                raise (Misused if refused else Voided)(f"{sample.error} ({caller.arm.url})")
            pace.learn(
                name,
                1,
                seconds=sample.e2e_s,
                tokens=sample.tokens or 1,
                first_s=sample.ttft_s or 0.0,
            )
    return pace


def _not_again(bench: Bench) -> list[str]:
    """The arms that have cells already. Raises Misused if going on with them was not asked for."""
    cells: Sequence[Cell | RateCell] = (
        read_cells(bench.out) if bench.rates is None else read_rate_cells(bench.out)
    )
    measured = {cell.arm for cell in cells}
    again = [arm.name for arm in bench.arms if arm.name in measured]
    if again and not bench.resume:
        raise Misused(
            f"{bench.out} already holds cells of {', '.join(again)}: go on with --resume, or "
            "measure into another --out"
        )
    return again


def _client() -> httpx2.AsyncClient:
    return httpx2.AsyncClient(trust_env=False, timeout=environment.TIMEOUT_S)
