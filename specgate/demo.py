"""The demo: two simulated engines, a gate in front of them, and a load that rises and falls.

Real sockets throughout: what the table shows went through the gate as a client's request would.
The engines are simulated and so is their time: `time_scale` times faster than the wall clock.
Throughput is told in the engines' own time, so that it can be held against the profile's table.
"""

import asyncio
import json
import math
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field

import httpx2

from specgate.core.lanes import Lane
from specgate.core.sse import EventDecoder
from specgate.core.tap import StreamTap
from specgate.core.view import GateView
from specgate.proxy.replies import LANE_HEADER
from specgate.service import Service, serving
from specgate.settings import load
from specgate.sim.profiles import Profile, load_profile
from specgate.sim.server import SimLane
from specgate.sim.server import running as running_lanes
from specgate.wiring import build

DEFAULT_PROFILE = "k26-int4-8xrtxpro6000-vllm-ctx41k"
"""A published table that crosses early: speculation wins by 41 % alone and loses from C=4 on."""

DEFAULT_RAMP = (1, 2, 8, 16, 8, 2, 1)
OUTPUT_TOKENS = 96
PROMPTS = (
    "Write a short story about a lighthouse keeper who collects sounds.",
    "Summarise the causes of the French Revolution in three sentences.",
    "Write a Python function that merges two sorted lists.",
    "Translate into German: the train leaves at half past seven from platform two.",
    "A tank fills in 6 hours and empties in 9. How long do both take together?",
    "List every person named in: Ada met Charles and Mary at the house of Lord King.",
)
REST_S = 0.25
"""Between two looks at the gate for the live table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`port`: the gate's, 0 for any free one. `level_s`: wall seconds a level lasts."""

    profile: str = DEFAULT_PROFILE
    ramp: tuple[int, ...] = DEFAULT_RAMP
    level_s: float = 6.0
    time_scale: float = 4.0
    port: int = 8400
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level of the ramp, over its whole time. `side`: at its end; `tok_s`: engines' time."""

    concurrency: int
    side: Lane
    tok_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTotal:
    """What one lane answered."""

    requests: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The whole ramp. `errors`: requests without a whole, counted answer."""

    requests: int
    errors: int
    switches: int
    in_flight_at_end: int
    lanes: dict[Lane, LaneTotal]
    levels: list[Level]

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What the live table shows now; `tok_s` is of the level so far, in the engines' time."""

    concurrency: int
    view: GateView
    tok_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A demo that runs: where the gate listens, and what stands behind it."""

    url: str
    service: Service
    profile: Profile
    threshold: float
    options: Options


@dataclass(slots=True)
class _Tally:
    """`answers`: of each whole answer its begin and end (monotonic seconds) and its tokens."""

    requests: Counter[Lane] = field(default_factory=Counter)
    tokens: Counter[Lane] = field(default_factory=Counter)
    answers: list[tuple[float, float, int]] = field(default_factory=list)
    errors: int = 0

    def tokens_between(self, begin: float, end: float) -> float:
        """Tokens that fell into a time, those of an answer spread evenly over it: what only
        counted whole answers would miss the ones that its edges cut."""
        return sum(
            tokens * max(0.0, min(end, ended) - max(begin, began)) / (ended - began)
            for began, ended, tokens in self.answers
        )


@asynccontextmanager
async def staged(options: Options) -> AsyncIterator[Stage]:
    """Both engines and the gate, up and ready. Raises OSError if the port is taken, ValueError
    for a profile that there is not."""
    profile = load_profile(options.profile)
    threshold = profile.crossing()
    lanes = [SimLane(lane=lane, port=0) for lane in Lane]
    with socket.create_server(("127.0.0.1", options.port), backlog=1024) as listener:
        async with running_lanes(
            lanes, profile=profile, time_scale=options.time_scale, seed=options.seed
        ) as engines:
            loaded = load(
                _environment(options, threshold, engines[Lane.SPEC].url, engines[Lane.PLAIN].url)
            )
            service = build(loaded.settings, reload=lambda: loaded)
            async with serving(service, listener):
                port = listener.getsockname()[1]
                yield Stage(
                    url=f"http://127.0.0.1:{port}",
                    service=service,
                    profile=profile,
                    threshold=threshold,
                    options=options,
                )


async def ramp(stage: Stage, show: Callable[[Look], None]) -> Result:
    """Drive the load up and down through the gate; `show` is called a few times a second."""
    options = stage.options
    tally = _Tally()
    async with httpx2.AsyncClient(
        base_url=stage.url,
        trust_env=False,
        timeout=None,
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None),
    ) as client:
        levels = [
            await _level(stage, client, concurrency, tally, show) for concurrency in options.ramp
        ]
    view = await _at_rest(stage)
    return Result(
        requests=tally.requests.total() + tally.errors,
        errors=tally.errors,
        switches=view.switches,
        in_flight_at_end=view.counts.total,
        lanes={
            lane: LaneTotal(requests=tally.requests[lane], tokens=tally.tokens[lane])
            for lane in Lane
        },
        levels=levels,
    )


async def _level(
    stage: Stage,
    client: httpx2.AsyncClient,
    concurrency: int,
    tally: _Tally,
    show: Callable[[Look], None],
) -> Level:
    """Keep `concurrency` requests in flight for the level's time, then let them end."""
    tally.answers.clear()
    started = time.monotonic()
    ends_at = started + stage.options.level_s

    def tok_s() -> float:
        now = min(ends_at, time.monotonic())
        passed = (now - started) * stage.options.time_scale
        return tally.tokens_between(started, now) / passed if passed > 0 else 0.0

    async def client_loop(number: int) -> None:
        turn = number
        while time.monotonic() < ends_at:
            await _request(client, turn, tally)
            turn += concurrency

    async with asyncio.TaskGroup() as group:
        for number in range(concurrency):
            group.create_task(client_loop(number))
        while (now := time.monotonic()) < ends_at:
            show(Look(concurrency=concurrency, view=stage.service.gate.view(), tok_s=tok_s()))
            await asyncio.sleep(min(REST_S, ends_at - now))
        side = stage.service.gate.view().side
    return Level(concurrency=concurrency, side=side, tok_s=round(tok_s(), 1))


async def _request(client: httpx2.AsyncClient, turn: int, tally: _Tally) -> None:
    """One streamed chat; counted only if it came whole, with its own count of tokens."""
    body = {
        "model": "sim",
        "messages": [{"role": "user", "content": PROMPTS[turn % len(PROMPTS)]}],
        "max_tokens": OUTPUT_TOKENS,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    tap, decoder, last = StreamTap(), EventDecoder(), b""
    began = time.monotonic()
    try:
        async with client.stream("POST", "/v1/chat/completions", json=body) as response:
            lane = response.headers[LANE_HEADER.decode()]
            async for chunk in response.aiter_raw():
                tap.feed(chunk, 0.0)
                last = [last, *decoder.feed(chunk)][-1]
    except (httpx2.HTTPError, KeyError):
        tally.errors += 1
        return
    tokens = tap.output_tokens()
    if last != b"[DONE]" or tokens is None:
        tally.errors += 1
        return
    tally.requests[Lane(lane)] += 1
    tally.tokens[Lane(lane)] += tokens
    tally.answers.append((began, time.monotonic(), tokens))


async def _at_rest(stage: Stage) -> GateView:
    """The gate after the last client has gone: give it a moment to see that they have."""
    for _ in range(100):
        view = stage.service.gate.view()
        if view.counts.total == 0:
            break
        await asyncio.sleep(0.01)
    return stage.service.gate.view()


def _environment(options: Options, threshold: float, spec: str, plain: str) -> dict[str, str]:
    """The gate's settings, in the demo's hurried time: a level lasts seconds, so the load is
    smoothed over one and the dwell is a third of a level."""
    text = {0.0: "never", math.inf: "always"}.get(threshold, f"{threshold:.3f}")
    return {
        "SPECGATE_SPEC_URL": spec,
        "SPECGATE_PLAIN_URL": plain,
        "SPECGATE_THRESHOLD": text,
        "SPECGATE_SMOOTHING_S": f"{options.level_s / 6:g}",
        "SPECGATE_DWELL_S": f"{options.level_s / 3:g}",
        "SPECGATE_PROBE_INTERVAL_S": "0.5",
    }
