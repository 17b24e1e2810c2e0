"""What a real Prometheus scrapes: gates in processes of their own before a simulated pair of lanes.

Three gates, as three deployments would have it: one with a threshold, one that weighs with a
profile, one in shadow without either. The pair's drafts are hardly ever accepted, so that what is
to be told of that is.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
import yaml

from specgate.core.lanes import Lane
from specgate.core.profile import dumps
from specgate.sim.faults import Faults
from specgate.sim.profiles import load_profile
from specgate.sim.server import RunningLane, SimLane, running
from tests.deploy.prometheus.reading import CONFIG, RULES
from tests.deploy.prometheus.server import Api, free_ports, serving
from tests.deploy.prometheus.stand_ins import stand_ins
from tests.deploy.tools import read_yaml
from tests.support.process import GateProcess, serve_process
from tests.support.profiles import with_accept_length

SIMULATED = "k26-int4-8xrtxpro6000-vllm-ctx41k"
"""Speculation wins alone and loses from 3 requests on."""

PROFILE = "k26-int4-8xrtxpro6000-vllm-ctx10k"
BENCH_ACCEPT_LENGTH = 2.5

TOKEN = "a-token"

IN_VAIN = Faults(accept_length_factor=0.01)
"""Hardly a draft is accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """`gates`: with a threshold, weighing, in shadow. `home`: where their files are."""

    gates: Mapping[str, GateProcess]
    sims: Mapping[Lane, RunningLane]
    api: Api
    http: httpx2.AsyncClient
    home: Path

    async def ask(self, gate: str, tokens: int, *, stream: bool = True) -> int:
        """The status of one generation."""
        body: dict[str, Any] = {
            "model": "sim",
            "messages": [{"role": "user", "content": "Tell me a story."}],
            "max_tokens": tokens,
            "ignore_eos": True,
            "stream": stream,
        }
        if stream:
            body["stream_options"] = {"include_usage": True}
        url = self.gates[gate].url + "/v1/chat/completions"
        return (await self.http.post(url, json=body)).status_code

    async def change(self, gate: str, method: str, path: str, body: Any = None) -> int:
        return (
            await self.http.request(
                method,
                f"{self.gates[gate].url}/_specgate/{path}",
                json=body,
                headers={"authorization": f"Bearer {TOKEN}"},
            )
        ).status_code


@asynccontextmanager
async def staged(
    home: Path, program: str, *, scrape_s: float | None, time_scale: float
) -> AsyncIterator[Stage]:
    """`scrape_s`: Prometheus's and the gates' pace, None as shipped; time_scale: the lanes'."""
    lanes: list[Any] = [SimLane(lane=lane) for lane in Lane]
    async with AsyncExitStack() as stack:
        sims = await stack.enter_async_context(
            running(lanes, profile=load_profile(SIMULATED), time_scale=time_scale)
        )
        sims[Lane.SPEC].engine.set_faults(IN_VAIN)
        urls = {f"SPECGATE_{lane.upper()}_URL": sims[lane].url for lane in Lane}
        others = await stack.enter_async_context(stand_ins())
        asked = _settings(home, scrape_s)
        # Prometheus takes five seconds before its first scrape; the gates start meanwhile.
        ports = dict(zip(asked, free_ports(len(asked)), strict=True))
        config = home / "prometheus.yml"
        config.write_text(_config(list(ports.values()), sims, others, scrape_s))
        api = await stack.enter_async_context(serving(program, config, home / "data"))
        gates = dict(
            zip(
                asked,
                await asyncio.gather(
                    *(
                        stack.enter_async_context(
                            serve_process({**urls, **asked[name], "SPECGATE_PORT": str(port)})
                        )
                        for name, port in ports.items()
                    )
                ),
                strict=True,
            )
        )
        http = await stack.enter_async_context(httpx2.AsyncClient(trust_env=False, timeout=60))
        await api.until_all_are_up(targets=len(gates) + len(sims) + len(others))
        yield Stage(gates=gates, sims=sims, api=api, http=http, home=home)


def _settings(home: Path, scrape_s: float | None) -> dict[str, dict[str, str]]:
    quick = {} if scrape_s is None else {"SPECGATE_SCRAPE_INTERVAL_S": str(scrape_s)}
    every = {
        "SPECGATE_PROBE_INTERVAL_S": "0.3",
        "SPECGATE_DRAIN_SETTLE_S": "0",
        "SPECGATE_ADMIN_TOKEN": TOKEN,
        **quick,
    }
    (home / "profile.json").write_text(_profile())
    (home / "gate.toml").write_text(_toml("2.9"))
    return {
        "threshold": {
            **every,
            "SPECGATE_CONFIG": str(home / "gate.toml"),
            "SPECGATE_SMOOTHING_S": "0.2",
            "SPECGATE_DWELL_S": "0.2",
        },
        "weighing": {**every, "SPECGATE_PROFILE": str(home / "profile.json")},
        "shadow": {**every, "SPECGATE_SHADOW": "spec"},
    }


def _toml(threshold: str) -> str:
    return f"threshold = {threshold}\n"


def spoil_settings(home: Path) -> None:
    """Of the gate with a threshold: what a reload must refuse."""
    (home / "gate.toml").write_text(_toml('"many"'))


def _profile() -> str:
    """The published table, as if its accept length had been measured too; old, of another model."""
    profile = with_accept_length(PROFILE, BENCH_ACCEPT_LENGTH)
    told = replace(profile.fingerprint, model="another", measured_at="2020-02-02T20:20:20Z")
    return dumps(replace(profile, fingerprint=told))


def _config(
    ports: Sequence[int],
    sims: Mapping[Lane, RunningLane],
    others: Mapping[str, str],
    scrape_s: float | None,
) -> str:
    """The shipped configuration, but for addresses and pace; other engines in jobs of their own."""
    config = read_yaml(CONFIG)
    if scrape_s is not None:
        pace = f"{scrape_s * 1000:.0f}ms"
        config["global"] |= dict.fromkeys(("scrape_interval", "scrape_timeout"), pace)
        config["global"]["evaluation_interval"] = "1s"
    assert config["rule_files"] == ["rules/*.yml"]
    config["rule_files"] = [str(RULES / "*.yml")]
    named = {job["job_name"]: job for job in config["scrape_configs"]}
    named["specgate"]["static_configs"] = [{"targets": [f"127.0.0.1:{port}" for port in ports]}]
    for group in named["engine"]["static_configs"]:
        lane = Lane(group["labels"]["lane"])
        group["targets"] = [sims[lane].url.removeprefix("http://")]
    for name, address in others.items():
        targets = [{"targets": [address], "labels": {"lane": "spec"}}]
        config["scrape_configs"].append({"job_name": name, "static_configs": targets})
    return yaml.safe_dump(config)


async def pulses(stage: Stage, count: int, *, wide_s: float, rest_s: float) -> int:
    """Load that rises over the threshold and falls below it so often, each time two switches of the
    gate that has one; the others have one client each. How many requests that gate answered."""
    answered = 0
    for _ in range(count):
        for clients, lasts_s in ((6, wide_s), (1, rest_s)):
            until = asyncio.get_running_loop().time() + lasts_s
            async with asyncio.TaskGroup() as group:
                mine = [
                    group.create_task(_requests(stage, "threshold", until)) for _ in range(clients)
                ]
                group.create_task(_requests(stage, "weighing", until))
                group.create_task(_requests(stage, "shadow", until))
            answered += sum(task.result() for task in mine)
    return answered


async def _requests(stage: Stage, gate: str, until: float) -> int:
    loop = asyncio.get_running_loop()
    count = 0
    while loop.time() < until:
        assert await stage.ask(gate, 20, stream=count % 2 == 0) == 200
        count += 1
    return count


async def trouble(stage: Stage, *, after: int, quiet_s: float) -> None:
    """A client leaves, a reload is refused, a mode is forced, streams break off, an engine answers
    500; then one lane goes down, then the other. after: how many requests went
    well, of which enough others must fail. quiet_s: what the last two are given to show."""
    url = stage.gates["threshold"].url + "/v1/chat/completions"
    body = {"model": "sim", "prompt": "x", "messages": [], "max_tokens": 5_000, "stream": True}
    body["messages"] = [{"role": "user", "content": "Tell me a story."}]
    async with stage.http.stream("POST", url, json=body) as response:
        await anext(response.aiter_raw())
    spoil_settings(stage.home)
    assert await stage.change("threshold", "POST", "reload") == 422
    assert await stage.change("threshold", "PUT", "mode", {"mode": "plain"}) == 200
    plain, spec = stage.sims[Lane.PLAIN].engine, stage.sims[Lane.SPEC].engine
    plain.set_faults(Faults(cut_after_chunks=2))
    for _ in range(after // 200 + 1):
        assert any(await asyncio.gather(*(_broken_off(stage) for _ in range(40))))
    plain.set_faults(Faults(status=500))
    for _ in range(after // 200 + 1):
        statuses = await asyncio.gather(*(stage.ask("threshold", 5) for _ in range(40)))
        assert set(statuses) == {500}
    spec.set_faults(Faults(not_ready=True))
    await asyncio.sleep(quiet_s)
    plain.set_faults(Faults(not_ready=True))
    await asyncio.sleep(quiet_s)


async def _broken_off(stage: Stage) -> bool:
    """Whether one was. So many may eject the lane, and the others go to spec."""
    try:
        return await stage.ask("threshold", 50) != 200
    except httpx2.HTTPError:
        return True
