"""What the contract's tests say to an upstream: requests, sinks, and one exchange in a line."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from specgate.core.headers import Pairs
from specgate.core.lanes import Lane
from specgate.upstream.base import Origin, Request, Sink, Upstream
from tests.contract.engine import Engine

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
HOST = (b"host", b"lane.test")
CHUNKED = (b"transfer-encoding", b"chunked")
LIMIT_S = 20
"""More than any exchange takes, on a machine that is busy with something else."""


def origin(engine: Engine, lane: Lane = Lane.SPEC) -> Origin:
    return Origin.of(lane, engine.url)


def get(method: bytes = b"GET") -> Request:
    return Request(method, b"/v1/models", [HOST])


def post(body: bytes = b"{}") -> Request:
    headers = [HOST, (b"content-length", b"%d" % len(body))]
    return Request(b"POST", b"/v1/completions", headers, pieces=(body,))


def upload(rest: AsyncIterator[bytes], length: int | None = None) -> Request:
    """A request whose body is still arriving, chunked unless its length is known."""
    if length is None:
        return Request(b"POST", b"/v1/files", [HOST, CHUNKED], chunked=True, rest=rest)
    headers = [HOST, (b"content-length", b"%d" % length)]
    return Request(b"POST", b"/v1/files", headers, rest=rest)


async def arriving(pieces: Iterable[bytes], pause_s: float = 0) -> AsyncIterator[bytes]:
    for piece in pieces:
        await asyncio.sleep(pause_s)
        yield piece


class Collect:
    """A sink that keeps what it is given. `full_each`: bytes after which it is full each time."""

    def __init__(self, *, full_each: int | None = None, pause_s: float = 0) -> None:
        self.pieces: list[bytes] = []
        self.waiting = 0
        self.most_waiting = 0
        self.drains = 0
        self._full_each = full_each
        self._pause_s = pause_s

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)

    def write(self, piece: bytes) -> bool:
        assert piece, "an empty piece would end a chunked body"
        self.pieces.append(piece)
        self.waiting += len(piece)
        self.most_waiting = max(self.most_waiting, self.waiting)
        return self._full_each is not None and self.waiting >= self._full_each

    async def drain(self) -> None:
        self.drains += 1
        await asyncio.sleep(self._pause_s)
        self.waiting = 0


@dataclass
class Got:
    status: int
    reason: bytes
    headers: Pairs
    body: bytes
    trailers: Pairs


async def ask(
    upstream: Upstream,
    to: Engine | Origin,
    request: Request | None = None,
    *,
    sink: Sink | None = None,
    idle_s: float | None = None,
) -> Got:
    """One exchange, closed on every path, and never longer than LIMIT_S."""
    where = origin(to) if isinstance(to, Engine) else to
    into = sink or Collect()
    async with asyncio.timeout(LIMIT_S):
        response = await upstream.send(where, request or get())
        try:
            await response.deliver(into, idle_s)
        finally:
            await response.aclose()
    data = into.data if isinstance(into, Collect) else b""
    return Got(response.status, response.reason, response.headers, data, response.trailers)


async def cancel(task: "asyncio.Task[object]") -> None:
    """Cancel it and wait for its end."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
