"""`specgate demo`: the whole thing in one command, on simulated engines."""

import asyncio
import contextlib
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table

from specgate.admin.pages import UI
from specgate.cli.completion import Completions, beginning
from specgate.cli.values import Finite
from specgate.core.lanes import Lane
from specgate.demo import DEFAULT_PROFILE, Look, Options, Result, Stage, staged
from specgate.demo import ramp as run_ramp
from specgate.sim.profiles import profile_names
from specgate.telemetry.logs import set_up


def _names(ctx: click.Context, param: click.Parameter, incomplete: str) -> Completions:
    return beginning(profile_names(), incomplete)


EPILOG = """\b
Examples:
  specgate demo
      watch, then try it yourself with curl
  specgate demo --once --json out.json
      for scripts
  specgate demo --profile reference
      a deployment where speculation never pays

Exit status: 0 done, 1 the port is taken, or with --once a request failed, 2 wrong
usage, 130 interrupted.
"""


@click.command(epilog=EPILOG, short_help="Watch a gate choose, between two simulated engines.")
@click.option(
    "--once", is_flag=True, help="Exit after the ramp, with status 1 if a request failed."
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Write the ramp's figures as JSON; `-` for stdout, and the table to stderr.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8400,
    show_default=True,
    help="The gate's port; 0 takes any free one.",
)
@click.option(
    "--profile",
    default=DEFAULT_PROFILE,
    show_default=True,
    shell_complete=_names,
    help="Measured curves for the simulated engines to follow; a wrong name lists them all.",
)
@click.option(
    "--level-seconds",
    type=Finite(0.5, 600),
    default=6.0,
    show_default=True,
    help="How long each level of load lasts.",
)
@click.option(
    "--time-scale",
    type=Finite(0.1, 50),
    default=4.0,
    show_default=True,
    help="How many times faster than real the engines' time runs.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of words and acceptance.")
def demo(
    *,
    once: bool,
    json_file: Path | None,
    port: int,
    profile: str,
    level_seconds: float,
    time_scale: float,
    seed: int,
) -> None:
    """Watch a gate choose: two simulated engines, a load that rises and falls.

    On a terminal a live table, elsewhere a line a level at the end. Then the gate stays up, to be
    tried, until ^C.
    """
    if json_file is not None and not json_file.parent.is_dir():
        raise click.BadParameter(f"{json_file.parent}: no such folder", param_hint="--json")
    options = Options(
        profile=profile, level_s=level_seconds, time_scale=time_scale, port=port, seed=seed
    )
    set_up(level="error", as_json=False)
    try:
        result = asyncio.run(_run(options, stay=not once, json_file=json_file))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--profile") from None
    except OSError as error:
        if error.filename is not None:
            raise
        raise click.ClickException(f"--port {port}: {error.strerror or error}") from None
    if once and (result.errors or result.in_flight_at_end):
        sys.exit(1)


async def _run(options: Options, *, stay: bool, json_file: Path | None) -> Result:
    as_json = str(json_file) == "-"
    console = Console(stderr=as_json)
    async with staged(options) as stage:
        _introduce(console, stage)
        result = await _watched(console, stage)
        if as_json:
            click.echo(result.as_json())
        elif json_file is not None:
            await asyncio.to_thread(json_file.write_text, result.as_json() + "\n", "utf-8")
        _conclude(console, result)
        if stay:
            _invite(console, stage)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.get_running_loop().create_future()
    return result


def _introduce(console: Console, stage: Stage) -> None:
    console.print(
        f"Engines simulated from [bold]{stage.profile.id}[/bold] ({stage.profile.hardware}), "
        f"{stage.options.time_scale:g} x faster than real."
    )
    console.print(
        f"Its curves cross at a load of {stage.threshold:.2f}: the gate speculates below."
    )
    console.print(f"Dashboard: {stage.url}{UI}\n", highlight=False, soft_wrap=True)


async def _watched(console: Console, stage: Stage) -> Result:
    """The ramp with a live table on a terminal; elsewhere a line a level, at the end."""
    done: list[tuple[Look, str]] = []
    last: Look | None = None

    def table() -> Table:
        shown = [*done, *([(last, "now")] if last else [])]
        return _table(stage, shown)

    with Live(table(), console=console, auto_refresh=False) as live:

        def show(look: Look) -> None:
            nonlocal last
            if last is not None and last.concurrency != look.concurrency:
                done.append((last, ""))
            last = look
            if console.is_terminal:
                live.update(table(), refresh=True)

        result = await run_ramp(stage, show)
        if last is not None:
            done.append((last, ""))
            last = None
        live.update(table(), refresh=True)
    return result


def _table(stage: Stage, looks: list[tuple[Look, str]]) -> Table:
    table = Table(show_edge=False, pad_edge=False)
    for name in ("clients", "in flight", "load", "side", "tok/s", "measured s / p", "why"):
        table.add_column(name, justify="left" if name in ("side", "why") else "right")
    for look, mark in looks:
        view = look.view
        colour = "green" if view.side == "spec" else "cyan"
        table.add_row(
            f"{mark} {look.concurrency}".strip(),
            f"{view.counts.spec} + {view.counts.plain}",
            f"{view.load:.1f}",
            f"[{colour}]{view.side}[/{colour}]",
            f"{look.tok_s:.0f}",
            _measured(stage, look.concurrency),
            view.reason.replace("_", " "),
        )
    return table


def _measured(stage: Stage, concurrency: int) -> str:
    """What the profile says of this level, where it was measured."""
    points = stage.profile.concurrency
    if concurrency not in points:
        return "-"
    at = points.index(concurrency)
    spec, plain = (stage.profile.measured[lane][at] for lane in Lane)
    return f"{spec:.0f} / {plain:.0f}"


def _conclude(console: Console, result: Result) -> None:
    lanes = ", ".join(
        f"{lane} {total.requests} requests, {total.tokens} tokens"
        for lane, total in result.lanes.items()
    )
    console.print(
        f"\n{result.requests} requests, {result.errors} errors, {result.switches} switches, "
        f"{result.in_flight_at_end} in flight at the end ({lanes})."
    )


def _invite(console: Console, stage: Stage) -> None:
    console.print(f"\nThe gate stays up at {stage.url}; ^C ends it. Try:\n", highlight=False)
    body = '{"model": "sim", "messages": [{"role": "user", "content": "Hello"}], "stream": true}'
    for line in (
        f"  curl -iN {stage.url}/v1/chat/completions -H 'content-type: application/json' \\\n"
        f"    -d '{body}'",
        f"  curl {stage.url}/_specgate/status",
    ):
        console.print(line, highlight=False, soft_wrap=True, markup=False)
