"""Calls that the gate makes: a measure of its work that no busy neighbour disturbs.

A real gate, engine and client share one event loop and real sockets; counted are the functions of
`specgate` that run, and the built-in ones that they call, between two points.
"""

import asyncio
import os
import resource
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import FrameType
from typing import Any

import specgate
from tests.perf.engine import Engine
from tests.perf.load import request
from tests.support.live import LiveGate, running_gate

_PACKAGE = os.path.dirname(specgate.__file__)


class Calls:
    """`python`: functions of the package; `built_in`: those in C that it calls."""

    python = 0
    built_in = 0

    @property
    def total(self) -> int:
        return self.python + self.built_in

    def saw(self, frame: FrameType, event: str, _: Any) -> None:
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            return
        if event == "call":
            self.python += 1
        elif event == "c_call":
            self.built_in += 1


@contextmanager
def counted() -> Iterator[Calls]:
    calls = Calls()
    sys.setprofile(calls.saw)
    try:
        yield calls
    finally:
        sys.setprofile(None)


@asynccontextmanager
async def gate_and_engine() -> AsyncIterator[LiveGate]:
    """Both lanes are one engine. No probe falls into what is counted."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Engine, "127.0.0.1", 0, backlog=4096)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, running_gate(url, url, threshold=8, probe_interval_s=3600) as gate:
        yield gate


class Client:
    """One connection; answers are told by their end alone."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, gate: LiveGate) -> "Client":
        return cls(*await asyncio.open_connection(gate.host, gate.port))

    async def ask(self) -> None:
        self._writer.write(request())
        await self._reader.readuntil(b'"total_tokens": 110}}')

    async def stream(self, chunks: int, gap_ms: int) -> None:
        self._writer.write(request(b"/v1/chat/completions?chunks=%d&gap_ms=%d" % (chunks, gap_ms)))
        await self._reader.readuntil(b"\r\n0\r\n\r\n")

    def close(self) -> None:
        self._writer.close()


async def calls_per_request(requests: int = 100, *, connections_resting: int = 0) -> Calls:
    """On a connection that is kept, to a connection that is kept."""
    async with gate_and_engine() as gate:
        many = [await Client.to(gate) for _ in range(max(1, connections_resting))]
        # All at once, so that each has a connection to the engine of its own.
        await asyncio.gather(*(client.ask() for client in many))
        each = []
        for _ in range(requests):
            with counted() as calls:
                await many[0].ask()
            each.append(calls)
        for client in many:
            client.close()
    # The median: a tick of the gate's clock may fall into a request, on a slow machine into many.
    return sorted(each, key=lambda calls: calls.total)[requests // 2]


async def calls_per_chunk(streams: int, chunks: int, gap_ms: int) -> Calls:
    """Of streams that run side by side; beginning and end are not counted. gap_ms: long enough for
    all streams' chunks to pass, or two of them may pass as one."""
    async with gate_and_engine() as gate:
        clients = [await Client.to(gate) for _ in range(streams)]
        await asyncio.gather(*(client.ask() for client in clients))
        with counted() as short:
            await asyncio.gather(*(client.stream(1, gap_ms) for client in clients))
        with counted() as long:
            await asyncio.gather(*(client.stream(1 + chunks, gap_ms) for client in clients))
        for client in clients:
            client.close()
    long.python -= short.python
    long.built_in -= short.built_in
    return _shared(long, streams * chunks)


def _shared(calls: Calls, by: int) -> Calls:
    calls.python = round(calls.python / by)
    calls.built_in = round(calls.built_in / by)
    return calls


def allow_files(count: int) -> bool:
    """Raise the limit of open files, if it may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count <= hard or (soft < count and hard == resource.RLIM_INFINITY):
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= count
