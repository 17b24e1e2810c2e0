"""What the tests of the simulated engine's HTTP surface share."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from specgate.sim.server import RunningLane

CHAT = "/v1/chat/completions"


def chat(prompt: str = "Say something.", **fields: Any) -> dict[str, Any]:
    return {"model": "sim", "messages": [{"role": "user", "content": prompt}], **fields}


@asynccontextmanager
async def client_of(lane: RunningLane) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=lane.url, timeout=20, trust_env=False) as client:
        yield client


async def events(client: httpx2.AsyncClient, path: str, body: Any) -> list[Any]:
    """The data of every event of a stream, decoded; [DONE] as it is."""
    async with client.stream("POST", path, json=body) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        raw = (await response.aread()).decode()
    assert raw.endswith("\n\n")
    found = []
    for block in raw.removesuffix("\n\n").split("\n\n"):
        assert block.startswith("data: ")
        assert "\n" not in block
        data = block.removeprefix("data: ")
        found.append(data if data == "[DONE]" else json.loads(data))
    return found


async def raw_stream(client: httpx2.AsyncClient, body: Any, into: list[bytes]) -> None:
    """Read a chat stream as it comes; what came before an error stays in `into`."""
    async with client.stream("POST", CHAT, json=body) as response:
        assert response.status_code == 200
        async for piece in response.aiter_raw():
            into.append(piece)


async def until(condition: Callable[[], bool], *, within_s: float = 5.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.002)
