"""Engines for the bench's tests: the simulated pair, and one that says what it is told to."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from specgate.bench.asking import Arm, Caller, Manner
from specgate.core.lanes import Lane
from specgate.sim.profiles import load_profile
from specgate.sim.server import RunningLane, SimLane, running


@asynccontextmanager
async def pair(
    profile: str = "reference", *, time_scale: float = 30, seed: int = 7
) -> AsyncIterator[Mapping[Lane, RunningLane]]:
    """Both simulated lanes on real sockets; nothing else uses them."""
    lanes = [SimLane(lane=lane) for lane in Lane]
    loaded = load_profile(profile)
    async with running(lanes, profile=loaded, time_scale=time_scale, seed=seed) as sims:
        yield sims


@asynccontextmanager
async def calling(url: str, name: str = "spec", **manner) -> AsyncIterator[Caller]:
    caller = Caller(Arm(name=name, url=url, model="sim"), Manner(**manner))
    try:
        yield caller
    finally:
        await caller.aclose()


def sse(*events: str) -> bytes:
    body = "".join(f"data: {event}\n\n" for event in events).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


@asynccontextmanager
async def saying(reply: bytes) -> AsyncIterator[str]:
    """An engine that answers each POST with these bytes, and knows no GET; its URL."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"POST"):
                    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r")[0])
                    await reader.readexactly(length)
                    writer.write(reply)
                else:
                    writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
