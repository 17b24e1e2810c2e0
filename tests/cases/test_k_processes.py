"""Cases F10, K02, K03 and O03: one process, one account, and what is left of what has gone."""

import asyncio
import os
from pathlib import Path

import pytest

from specgate.core.health import Health
from specgate.core.lanes import Lane
from specgate.upstream.base import Origin
from tests.support.client import CHAT, JSON, chat, connect, get
from tests.support.figures import figures, total
from tests.support.lanes import ScriptedLane, json_response
from tests.support.live import environment
from tests.support.process import GateProcess, serve_process
from tests.support.stage import stage


def processes_of(pid: int) -> list[str]:
    """Children, of whatever kind."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [child for task in tasks for child in (task / "children").read_text().split()]


async def ask(gate: GateProcess, times: int) -> None:
    async with connect(gate.url) as client:
        for _ in range(times):
            assert (await client.request(b"POST", CHAT, [JSON], chat())).status == 200


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="needs Linux's /proc")
async def test_f10_workers_multiply_limits():
    """With four workers each had a count of its own, and let in four times as much."""
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        environ = environment(spec_url=spec.url, plain_url=plain.url, threshold=3)
        async with serve_process({**environ, "WEB_CONCURRENCY": "4"}) as gate:
            await ask(gate, 2)
            assert processes_of(gate.pid) == [], "one process, whatever the variable says"


async def test_k02_multi_process(tmp_path: Path):
    """Each scrape hit some worker; values of dead ones lay in files and were summed."""
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        environ = environment(spec_url=spec.url, plain_url=plain.url, threshold="always")
        shared = {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path), "WEB_CONCURRENCY": "2"}
        async with serve_process({**environ, **shared}) as gate:
            for turn in range(1, 6):
                await ask(gate, 1)
                scrape = (await get(gate.url + "/metrics")).body.data.decode()
                assert total(scrape, "specgate_requests_total", route="chat") == turn
        assert list(tmp_path.iterdir()) == [], "nothing is kept outside the process"


async def test_k03_stale_series():
    """A backend was replaced, and its series stayed at what they last were."""
    async with stage() as on:
        await on.ask()
        before = figures(await on.gate.metrics())
        async with ScriptedLane("new") as new:
            new.answer("/v1/models", json_response(200, {"data": [{"owned_by": "vllm"}]}))
            on.gate.service.gate.set_origin(Origin.of(Lane.SPEC, new.url))
            after = figures(await on.gate.metrics())
            assert after.keys() == before.keys(), "no series is a backend's"
            assert on.spec.url not in str(after.keys())
            lanes = on.gate.service.gate.view().lanes
            assert lanes[Lane.SPEC].health in (Health.PROBING, Health.HEALTHY)
            await on.ask()
            assert [request.method for request in new.requests].count(b"POST") == 1


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
async def test_o03_log_level_ignored(level: str):
    """Each level shows what it says and no more; no library adds a line for each request."""
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        environ = environment(spec_url=spec.url, plain_url=plain.url, log_level=level)
        # Where INFO is not shown, the line that says where it listens is not either.
        loud = level in ("debug", "info")
        async with serve_process(environ, listening=loud) as gate:
            if loud:
                await ask(gate, 3)
                await gate.logged("request", count=3)
            else:
                await asyncio.sleep(2)
        levels = {line["level"] for line in gate.log if "level" in line}
        names = ["debug", "info", "warning", "error"]
        assert levels <= set(names[names.index(level) :])
        assert ("debug" in levels) == (level == "debug")
        loggers = {line["logger"] for line in gate.log if "logger" in line}
        assert loggers <= {"specgate", "specgate.connection"}, loggers
