"""A gate on a real socket, in this process: `async with running_gate(spec, plain) as gate:`."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from specgate.service import Service, serving
from specgate.settings import load
from specgate.wiring import build
from tests.support.observer import Recorder


@dataclass
class LiveGate:
    """A running gate: where it listens, what it is made of, and the facts it told."""

    url: str
    host: str
    port: int
    service: Service
    facts: Recorder
    http: httpx2.AsyncClient

    async def status(self) -> dict[str, Any]:
        status: dict[str, Any] = (await self.http.get("/_specgate/status")).json()
        return status

    async def metrics(self) -> str:
        return (await self.http.get("/metrics")).text


def environment(**settings: Any) -> dict[str, str]:
    """Settings as the environment would give them: `threshold=3` is SPECGATE_THRESHOLD=3."""
    return {
        "SPECGATE_PROBE_INTERVAL_S": "0.1",
        **{f"SPECGATE_{name.upper()}": str(value) for name, value in settings.items()},
    }


BARE = {"smoothing_s": 0, "band": 0, "dwell_s": 0}
"""Settings under which the policy compares the bare count, as many cases want it."""


PORTABLE = False
"""Whether gates run in their portable form, through ASGI alone: the fixture `form` sets it."""


@asynccontextmanager
async def running_gate(
    spec_url: str, plain_url: str, *, ready: bool = True, **settings: Any
) -> AsyncIterator[LiveGate]:
    """Serve a gate on a free port. `ready`: wait until both lanes' health is known."""
    environ = environment(spec_url=spec_url, plain_url=plain_url, **settings)
    async with gate_in(environ, ready=ready) as gate:
        yield gate


@asynccontextmanager
async def gate_in(environ: dict[str, str], *, ready: bool = True) -> AsyncIterator[LiveGate]:
    """The same with all its settings from `environ`, which a reload reads again."""
    facts = Recorder()
    service = build(load(environ).settings, reload=lambda: load(environ), observers=(facts,))
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    async with serving(service, listener, portable=PORTABLE):
        host, port = listener.getsockname()[:2]
        url = f"http://{host}:{port}"
        async with httpx2.AsyncClient(base_url=url, trust_env=False, timeout=30) as http:
            gate = LiveGate(url, host, port, service, facts, http)
            if ready:
                await _until_known(gate)
            yield gate


async def _until_known(gate: LiveGate) -> None:
    async with asyncio.timeout(10):
        while any(lane.health == "probing" for lane in gate.service.gate.view().lanes.values()):
            await asyncio.sleep(0.01)
