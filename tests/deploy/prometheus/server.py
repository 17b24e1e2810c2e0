"""A real Prometheus, and what its HTTP API says."""

import asyncio
import math
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2


class Api:
    """`process`: Prometheus's, whose end ends all waiting."""

    def __init__(self, http: httpx2.AsyncClient, process: asyncio.subprocess.Process) -> None:
        self._http = http
        self._process = process

    async def until_all_are_up(self, targets: int) -> None:
        """Until so many targets were scraped once, which takes Prometheus some 5 s."""
        healths: list[str] = []
        async with asyncio.timeout(30):
            while healths != ["up"] * targets:
                if self._process.returncode is not None:
                    raise AssertionError(f"Prometheus ended with {self._process.returncode}")
                await asyncio.sleep(0.1)
                try:
                    found = (await self._http.get("/api/v1/targets")).json()["data"]
                except (httpx2.TransportError, ValueError):
                    continue
                healths = [target["health"] for target in found["activeTargets"]]

    async def over(
        self, expr: str, begin: float, end: float, step_s: float
    ) -> dict[str, list[float]]:
        """The numbers of each series in that time, by its labels' values; none without numbers."""
        return {
            " ".join(labels.values()): numbers
            for labels, numbers in await self.labelled(expr, begin, end, step_s)
        }

    async def labelled(
        self, expr: str, begin: float, end: float, step_s: float
    ) -> list[tuple[dict[str, str], list[float]]]:
        """The same, each with its labels."""
        response = await self._http.get(
            "/api/v1/query_range",
            params={"query": expr, "start": str(begin), "end": str(end), "step": str(step_s)},
        )
        answer = response.json()
        if answer["status"] != "success":
            raise AssertionError(f"{expr}: {answer}")
        found = []
        for series in answer["data"]["result"]:
            labels = {key: value for key, value in series["metric"].items() if key != "__name__"}
            numbers = [float(value) for _, value in series["values"]]
            real = [number for number in numbers if math.isfinite(number)]
            if real:
                found.append((labels, real))
        return found

    async def rules(self) -> list[dict[str, Any]]:
        """Each rule as Prometheus evaluates it: `health`, `lastError`, and of alerts `state`."""
        groups = (await self._http.get("/api/v1/rules")).json()["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        made = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [listener.getsockname()[1] for listener in made]


@asynccontextmanager
async def serving(program: str, config: Path, data: Path) -> AsyncIterator[Api]:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    child = await asyncio.create_subprocess_exec(
        program,
        f"--config.file={config}",
        f"--storage.tsdb.path={data}",
        f"--web.listen-address={address}",
        "--log.level=warn",
        stderr=subprocess.DEVNULL,
    )
    try:
        async with httpx2.AsyncClient(
            base_url=f"http://{address}", trust_env=False, timeout=30
        ) as http:
            yield Api(http, child)
    finally:
        if child.returncode is None:
            child.terminate()
        await child.wait()
