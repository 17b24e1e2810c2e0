"""What `specgate bench` prints to stdout: the plan before, the findings after, or as JSON."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from specgate.bench.concluding import PROFILE, conclude, undecided
from specgate.bench.plan import Pace, Plan
from specgate.bench.progress import duration
from specgate.bench.rate_table import doubts, rate_tables
from specgate.bench.rates import RateBlock, RatePlan
from specgate.bench.record import read_cells, read_rate_cells
from specgate.bench.stage import Bench
from specgate.bench.table import tables
from specgate.bench.wording import headline
from specgate.cli.report import in_a_line
from specgate.core.crossover import MARGIN
from specgate.core.profile import Objective, dumps


def intention(asked: Bench, pace: Pace) -> None:
    """The plan and its expected time."""
    plan = asked.plan
    click.echo(f"arms: {', '.join(f'{arm.name} {arm.url}' for arm in asked.arms)}")
    if asked.rates is not None:
        _arrivals(asked, asked.rates, pace)
        return
    for group in plan.groups():
        context = "prompts as they are" if group.context is None else f"context {group.context}"
        click.echo(f"{context}, {group.max_tokens} output tokens:")
        for block in plan.blocks():
            if block.group == group:
                click.echo(
                    f"  C={block.concurrency:<4d} repeat {block.repeat + 1}: "
                    f"{', '.join(plan.order(block))}; {plan.warming(block.concurrency)} requests "
                    f"to warm up, {plan.measured(block.concurrency)} that count, each; about "
                    f"{duration(pace.block_s(plan, block))}"
                )
    click.echo(f"in all about {duration(pace.plan_s(plan))}, guessed from one stream of each arm")
    if asked.budget_s is not None:
        click.echo(f"budget: {duration(asked.budget_s)}")


def _arrivals(asked: Bench, rates: RatePlan, pace: Pace) -> None:
    total_s = 0.0
    for block in rates.blocks():
        block_s = _at_rate_s(rates, block, pace)
        total_s += block_s
        length = "" if block.group.context is None else f"context {block.group.context}, "
        click.echo(
            f"  {block.label:6s} {length}{block.group.max_tokens} output tokens, repeat "
            f"{block.repeat + 1}: {', '.join(rates.order(block))}; {rates.warming(block.rate)} "
            f"arrivals to warm up, {rates.counted(block.rate)} that count, each; about "
            f"{duration(block_s)}"
        )
    click.echo(f"in all about {duration(total_s)}, more where an arm queues")
    if asked.budget_s is not None:
        click.echo(f"budget: {duration(asked.budget_s)}")


def intended(asked: Bench, pace: Pace) -> dict[str, object]:
    """The same for scripts: arms, blocks in their order, expected seconds."""
    blocks = _levels(asked.plan, pace) if asked.rates is None else _rates(asked.rates, pace)
    return {
        "arms": {arm.name: arm.url for arm in asked.arms},
        "blocks": blocks,
        "budget_s": asked.budget_s,
    }


def _levels(plan: Plan, pace: Pace) -> list[dict[str, object]]:
    return [
        {
            **block.place,
            "arms": plan.order(block),
            "warm_up": plan.warming(block.concurrency),
            "requests": plan.measured(block.concurrency),
            "expected_s": round(pace.block_s(plan, block), 3),
        }
        for block in plan.blocks()
    ]


def _rates(rates: RatePlan, pace: Pace) -> list[dict[str, object]]:
    return [
        {
            **block.place,
            "arms": rates.order(block),
            "warm_up": rates.warming(block.rate),
            "requests": rates.counted(block.rate),
            "expected_s": round(_at_rate_s(rates, block, pace), 3),
        }
        for block in rates.blocks()
    ]


def _at_rate_s(rates: RatePlan, block: RateBlock, pace: Pace) -> float:
    """What a block of arrivals takes at least; more where an arm queues."""
    return sum(
        rates.cell_s(block.rate, pace.request_s(arm, 1, block.group.max_tokens) or 0.0)
        for arm in rates.plan.arms
    )


def conclusion(folder: Path, margin: float, objective: Objective, *, as_json: bool) -> bool:
    """Analyse what the folder holds, write its profile, print both; whether that decides it.
    `as_json`: the profile alone to stdout, and where things are to stderr."""
    profile = conclude(folder, margin, objective)
    if profile is None:
        click.echo("Not decided: nothing was measured that counts.", err=as_json)
        return False
    if as_json:
        click.echo(dumps(profile), nl=False)
        click.echo(f"Profile: {folder / PROFILE}", err=True)
        click.echo(in_a_line(profile, folder), err=True)
        return undecided(profile) is None
    # A pipe has no width: nothing is cut or wrapped there.
    console = Console(width=None if sys.stdout.isatty() else 200)
    for table in [*(tables(profile) if profile.levels else []), *rate_tables(profile)]:
        console.print()
        console.print(table)
    console.print()
    for curve in (profile, *profile.also):
        _say(console, headline(curve))
        for alarm in curve.alarms:
            _say(console, f"  alarm: {alarm}")
    for line in doubts(profile):
        _say(console, f"  {line}")
    why = undecided(profile)
    if why is not None:
        _say(console, f"Not decided: {why}." if profile.levels else f"No verdict: {why}.")
    _say(console, f"Profile: {folder / PROFILE}")
    _say(console, in_a_line(profile, folder))
    return why is None


def broken_off(asked: Bench) -> list[str]:
    """What is kept of a run that broke off, and the commands: to go on, and to do with it as it is.
    A key is not printed, and the environment takes it as well."""
    folder, words = str(asked.out), [word for word in asked.argv if word != "--resume"]
    keyed, plain = _without_key(words)
    prefix = "OPENAI_API_KEY=... " if keyed else ""
    cells = len(read_cells(asked.out)) + len(read_rate_cells(asked.out))
    on = f"{prefix}{shlex.join(['specgate', *plain, '--resume'])}"
    if not cells:
        return ["no cell was measured to its end", f"go on:           {on}"]
    made = ["specgate", "profile", "import", folder, "--out", str(asked.out / PROFILE)]
    made += ["--margin", f"{asked.margin:g}"] if asked.margin != MARGIN else []
    made += ["--objective", asked.objective] if asked.objective != Objective.THROUGHPUT else []
    return [
        f"{cells} {'cell' if cells == 1 else 'cells'} measured, and kept in {folder}",
        f"go on:           {on}",
        f"a profile of it: {shlex.join(made)}",
    ]


def _without_key(words: Sequence[str]) -> tuple[bool, list[str]]:
    """Whether a key was among them, and the others."""
    kept: list[str] = []
    skip = found = False
    for word in words:
        key = word == "--api-key"
        if not (skip or key or word.startswith("--api-key=")):
            kept.append(word)
        found = found or key or word.startswith("--api-key=")
        skip = key and not skip
    return found, kept


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
