"""The pooled upstream without a network: an engine's bytes are fed to it piece by piece.

Time jumps (`tests.support.clocks`), so what would wait for ever is an error at once.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from specgate.core.errors import NoAnswer, StreamBroken
from specgate.core.headers import Pairs
from specgate.core.lanes import Lane
from specgate.upstream.base import Origin, Request
from specgate.upstream.connection import Connection
from specgate.upstream.pool import PooledUpstream

ORIGIN = Origin.of(Lane.SPEC, "http://lane.test")
ENDS_AFTER_S = 100.0

End = Literal["stay", "fin", "rst"]


@dataclass(frozen=True)
class Script:
    """The answer to one request: pieces, each in a turn of the loop of its own, and how it ends.
    A connection that stays is ended all the same when the exchange does not end by itself."""

    pieces: tuple[bytes, ...]
    end: End = "stay"


class Cable(asyncio.Transport):
    """A transport whose other end plays scripts, one for each request."""

    def __init__(self, scripts: Iterable[Script]) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._scripts = deque(scripts)
        self._events: deque[bytes | End] = deque()
        self._paused = False
        self._closing = False
        self._running = False
        self.answered = 0
        self.protocol: Connection

    # What a connection asks of its transport

    def write(self, data: Any) -> None:
        if self._closing or not data:
            return
        script = self._scripts.popleft()
        self.answered += 1
        self._events.extend(script.pieces)
        if script.end != "stay":
            self._events.append(script.end)
        self._run()

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._run()

    def abort(self) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self.protocol.connection_lost, None)

    close = abort

    def fileno(self) -> int:
        """Of no socket: of what it took nobody knows."""
        return -1

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """All that is written is taken at once."""

    def is_closing(self) -> bool:
        return self._closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    # The other end

    @property
    def played(self) -> bool:
        return not self._events

    def end(self) -> None:
        self._events.append("fin")
        self._run()

    def _run(self) -> None:
        if not self._running:
            self._running = True
            self._loop.call_soon(self._step)

    def _step(self) -> None:
        self._running = False
        if self._paused or self._closing or not self._events:
            return
        event = self._events.popleft()
        if isinstance(event, bytes):
            if event:
                self.protocol.data_received(event)
        elif event == "fin":
            self.protocol.eof_received()
            self.abort()
        else:
            self._closing = True
            self.protocol.connection_lost(ConnectionResetError(104, "reset"))
        self._run()


class FedConnection(Connection):
    """There is no socket in which something could lie unread."""

    spoken = False

    def _salvage(self) -> None:
        return


class FedUpstream(PooledUpstream):
    """Connection k plays the k-th list of scripts."""

    def __init__(self, connections: Iterable[Iterable[Script]]) -> None:
        super().__init__(connect_timeout_s=1)
        self._to_come = deque(connections)
        self.cables: list[Cable] = []

    async def _connect(self, origin: Origin) -> Connection:
        cable = Cable(self._to_come.popleft())
        connection = FedConnection(origin.lane, self._forget, cable)  # type: ignore[arg-type]
        cable.protocol = connection
        connection.connection_made(cable)
        self.cables.append(cable)
        return connection


@dataclass
class Outcome:
    """What came of one exchange; `fault` if it ended with one."""

    status: int = 0
    reason: bytes = b""
    headers: Pairs = field(default_factory=list)
    body: bytes = b""
    trailers: Pairs = field(default_factory=list)
    fault: type[NoAnswer | StreamBroken] | None = None


class Fickle:
    """A sink that is full whenever its pattern says so."""

    def __init__(self, full: Iterable[bool]) -> None:
        self._full = deque(full)
        self.data = b""

    def write(self, piece: bytes) -> bool:
        assert piece
        self.data += piece
        return bool(self._full) and self._full.popleft()

    async def drain(self) -> None:
        await asyncio.sleep(0.01)


async def exchange(
    upstream: FedUpstream, method: bytes = b"GET", full: Iterable[bool] = ()
) -> Outcome:
    """One exchange. What waits for more than its script has is ended by the engine's FIN."""
    sink, got = Fickle(full), Outcome()

    def end() -> None:
        upstream.cables[-1].end()

    ending = asyncio.get_running_loop().call_later(ENDS_AFTER_S, end)
    try:
        response = await upstream.send(ORIGIN, Request(method, b"/", []))
        got.status, got.reason = response.status, response.reason
        got.headers = response.headers
        try:
            await response.deliver(sink, None)
        finally:
            got.body, got.trailers = sink.data, response.trailers
            await response.aclose()
    except (NoAnswer, StreamBroken) as fault:
        got.fault = type(fault)
    ending.cancel()
    return got


async def quiet(upstream: FedUpstream) -> None:
    """Until all that the engine had to say is said, or its connection has ended."""
    while any(not (cable.played or cable.is_closing()) for cable in upstream.cables):
        await asyncio.sleep(0)


def cut(raw: bytes, at: Iterable[int]) -> tuple[bytes, ...]:
    """The bytes, cut at these places."""
    places = sorted({place % (len(raw) + 1) for place in at} | {0, len(raw)})
    return tuple(raw[a:b] for a, b in pairwise(places))
