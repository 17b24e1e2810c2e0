"""What `specgate bench` prints to stdout: the plan before, the findings after."""

from pathlib import Path

import click
from rich.console import Console

from specgate.bench.concluding import PROFILE, conclude, undecided
from specgate.bench.plan import Pace
from specgate.bench.progress import duration
from specgate.bench.stage import Bench
from specgate.bench.table import tables
from specgate.bench.wording import headline


def intention(asked: Bench, pace: Pace) -> None:
    """The plan and its expected time."""
    plan = asked.plan
    click.echo(f"arms: {', '.join(f'{arm.name} {arm.url}' for arm in asked.arms)}")
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


def conclusion(folder: Path, margin: float) -> bool:
    """Analyse what the folder holds, write its profile, print both; whether that decides it."""
    profile = conclude(folder, margin)
    if profile is None:
        click.echo("Not decided: nothing was measured that counts.")
        return False
    console = Console()
    for table in tables(profile):
        console.print()
        console.print(table)
    console.print()
    for curve in (profile, *profile.also):
        _say(console, headline(curve))
        for alarm in curve.alarms:
            _say(console, f"  doubtful: {alarm}")
    why = undecided(profile)
    if why is not None:
        _say(console, f"Not decided: {why}.")
    _say(console, f"Profile: {folder / PROFILE}")
    return why is None


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
