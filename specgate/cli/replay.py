"""`specgate replay`: the gate on recorded or made traffic, in virtual time."""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import click

from specgate.cli.bench_values import DURATION
from specgate.cli.profile_files import PROFILE
from specgate.cli.replay_values import (
    CHANGES,
    CONTENTIONS,
    LOADS,
    THRESHOLD,
    TRAFFIC,
    Traffic,
)
from specgate.cli.replay_words import EPILOG, draw, show, write
from specgate.cli.values import Finite
from specgate.core.config import Placement, PolicyConfig
from specgate.core.hold import Hold
from specgate.core.profile import Profile
from specgate.replay.plan import NoCurvesError, Plan, plan
from specgate.replay.record import Replay, replay_object, sweep_object
from specgate.replay.run import Change, World
from specgate.replay.traffic import TrafficError

LOAD, CONTENTION = (0.9,), (0.0,)
SWEEP_LOADS, SWEEP_CONTENTIONS = (0.3, 0.6, 0.9, 1.1), (0.0, 0.2, 0.4)


@click.command(
    epilog=EPILOG, short_help="Try the gate on traffic, recorded or made, in virtual time."
)
@click.option(
    "--profile",
    required=True,
    metavar="NAME|FILE",
    shell_complete=PROFILE.shell_complete,
    help="Both lanes' measured curves: a file, or the name of a profile that comes with specgate.",
)
@click.option(
    "--trace",
    "traffic",
    type=TRAFFIC,
    metavar="NAME|FILE",
    default="azure-conversation",
    show_default=True,
    help="A pattern, a trace that comes with specgate, or a file: CSV in the columns of the Azure "
    "LLM traces or BurstGPT's, or JSON lines with timestamp, prompt_tokens, output_tokens.",
)
@click.option(
    "--load",
    "loads",
    type=LOADS,
    metavar="FRACTION,...",
    help="Offered tokens as a fraction of what the better lane gives at its best: on the mean, or "
    "at the pattern's highest. The time axis is scaled to it.  [default: 0.9]",
)
@click.option(
    "--contention",
    "contentions",
    type=CONTENTIONS,
    metavar="K,...",
    help="While both lanes work, each is (1 + K) / 2 as fast: 0 is time slicing, 1 no interference."
    "  [default: 0]",
)
@click.option(
    "--sweep",
    is_flag=True,
    help="A table over loads 0.3,0.6,0.9,1.1 and contentions 0,0.2,0.4, or over those given.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Where in a trace it begins (0: as recorded), or the pattern's draw.",
)
@click.option(
    "--requests",
    type=click.IntRange(2, 1_000_000),
    default=20_000,
    show_default=True,
    help="At most so many.",
)
@click.option(
    "--cached",
    type=Finite(0, 1),
    default=0.0,
    show_default=True,
    help="Share of requests that go on with a conversation: after a switch the other lane reads "
    "their prompt anew.",
)
@click.option(
    "--gap",
    type=DURATION,
    metavar="TIME",
    default="60s",
    show_default=True,
    help="Mean time since such a conversation's last request.",
)
@click.option(
    "--prefill",
    type=Finite(1),
    default=7000.0,
    show_default=True,
    help="Prompt tokens a second that a lane reads.",
)
@click.option(
    "--accept",
    type=CHANGES,
    metavar="T:FACTOR,...",
    help="From T seconds on the accept length is FACTOR times the profile's: 600:0.5,1800:2.",
)
@click.option(
    "--adaptive",
    is_flag=True,
    help="The gate follows the live accept length, with a profile that holds the measured one.",
)
@click.option(
    "--pool",
    type=click.Choice([str(Placement.SHARED), str(Placement.SPLIT)]),
    default=str(Placement.SHARED),
    show_default=True,
    help="`split`: each lane has GPUs of its own, and the gate places each request.",
)
@click.option(
    "--threshold",
    type=THRESHOLD,
    metavar="LOAD|never|always",
    help="Try this threshold, in place of what the profile says.",
)
@click.option("--band", type=Finite(0, 1, max_open=True), help="With --threshold: the band.")
@click.option("--smoothing", type=Finite(0), help="With --threshold: the smoothing, in seconds.")
@click.option("--dwell", type=Finite(0), help="With --threshold: the dwell, in seconds.")
@click.option(
    "--switches-per-h",
    type=click.IntRange(0),
    metavar="N",
    help="After so many switches within an hour the gate stays plain; not with --threshold.  "
    f"[default: {PolicyConfig().switches_per_h}]",
)
@click.option(
    "--hold",
    type=click.IntRange(0),
    metavar="K",
    help="After a switch what arrives waits until no more than K requests are left on the other "
    "side, at most for a request's mean duration; not with --threshold.",
)
@click.option("--burst", type=Finite(1), help="With --threshold: the burst.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Write the figures as JSON; `-` for stdout, in place of the table.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for a picture, replay.svg; it needs the extra `bench`.",
)
def replay(
    *,
    profile: str,
    traffic: Traffic,
    loads: tuple[float, ...] | None,
    contentions: tuple[float, ...] | None,
    sweep: bool,
    seed: int,
    requests: int,
    cached: float,
    gap: float,
    prefill: float,
    accept: tuple[Change, ...] | None,
    adaptive: bool,
    pool: str,
    threshold: float | None,
    band: float | None,
    smoothing: float | None,
    dwell: float | None,
    switches_per_h: int | None,
    hold: int | None,
    burst: float | None,
    json_file: Path | None,
    out: Path | None,
) -> None:
    """Try the gate on traffic, in virtual time: recorded or made, against a profile.

    The gate's own code decides, request by request; the lanes share one pool and are as fast as
    the profile measured. Beside it stand each lane for everything, the bare count against the
    crossover (instant), and one who knew all that would come (clairvoyant). Several loads or
    contentions make a table of all pairs. No engine is needed, and nothing is sent.
    """
    loads = loads or (SWEEP_LOADS if sweep else LOAD)
    contentions = contentions or (SWEEP_CONTENTIONS if sweep else CONTENTION)
    one = len(loads) == len(contentions) == 1
    if out is not None and not one:
        raise click.BadParameter("a picture is of one load and one contention", param_hint="--out")
    if json_file is not None and not json_file.parent.is_dir():
        raise click.BadParameter(f"{json_file.parent}: no such folder", param_hint="--json")
    by_hand = {"threshold": threshold, "band": band, "smoothing_s": smoothing, "dwell_s": dwell}
    by_hand |= {"burst": burst}
    for name, value in by_hand.items():
        if value is not None and threshold is None:
            said = "only with --threshold: the profile is weighed without it"
            raise click.BadParameter(said, param_hint=f"--{name.removesuffix('_s')}")
    by_hand |= {"switches_per_h": switches_per_h}
    knobs = {name: value for name, value in by_hand.items() if value is not None}
    placement = Placement(pool)
    if threshold is not None:
        _refuse_weighed(adaptive=adaptive, switches_per_h=switches_per_h, hold=hold)
    if hold is not None and placement is Placement.SPLIT:
        raise click.BadParameter("not with --pool split: it has no switch", param_hint="--hold")
    make = partial(
        plan,
        by_hand=knobs,
        adaptive=adaptive,
        placement=placement,
        hold=None if hold is None else Hold(hold),
    )
    made = _plan(profile, traffic, partial(make, seed=seed, requests=requests))
    _check(accept or (), made)
    worlds = [
        World(
            contention=contention,
            apart=placement is Placement.SPLIT,
            cached=cached,
            gap_s=gap,
            prefill_tok_s=prefill,
            changes=accept or (),
        )
        for contention in contentions
    ]
    replays = list(_replays(made, loads, worlds))
    if json_file is not None:
        write(json_file, replay_object(made, replays[0]) if one else sweep_object(made, replays))
    if json_file is None or str(json_file) != "-":
        show(made, replays)
    if out is not None:
        click.echo(draw(made, replays[0], out), err=str(json_file) == "-")


def _refuse_weighed(*, adaptive: bool, switches_per_h: int | None, hold: int | None) -> None:
    """What a threshold by hand does not know."""
    why = {
        "--adaptive": (adaptive, "it is never moved"),
        "--switches-per-h": (switches_per_h is not None, "only a weighed profile has the limit"),
        "--hold": (hold is not None, "how long a request takes is known with a profile alone"),
    }
    for name, (given, said) in why.items():
        if given:
            raise click.BadParameter(f"not with --threshold: {said}", param_hint=name)


def _plan(profile: str, traffic: Traffic, make: Callable[..., Plan]) -> Plan:
    # Converted here, not by click, as the name is wanted too.
    ctx = click.get_current_context()
    param = next(each for each in ctx.command.params if each.name == "profile")
    found: Profile = PROFILE.convert(profile, param, ctx)
    try:
        return make(found, Path(profile).name, traffic.name, traffic.recorded)
    except NoCurvesError as error:
        raise click.BadParameter(f"{profile}: {error}", param_hint="--profile") from error


def _check(changes: Sequence[Change], made: Plan) -> None:
    accept, steps = made.curves.accept_length, made.curves.steps
    for at, factor in changes:
        if accept is None:
            continue
        most = math.inf if steps is None else steps + 1.0
        if not 1.0 <= accept * factor <= most:
            raise click.BadParameter(
                f"{at:g}:{factor:g} would make the accept length {accept * factor:.2f}, which "
                f"cannot be{'' if steps is None else f' with {steps} draft steps'}",
                param_hint="--accept",
            )


def _replays(made: Plan, loads: Sequence[float], worlds: Sequence[World]) -> Iterator[Replay]:
    many = len(loads) * len(worlds)
    live = many > 1 and sys.stderr.isatty()
    for load in loads:
        for world in worlds:
            try:
                found = made.replayed(load, world)
            except TrafficError as error:
                raise click.BadParameter(str(error), param_hint="--trace") from error
            yield Replay(load, world, found)
            if live:
                click.echo(".", nl=False, err=True)
    if live:
        click.echo(err=True)
