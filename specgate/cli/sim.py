"""`specgate sim`: simulated engines on real ports, until a signal ends them."""

import asyncio
import math
import signal
from collections.abc import Sequence

import click
import uvloop

from specgate.cli.completion import Completions, beginning
from specgate.cli.values import KEY, LISTEN_HOST, NAME, Finite
from specgate.core.lanes import Lane
from specgate.sim.faults import Faults, FaultsError, read_faults
from specgate.sim.profiles import (
    REFERENCE,
    Profile,
    UnknownProfileError,
    load_profile,
    profile_names,
)
from specgate.sim.server import CannotListenError, RunningLane, SimLane, running

EXAMPLES = """\b
Examples:
  One plain lane that behaves like the reference deployment:
    specgate sim --lane plain --port 30001
\b
  Both lanes in one process; they contend for one simulated pool:
    specgate sim --lane spec --port 30000 --lane plain --port 30001
\b
  A profile that crosses at about 39 requests, ten times as fast as real time:
    specgate sim --lane spec --port 30000 --lane plain --port 30001 \\
        --profile k26-int4-8xrtxpro6000-vllm-ctx10k --time-scale 10
\b
  Two lanes on a pool that holds one; the spec lane sleeps, and loses its weights when it wakes:
    specgate sim --lane spec --port 30000 --lane plain --port 30001 --asleep spec \\
        --faults 'spec={"weights_lost": true}'
\b
  Then, to break it and to mend it:
    curl -X POST localhost:30000/_sim/faults -d '{"cut_after_chunks": 5}'
    curl -X DELETE localhost:30000/_sim/faults

Exit status: 0 a signal ended it, 1 a port is taken, 2 wrong usage.
"""


def _profile(ctx: click.Context, param: click.Parameter, value: str) -> Profile:
    try:
        return load_profile(value)
    except UnknownProfileError as exc:
        raise click.BadParameter(str(exc)) from exc


def _names(ctx: click.Context, param: click.Parameter, incomplete: str) -> Completions:
    return beginning(profile_names(), incomplete)


def _faults(
    ctx: click.Context, param: click.Parameter, values: Sequence[str]
) -> dict[Lane, Faults]:
    found: dict[Lane, Faults] = {}
    for value in values:
        lane, _, text = value.partition("=")
        if lane not in set(Lane):
            raise click.BadParameter(f"{value!r} does not begin with spec= or plain=")
        try:
            found[Lane(lane)] = read_faults(text.encode())
        except FaultsError as exc:
            raise click.BadParameter(f"{lane}: {exc}") from exc
    return found


@click.command(epilog=EXAMPLES, short_help="Simulate SGLang engines on real ports, without a GPU.")
@click.option(
    "--lane",
    "lanes",
    type=click.Choice([lane.value for lane in Lane]),
    multiple=True,
    help="Which lane to simulate, at least one. Repeat --lane and --port in pairs for both.",
)
@click.option(
    "--port",
    "ports",
    type=click.IntRange(0, 65_535),
    multiple=True,
    help="Port of the lane of the same position; 0 is any free one.",
)
@click.option(
    "--host",
    type=LISTEN_HOST,
    metavar="HOST",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on.",
)
@click.option(
    "--profile",
    metavar="NAME",
    default=REFERENCE,
    show_default=True,
    callback=_profile,
    shell_complete=_names,
    help="Measured curves to follow; a wrong name lists them all.",
)
@click.option(
    "--time-scale",
    type=Finite(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Simulated seconds per real second.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of words and acceptance.")
@click.option(
    "--kappa",
    type=Finite(0, 1),
    default=0.0,
    show_default=True,
    help="How well busy lanes share the pool: 0 time slicing, 1 no interference.",
)
@click.option(
    "--model",
    type=NAME,
    metavar="NAME",
    default="sim",
    show_default=True,
    help="Model name to serve.",
)
@click.option("--api-key", type=KEY, metavar="KEY", default=None, help="Ask for this bearer token.")
@click.option(
    "--faults",
    metavar="LANE=JSON",
    multiple=True,
    callback=_faults,
    help="A lane's faults from its start, as /_sim/faults takes them.",
)
@click.option(
    "--asleep",
    type=click.Choice([lane.value for lane in Lane]),
    default=None,
    help="The lane that starts with its memory released; the pool then holds one lane at a time.",
)
def sim(
    lanes: Sequence[str],
    ports: Sequence[int],
    host: str,
    profile: Profile,
    time_scale: float,
    seed: int,
    kappa: float,
    model: str,
    api_key: str | None,
    faults: dict[Lane, Faults],
    asleep: str | None,
) -> None:
    """Simulate an SGLang engine: its HTTP surface, batching, speculation and load, no GPU.

    What is modelled, and what is not, is in docs/reference/simulator.md.
    """
    if not lanes:
        raise click.UsageError("--lane is missing: spec, plain, or both, each with its --port")
    if len(lanes) != len(ports):
        raise click.UsageError(
            f"--lane and --port go in pairs: {len(lanes)} of --lane, {len(ports)} of --port"
        )
    if len(set(lanes)) != len(lanes):
        raise click.UsageError("--lane: each lane can be given once")
    unknown = [lane for lane in (*faults, *([asleep] if asleep else [])) if lane not in lanes]
    if unknown:
        raise click.UsageError(f"--faults, --asleep: there is no {unknown[0]} lane to simulate")
    wanted = [
        SimLane(
            lane=Lane(lane),
            host=host,
            port=port,
            model_name=model,
            api_key=api_key,
            asleep=lane == asleep,
            faults=faults.get(Lane(lane), Faults()),
        )
        for lane, port in zip(lanes, ports, strict=True)
    ]
    holds = len(Lane) if asleep is None else 1
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(
                _serve(wanted, profile, time_scale=time_scale, seed=seed, kappa=kappa, holds=holds)
            )
    except CannotListenError as exc:
        raise click.ClickException(f"--host/--port: {exc}") from exc


async def _serve(
    lanes: Sequence[SimLane],
    profile: Profile,
    *,
    time_scale: float,
    seed: int,
    kappa: float,
    holds: int,
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with running(
        lanes, profile=profile, time_scale=time_scale, seed=seed, kappa=kappa, holds=holds
    ) as sims:
        for running_lane in sims.values():
            click.echo(_line(running_lane, profile, time_scale))
        await stop.wait()


def _line(running_lane: RunningLane, profile: Profile, time_scale: float) -> str:
    pace = "" if time_scale == 1 else f", {time_scale:g} times real time"
    lane = f"{running_lane.engine.lane.value} lane"
    return f"{lane:<10}  {running_lane.url}  profile {profile.id} ({_crossing(profile)}){pace}"


def _crossing(profile: Profile) -> str:
    crossing = profile.crossing()
    if crossing == 0:
        return "speculation does not pay at low load"
    if math.isinf(crossing):
        return f"speculation pays up to {profile.concurrency[-1]} at least"
    return f"speculation pays below {crossing:.3g}"
