"""`specgate verdict`: which way to serve, on one page."""

import json
import sys

import click

from specgate.bench.verdict import Advice, Gain, Option, Way, advise
from specgate.bench.wording import number
from specgate.cli.profile_files import INCONCLUSIVE, PROFILE
from specgate.core.config import ALWAYS, NEVER
from specgate.core.profile import Profile
from specgate.core.record import written

EPILOG = "Exit status: 0 decided, 2 wrong usage, 3 the profile does not decide."


@click.command(epilog=EPILOG, short_help="Say which way to serve, with what each gains and costs.")
@click.argument("profile", type=PROFILE, metavar="NAME|FILE")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a page.")
def verdict(*, profile: Profile, as_json: bool) -> None:
    """Say which way to serve: plain, static speculation, the engine's own table, or the gate.

    Each with its gain over plain, measured or modelled, and what it costs. Says so when specgate
    is not needed.

    \b
    Example:
      specgate verdict k26-int4-8xrtxpro6000-vllm-ctx10k
    """
    advice = advise(profile)
    if as_json:
        click.echo(json.dumps(as_object(advice), indent=2))
    else:
        _print(advice)
    if advice.take is None:
        click.get_current_context().exit(INCONCLUSIVE)


def as_object(advice: Advice) -> dict[str, object]:
    """What --json prints."""
    found: dict[str, object] = written(advice)
    return {**found, "threshold": _word(advice.threshold), "needed": advice.needed}


def _print(advice: Advice) -> None:
    # Here, as it takes longer to import than --help takes.
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    console.print(advice.said, markup=False)
    console.print()
    table = Table(box=None, pad_edge=False)
    for column in ("", "way", "gain over plain", "worst", "best level", "", "cost"):
        table.add_column(column, overflow="fold")
    for option in advice.options:
        table.add_row(*_row(option, chosen=option.way is advice.take))
    console.print(table)
    for option in advice.options:
        if option.note is not None:
            console.print(f"\n{option.way}: {option.note}.", markup=False)
    take = "Undecided" if advice.take is None else f"Take {advice.take}"
    console.print(f"\n{take}: {advice.why}.", markup=False)
    if advice.take is Way.GATE and advice.threshold is not None:
        console.print(
            f"\nSPECGATE_THRESHOLD={number(advice.threshold)} SPECGATE_BAND={advice.band:.2g}, or "
            "SPECGATE_PROFILE with this file",
            markup=False,
        )
    if advice.caveat is not None:
        console.print(f"\nNote: {advice.caveat}.", markup=False)
    for alarm in advice.alarms:
        console.print(f"alarm: {alarm}", markup=False)
    console.print(
        "\nGains are geometric means over the levels, each counted alike; modelled ones come from "
        "both engines measured alone.",
        markup=False,
    )


def _row(option: Option, *, chosen: bool) -> tuple[str, ...]:
    mark = "->" if chosen else ""
    if option.gain is None:
        return mark, option.way, "-", "-", "-", "not possible", option.cost
    how = "measured" if option.measured else "modelled"
    gain = option.gain
    return mark, option.way, _gain(gain), number(gain.worst), number(gain.best), how, option.cost


def _gain(gain: Gain) -> str:
    if gain.low is None or gain.high is None:
        return number(gain.mean)
    return f"{number(gain.mean)}  ({number(gain.low)} to {number(gain.high)})"


def _word(threshold: float | None) -> float | str | None:
    return (
        {NEVER: "never", ALWAYS: "always"}.get(threshold, threshold)
        if threshold is not None
        else None
    )
