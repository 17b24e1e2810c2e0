"""A ramp of load through a live gate, beside the same work with its side forced to either lane.

    python -m tests.policy.ramp --sim k26-int4-8xrtxpro6000-vllm-ctx41k --time-scale 4
    python -m tests.policy.ramp --spec-url U --plain-url U --profile bench/profile.json \\
        --prompts prompts.jsonl --max-tokens 96 --temperature 1

Each level keeps so many requests in flight until each of its clients has had so many answers: the
work is the same whoever serves it, so that what differs is the time. The ways take turns, and the
order is turned round each time, so that a machine that changes its pace does not favour one. The
figures in docs/explanation/policy.md are from here.
"""

import argparse
import asyncio
import json
import logging
import socket
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
import structlog

from specgate.bench.prompts import load as load_prompts
from specgate.bench.shipped import shipped, single
from specgate.core.lanes import Lane
from specgate.core.policy import Mode
from specgate.core.profile import dumps
from specgate.service import Service, serving
from specgate.settings import load
from specgate.sim.profiles import load_profile
from specgate.sim.server import SimLane
from specgate.sim.server import running as running_lanes
from specgate.wiring import build

WAYS = ("gate", "plain", "spec")


@dataclass(frozen=True, slots=True)
class Run:
    """One way through the whole ramp: wall seconds, of each level too, and the gate's switches."""

    way: str
    took_s: float
    levels_s: list[float]
    tokens: int
    switches: int
    sides: list[str]


async def ramp(
    service: Service, url: str, way: str, options: argparse.Namespace, prompts: Sequence[str]
) -> Run:
    """The whole ramp, one way."""
    gate = service.gate
    gate.set_mode(Mode.AUTO if way == "gate" else Mode(way))
    before, tokens, number = gate.switches, 0, 0
    levels_s, sides = [], []
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx2.AsyncClient(
        base_url=url, trust_env=False, timeout=None, limits=limits
    ) as client:

        async def one(first: int, step: int, count: int) -> int:
            got = 0
            for turn in range(count):
                body = {
                    "model": options.model,
                    "messages": [
                        {"role": "user", "content": prompts[(first + turn * step) % len(prompts)]}
                    ],
                    "max_tokens": options.max_tokens,
                    "temperature": options.temperature,
                    "seed": first + turn * step,
                    "ignore_eos": not options.natural_stop,
                }
                reply = await client.post("/v1/chat/completions", json=body)
                reply.raise_for_status()
                got += int(reply.json()["usage"]["completion_tokens"])
            return got

        for concurrency in options.levels:
            began = time.monotonic()
            counts = [one(number + k, concurrency, options.answers) for k in range(concurrency)]
            tokens += sum(await asyncio.gather(*counts))
            number += concurrency * options.answers
            levels_s.append(time.monotonic() - began)
            sides.append(str(gate.side))
    return Run(way, sum(levels_s), levels_s, tokens, gate.switches - before, sides)


def hurried(options: argparse.Namespace) -> str:
    """The simulated pair's own profile in a file, in the pair's time: the gate's is the wall's."""
    published = shipped(options.sim)
    levels = tuple(
        replace(
            level,
            arms={name: single(arm.tok_s * options.time_scale) for name, arm in level.arms.items()},
        )
        for level in published.levels
    )
    path = Path(tempfile.mkdtemp()) / "profile.json"
    path.write_text(dumps(replace(published, levels=levels)))
    return str(path)


@asynccontextmanager
async def engines(options: argparse.Namespace) -> AsyncIterator[tuple[str, str]]:
    """The URLs of both lanes; simulated ones run while the block does."""
    if options.sim is None:
        yield options.spec_url, options.plain_url
        return
    lanes = [SimLane(lane=lane, port=0) for lane in Lane]
    async with running_lanes(
        lanes, profile=load_profile(options.sim), time_scale=options.time_scale, seed=1
    ) as running:
        yield running[Lane.SPEC].url, running[Lane.PLAIN].url


async def main(options: argparse.Namespace) -> None:
    prompts = [prompt.text for prompt in load_prompts(options.prompts)]
    runs: list[Run] = []
    async with engines(options) as (spec, plain):
        settings = {
            "SPECGATE_SPEC_URL": spec,
            "SPECGATE_PLAIN_URL": plain,
            "SPECGATE_PROFILE": options.profile or hurried(options),
        }
        loaded = load(settings)
        with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            service = build(loaded.settings, reload=lambda: loaded)
            async with serving(service, listener):
                for turn in range(options.repeats):
                    for way in WAYS if turn % 2 == 0 else reversed(WAYS):
                        run = await ramp(service, url, way, options, prompts)
                        runs.append(run)
                        print(line(run), flush=True)
    print(summary(runs))
    if options.json is not None:
        Path(options.json).write_text(json.dumps([vars_of(run) for run in runs], indent=1))


def vars_of(run: Run) -> dict[str, Any]:
    return {name: getattr(run, name) for name in Run.__slots__}


def line(run: Run) -> str:
    levels = " ".join(f"{each:.1f}" for each in run.levels_s)
    return (
        f"{run.way:5}  {run.took_s:7.1f} s  {run.tokens} tokens  {run.switches} switches  "
        f"levels {levels}  sides {' '.join(run.sides)}"
    )


def summary(runs: list[Run]) -> str:
    """The gate's time over the better and over the worse fixed lane's, by the medians: of the time
    for a thousand tokens, as answers that stop where they like are not equally long."""
    took = {
        way: statistics.median(1000 * run.took_s / run.tokens for run in runs if run.way == way)
        for way in WAYS
    }
    better, worse = sorted((took["plain"], took["spec"]))
    return (
        f"a thousand tokens: gate {took['gate']:.2f} s, plain {took['plain']:.2f} s, "
        f"spec {took['spec']:.2f} s; "
        f"gate / better {took['gate'] / better:.3f}, gate / worse {took['gate'] / worse:.3f}"
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sim", help="a simulated pair, after this profile")
    parser.add_argument("--time-scale", type=float, default=4.0)
    parser.add_argument("--spec-url")
    parser.add_argument("--plain-url")
    parser.add_argument("--profile", help="the gate's; of a simulated pair its own by default")
    parser.add_argument("--prompts", default="builtin")
    parser.add_argument("--model", default="sim")
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--natural-stop", action="store_true")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument(
        "--levels",
        type=lambda text: [int(part) for part in text.split(",")],
        default=[1, 2, 4, 8, 16, 8, 4, 2, 1],
    )
    parser.add_argument("--answers", type=int, default=6, help="of each client at each level")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--json", help="where to write the runs")
    options = parser.parse_args()
    if options.sim is None and not (options.spec_url and options.plain_url and options.profile):
        parser.error("either --sim, or --spec-url, --plain-url and --profile")
    return options


if __name__ == "__main__":
    # A line for each request would be most of what is printed.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    asyncio.run(main(arguments()))
