"""A real Prometheus scrapes a gate and a simulated pair under load, with the configuration that is
shipped, and answers every query of the dashboard."""

import asyncio
import math
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from specgate.core.lanes import Lane
from specgate.sim.faults import Faults
from specgate.sim.profiles import load_profile
from specgate.sim.server import RunningLane, SimLane, running
from tests.deploy import dashboard
from tests.deploy.tools import DEPLOY, need, read_yaml
from tests.support.live import LiveGate, running_gate

PROFILE = "k26-int4-8xrtxpro6000-vllm-ctx41k"
"""Speculation wins alone and loses from 3 requests on."""

SCRAPE_S = 0.2

EMPTY = {
    "Upstream errors / rerouted to {{lane}}": "a reroute needs a lane that takes no connection, "
    "and such a lane has no metrics to scrape either",
}
"""Queries that have no data here, and why that is right."""


@pytest.mark.slow
async def test_every_query_of_the_dashboard_has_data(tmp_path: Path):
    program = need("prometheus", "Debian's package prometheus")
    lanes = [SimLane(lane=lane) for lane in Lane]
    async with (
        running(lanes, profile=load_profile(PROFILE), time_scale=20) as sims,
        running_gate(
            sims[Lane.SPEC].url,
            sims[Lane.PLAIN].url,
            threshold=2.9,
            smoothing_s=0.3,
            dwell_s=0.2,
        ) as gate,
        prometheus(program, tmp_path, gate, sims) as api,
    ):
        begin = time.time()
        await load(gate, sims)
        # The last of it is scraped, too.
        await asyncio.sleep(3 * SCRAPE_S)
        end = time.time()
        found = {
            name: await values(api, expr, begin, end)
            for name, expr in dashboard.queries(rate_interval="2s")
        }
    empty = {name for name, series in found.items() if not series}
    assert empty == set(EMPTY)
    assert set(found["Side now / {{side}}"]) == {"spec", "plain"}
    assert {"below_threshold", "above_threshold"} <= set(found["Decisions by reason / {{reason}}"])
    for name in ("Time to first token / {{lane}} p95", "Output tokens a second / {{lane}}"):
        assert set(found[name]) == {"spec", "plain"}, name
        assert all(max(series) > 0 for series in found[name].values()), name
    assert max(max(series) for series in found["Switches / switches a minute"].values()) > 0


async def load(gate: LiveGate, sims: Mapping[Lane, RunningLane]) -> None:
    """Few, many, few; then one client leaves and one lane breaks a stream off."""
    for concurrency in (1, 8, 1):
        until = time.monotonic() + 1.5
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(requests(gate, until))
    async with gate.http.stream("POST", "/v1/chat/completions", json=body(2_000)) as response:
        await anext(response.aiter_raw())
    for sim in sims.values():
        sim.engine.set_faults(Faults(cut_after_chunks=2))
    with pytest.raises(httpx2.HTTPError):
        await gate.http.post("/v1/chat/completions", json=body(50))


async def requests(gate: LiveGate, until: float) -> None:
    while time.monotonic() < until:
        response = await gate.http.post("/v1/chat/completions", json=body(30))
        assert response.status_code == 200


def body(tokens: int) -> dict[str, Any]:
    return {
        "model": "sim",
        "messages": [{"role": "user", "content": "Tell me a story."}],
        "max_tokens": tokens,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@asynccontextmanager
async def prometheus(
    program: str, home: Path, gate: LiveGate, sims: Mapping[Lane, RunningLane]
) -> AsyncIterator[httpx2.AsyncClient]:
    """Prometheus with the shipped configuration, but for addresses and pace; its HTTP API."""
    config = read_yaml(DEPLOY / "prometheus" / "prometheus.yml")
    config["global"] |= {"scrape_interval": f"{SCRAPE_S * 1000:.0f}ms", "scrape_timeout": "200ms"}
    text = yaml.safe_dump(config).replace("gate:8400", f"{gate.host}:{gate.port}")
    for name, lane in (("spec:30000", Lane.SPEC), ("plain:30001", Lane.PLAIN)):
        text = text.replace(name, sims[lane].url.removeprefix("http://"))
    (home / "prometheus.yml").write_text(text)
    with socket.create_server(("127.0.0.1", 0)) as held:
        address = "{}:{}".format(*held.getsockname()[:2])
    child = await asyncio.create_subprocess_exec(
        program,
        f"--config.file={home / 'prometheus.yml'}",
        f"--storage.tsdb.path={home / 'data'}",
        f"--web.listen-address={address}",
        "--log.level=warn",
        stderr=subprocess.DEVNULL,
    )
    try:
        async with httpx2.AsyncClient(base_url=f"http://{address}", trust_env=False) as api:
            await until_scraping(api, child)
            yield api
    finally:
        if child.returncode is None:
            child.terminate()
        await child.wait()


async def until_scraping(api: httpx2.AsyncClient, child: asyncio.subprocess.Process) -> None:
    """Until each target was scraped once, which takes Prometheus some 5 s."""
    async with asyncio.timeout(30):
        while child.returncode is None:
            try:
                targets = (await api.get("/api/v1/targets")).json()["data"]["activeTargets"]
            except (httpx2.TransportError, ValueError):
                targets = []
            if [target["health"] for target in targets] == ["up"] * 3:
                return
            await asyncio.sleep(0.05)
    pytest.fail(f"Prometheus ended with {child.returncode}")


async def values(
    api: httpx2.AsyncClient, expr: str, begin: float, end: float
) -> dict[str, list[float]]:
    """The numbers of each series in that time, by its labels' values; none without numbers."""
    response = await api.post(
        "/api/v1/query_range",
        data={"query": expr, "start": str(begin), "end": str(end), "step": str(SCRAPE_S)},
    )
    answer = response.json()
    assert answer["status"] == "success", (expr, answer)
    found: dict[str, list[float]] = {}
    for series in answer["data"]["result"]:
        labels = {key: value for key, value in series["metric"].items() if key != "__name__"}
        numbers = [float(value) for _, value in series["values"]]
        real = [number for number in numbers if math.isfinite(number)]
        if real:
            found[" ".join(labels.values())] = real
    return found
